import { describe, expect, it } from 'vitest';
import { resource } from '../../../core/index.ts';
import type { Predicate } from '../../../contract/index.ts';
import { MAX_PREDICATE_NODES } from '../../../contract/source.ts';
import { checkScopes, checkSources } from '../handlers/check-sources.ts';
import { decodeDescription } from './describe.ts';

const pods = { apiVersion: 'v1', kind: 'Pod' };
const nodes = { apiVersion: 'v1', kind: 'Node' };
const least = { version: 'v1', name: 'web', for: pods };
const decode = (rest: object) => decodeDescription({ ...least, ...rest }, 'http://f');
const filtered = (predicate: unknown) => ({ for: { ...pods, predicate } });
const mapped = (map: unknown) => ({ watches: [{ ...pods, map }] });
const depth = (levels: number): object => (levels === 1 ? { changed: 'labels' } : { not: depth(levels - 1) });

describe('a description whose sources are wrong', () => {
  it.each<[object, string]>([
    [{ for: 'v1/Pod' }, 'is wrong at for: '],
    [{ for: { ...pods, namespaces: [] } }, 'is wrong at for.namespaces: '],
    [{ for: { ...pods, namespaces: ['a', 'B'] } }, 'is wrong at for.namespaces.1: must be the name of a namespace'],
    [{ reads: [{ ...pods, namespaces: 'a' }] }, 'is wrong at reads.0.namespaces: '],
    [{ owns: [{ ...pods, owner: 'all' }] }, 'is wrong at owns.0.owner: '],
    [{ for: { ...pods, labelSelector: { app: 'web' } } }, 'is wrong at for.labelSelector: Unrecognized key: "app"'],
    [
      { for: { ...pods, labelSelector: { matchLabels: { app: 'a b' } } } },
      'is wrong: for.labelSelector is not a label selector: ',
    ],
    [
      { for: { ...pods, labelSelector: { matchExpressions: [{ key: 'a', operator: 'In' }] } } },
      "for 'in', 'notin' operators, values set can't be empty",
    ],
    [filtered({}), 'is wrong at for.predicate: must have exactly one of changed, labelSelector, cel, all, any, not'],
    [filtered({ changed: 'spec' }), 'is wrong at for.predicate.changed: '],
    [filtered({ changed: 'labels', cel: 'true' }), 'is wrong at for.predicate: must have exactly one of'],
    [filtered({ all: [] }), 'is wrong at for.predicate.all: '],
    [filtered(depth(5)), 'is wrong at for.predicate.not.not.not: Unrecognized key: "not"'],
    [
      filtered({ all: Array.from({ length: MAX_PREDICATE_NODES }, () => ({ changed: 'labels' })) }),
      'is wrong: for.predicate is made of 33 predicates: 32 at most.',
    ],
    [
      filtered({ any: [{ changed: 'labels' }, { not: { cel: 'object.a ==' } }] }),
      'is wrong: for.predicate.any.1.not.cel is not a valid expression: it ',
    ],
    [
      filtered({ labelSelector: { matchLabels: { '-': '' } } }),
      'for.predicate.labelSelector is not a label selector: ',
    ],
    [{ owns: [{ ...pods, predicate: { cel: 'self' } }] }, 'owns.0.predicate.cel is not a valid expression'],
    [mapped(undefined), 'is wrong at watches.0.map: must be an object whose `by` is index, selector, owner,'],
    [mapped({ by: 'magic' }), 'is wrong at watches.0.map.by: must be an object whose `by` is index,'],
    [mapped({ by: 'label' }), 'is wrong at watches.0.map.label: '],
    [mapped({ by: 'field', path: '' }), 'is wrong at watches.0.map.path: '],
    [
      mapped({ by: 'cel', expression: 'oldObject.metadata.name' }),
      'is wrong: watches.0.map.expression is not a valid expression: it uses the unknown name "oldObject" (known: object) at line 1, column 1.',
    ],
  ])('%j is told by one sentence that names the field', (rest, message) => {
    expect(() => decode(rest)).toThrow(`the description of http://f ${message.startsWith('is wrong') ? message : ''}`);
    expect(() => decode(rest)).toThrow(message);
  });

  it('may be as large as it says', () => {
    const leaves: Predicate[] = Array.from({ length: MAX_PREDICATE_NODES - 1 }, () => ({ changed: 'labels' }));
    expect(() => decode(filtered({ all: leaves }))).not.toThrow();
    expect(() => decode(filtered(depth(4)))).not.toThrow();
  });
});

