import { describe, expect, it } from 'vitest';
import { resource } from '../../core/index.ts';
import { MAX_PREDICATE_NODES, type Predicate } from '../../contract/index.ts';
import { checkScopes, checkSources } from './check-sources.ts';
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
      'is wrong: for.labelSelector is no label selector: ',
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
      'is wrong: for.predicate.any.1.not.cel is no expression that can be used: it ',
    ],
    [filtered({ labelSelector: { matchLabels: { '-': '' } } }), 'for.predicate.labelSelector is no label selector: '],
    [{ owns: [{ ...pods, predicate: { cel: 'self' } }] }, 'owns.0.predicate.cel is no expression that can be used'],
    [mapped(undefined), 'is wrong at watches.0.map: must be an object whose `by` is index, selector, owner,'],
    [mapped({ by: 'magic' }), 'is wrong at watches.0.map.by: must be an object whose `by` is index,'],
    [mapped({ by: 'label' }), 'is wrong at watches.0.map.label: '],
    [mapped({ by: 'field', path: '' }), 'is wrong at watches.0.map.path: '],
    [
      mapped({ by: 'cel', expression: 'oldObject.metadata.name' }),
      'is wrong: watches.0.map.expression is no expression that can be used: it knows no "oldObject" (it has object) at line 1, column 1.',
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