describe('a description as a whole', () => {
  const many = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);
  const leaf = { changed: 'labels' };
  const watched = (predicate: object) => ({ ...pods, map: { by: 'all' }, predicate });
  const nested = (levels: number): unknown => {
    let inner: unknown = [];
    for (let level = 0; level < levels; level += 1) inner = [inner];
    return inner;
  };
  const cel = (at: number) => ({ ...pods, map: { by: 'cel', expression: `object.a${at}` } });

  it.each<[object, string]>([
    [
      { owns: many(11, pods), watches: many(11, { ...pods, map: { by: 'all' } }), reads: many(10, pods) },
      'is wrong: for, owns, watches and reads name 33 kinds together: 32 at most.',
    ],
    [{ owns: many(40, pods) }, 'is wrong at owns: '],
    [{ indexes: many(17, { ...pods, index: 'field:spec.a' }) }, 'is wrong at indexes: '],
    [
      { watches: Array.from({ length: 17 }, (_, at) => cel(at)) },
      'is wrong: watches.16.map.expression is one too many: there are 17 CEL expressions, and 16 at most.',
    ],
    [
      { watches: many(3, watched({ all: many(25, leaf) })) },
      'is wrong: watches.2.predicate is one too many: all predicates together may be made of 64 that combine no others.',
    ],
    [{ more: 'x'.repeat(40_000) }, 'is wrong: it is 40078 bytes of JSON: 32768 at most.'],
    [{ more: nested(20_000) }, 'is wrong: it is nested too deep.'],
  ])('has bounds, and is told which it exceeds', (rest, message) => {
    expect(() => decode(rest)).toThrow(message);
  });

  it('may hold an integer of 64 bits in a field that is not known here', () => {
    expect(() => decode({ more: { most: 2n ** 63n - 1n } })).not.toThrow();
    expect(() => decode({ name: 2n ** 63n - 1n })).toThrow('is wrong at name: ');
  });

  it('may be as large as it says', () => {
    const rest = {
      owns: many(15, pods),
      watches: Array.from({ length: 16 }, (_, at) => ({ ...cel(at), predicate: { all: many(4, leaf) } })),
      for: { ...pods, labelSelector: { matchExpressions: [{ key: 'a', operator: 'In', values: many(2000, 'x') }] } },
      indexes: many(16, { ...pods, index: 'field:spec.a' }),
    };
    expect(() => decode(rest)).not.toThrow();
  });
});

it('namespaces are not for kinds that have none', () => {
  const resources = [resource('v1', 'Pod'), resource('v1', 'Node', { namespaced: false })];
  const namespaces = ['a'];
  const check = (rest: object) => () => {
    const description = decode(rest);
    checkSources(description);
    checkScopes(description, resources);
  };
  expect(check({ for: { ...pods, namespaces }, owns: [nodes], reads: [{ ...pods, namespaces }] })).not.toThrow();
  const message = (field: string) => `${field}.namespaces is not for v1/Node, which has no namespaces: leave it out.`;
  expect(check({ for: { ...nodes, namespaces } })).toThrow(message('for'));
  expect(check({ owns: [pods, { ...nodes, namespaces }] })).toThrow(message('owns.1'));
  expect(check({ watches: [{ ...nodes, namespaces, map: { by: 'all' } }] })).toThrow(message('watches.0'));
  expect(check({ reads: [{ ...nodes, namespaces }] })).toThrow(message('reads.0'));
});

it('values are observed only of kinds that are cached', () => {
  const check = (rest: object) => () => checkSources(decode(rest));
  const observes = [{ ...pods, field: 'status.phase' }];
  expect(check({ for: nodes, reads: [pods], observes })).not.toThrow();
  expect(check({ for: nodes, observes })).toThrow(
    'observes.0 is of v1/Pod: name this kind in for, owns, watches or reads',
  );
});

describe('webhooks that are wrong', () => {
  const admission = { ...pods, type: 'validating', name: 'a', operations: ['CREATE'] };
  const conversion = { ...pods, type: 'conversion', name: 'a', versions: ['v1', 'v2'] };

  it.each<[object[], string]>([
    [
      [admission, { ...conversion }],
      'webhooks.1.name is "a", as that of an earlier webhook: give each a name of its own.',
    ],
    [[{ ...conversion, versions: ['v2', 'v3'] }], 'webhooks.0.versions lacks v1, the version of apiVersion.'],
    [[{ ...conversion, versions: ['v1', 'v2', 'v2'] }], 'webhooks.0.versions has v2 twice.'],
    [
      [{ ...admission, objectSelector: { matchLabels: { app: 'a b' } } }],
      'webhooks.0.objectSelector is not a label selector: ',
    ],
    [
      [admission, { ...admission, name: 'b', namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'In' }] } }],
      'webhooks.1.namespaceSelector is not a label selector: ',
    ],
  ])('%j is told by one sentence that names the field', (webhooks, message) => {
    expect(() => decode({ webhooks })).toThrow(message);
  });

  it('those that are right are taken', () => {
    expect(() => decode({ webhooks: [admission, { ...conversion, name: 'b' }] })).not.toThrow();
  });

  it('namespaces are not for kinds that have none', () => {
    const resources = [resource('v1', 'Pod'), resource('v1', 'Node', { namespaced: false })];
    const check = (webhook: object) => () => checkScopes(decode({ webhooks: [webhook] }), resources);
    expect(check({ ...admission, namespaces: ['a'] })).not.toThrow();
    expect(check({ ...admission, kind: 'Node', namespaces: ['a'] })).toThrow(
      'webhooks.0.namespaces is not for v1/Node, which has no namespaces: leave it out.',
    );
  });
});
