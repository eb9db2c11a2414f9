import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { asLabelSelector, type KubernetesObject, matchesLabels, type OwnerReference } from '../core/index.ts';
import {
  decodeEntry,
  encodeEntry,
  indexEntriesOf,
  indexValues,
  isIndexSpec,
  uncountedIndex,
  viewKeys,
  viewPrefix,
} from './cache-layout.ts';

const line = fc.stringMatching(/^[^\n]+$/);
const uid = fc.stringMatching(/^[!-~]{1,128}$/);
const owner = (uid: string, controller?: boolean): OwnerReference => ({
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  name: 'x',
  uid,
  ...(controller === undefined ? {} : { controller }),
});
const object = (namespace?: string, ownerReferences?: OwnerReference[]): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'a',
    uid: 'u',
    resourceVersion: '1',
    ...(namespace === undefined ? {} : { namespace }),
    ...(ownerReferences === undefined ? {} : { ownerReferences }),
  },
});

describe('an entry', () => {
  it('is the same after it was written and read', () => {
    const entry = fc.record({
      resourceVersion: fc.bigInt({ min: 1n }).map(String),
      uid,
      terminating: fc.boolean(),
      indexEntries: fc.array(line),
    });
    fc.assert(
      fc.property(entry, (given) => {
        expect(decodeEntry(encodeEntry(given))).toEqual(given);
      }),
    );
  });

  it('keeps its lines, whatever stands in them', () => {
    const entry = fc.record({
      uid: fc.string(),
      indexEntries: fc.array(fc.string({ unit: fc.constantFrom('a', '\n') })),
    });
    fc.assert(
      fc.property(entry, (given) => {
        const read = decodeEntry(encodeEntry({ resourceVersion: '1', terminating: false, ...given }));
        expect(read.resourceVersion).toBe('1');
        expect([given.uid, '']).toContain(read.uid);
        expect(read.terminating).toBe(false);
        expect(given.indexEntries).toEqual(expect.arrayContaining([...read.indexEntries]));
      }),
    );
  });

  it('has the form that the apply script reads: version, UID, flag, indexes', () => {
    const given = { resourceVersion: '5', uid: 'u', terminating: true, indexEntries: ['namespace:a', 'orphan:a'] };
    expect(encodeEntry(given)).toBe('5\nu\nT\nnamespace:a\norphan:a');
    expect(encodeEntry({ ...given, terminating: false, indexEntries: [] })).toBe('5\nu\n');
  });
});

describe('the index entries of an object', () => {
  it.each<[string, KubernetesObject, string[]]>([
    ['without an owner', object('a'), ['namespace:a', 'orphan:a']],
    ['with a controller', object('a', [owner('o', true)]), ['namespace:a', 'controller:o']],
    ['whose owners do not manage it', object('a', [owner('o'), owner('p', false)]), ['namespace:a', 'orphan:a']],
    [
      'with a controller among its owners',
      object('a', [owner('o'), owner('p', true)]),
      ['namespace:a', 'controller:p'],
    ],
    ['of the cluster', object(), []],
    ['of the cluster with a controller', object(undefined, [owner('o', true)]), ['controller:o']],
  ])('%s', (_which, given, entries) => {
    expect(indexEntriesOf(given)).toEqual(entries);
  });
});

describe('the keys of a view', () => {
  const scope = { keyPrefix: 'levelhook', clusterId: 'c', resource: { apiVersion: 'v1', kind: 'Pod' }, settings: 's' };

  it('share one hash tag', () => {
    const prefix = viewPrefix(scope);
    const tag = /^\{([^{}]+)\}$/.exec(prefix)?.[1];
    expect(tag).toBeDefined();
    for (const key of Object.values(viewKeys(prefix))) expect(key.startsWith(`{${tag}}:`)).toBe(true);
    expect(new Set(Object.values(viewKeys(prefix))).size).toBe(7);
  });

  it('are not those of another cluster, kind, version, setting or prefix', () => {
    const others = [
      scope,
      { ...scope, keyPrefix: 'other' },
      { ...scope, clusterId: 'd' },
      { ...scope, resource: { apiVersion: 'v2', kind: 'Pod' } },
      { ...scope, resource: { apiVersion: 'v1', kind: 'Node' } },
      { ...scope, settings: 't' },
    ];
    expect(new Set(others.map(viewPrefix)).size).toBe(others.length);
  });
});

describe('the entries of an object with long lists', () => {
  const withLists = (lists: Record<string, number>, padding = 0): KubernetesObject => {
    const spec = Object.fromEntries(
      Object.entries(lists).map(([name, length]) => [name, Array.from({ length }, (_, at) => `v${at}`)]),
    );
    return { ...object('a'), spec, padding: 'x'.repeat(padding) } as KubernetesObject;
  };
  const declaredOf = (of: KubernetesObject, ...specs: Parameters<typeof indexEntriesOf>[1] & object): string[] =>
    indexEntriesOf(of, specs).slice(2);

  it('are all values of a list that is short, or small beside its object', () => {
    expect(declaredOf(withLists({ refs: 32 }), 'field:spec.refs')).toHaveLength(32);
    expect(declaredOf(withLists({ refs: 500 }, 130_000), 'field:spec.refs')).toHaveLength(500);
  });

  it('are one mark for a list beyond that, whatever its size', () => {
    const mark = [uncountedIndex('field:spec.refs')];
    expect(declaredOf(withLists({ refs: 40 }), 'field:spec.refs')).toEqual(mark);
    expect(declaredOf(withLists({ refs: 120_000 }), 'field:spec.refs')).toEqual(mark);
  });

  it('are fewer for an object with a long name, which each of them holds', () => {
    const long = withLists({ refs: 500 }, 130_000);
    const metadata = { ...long.metadata, name: 'n'.repeat(1024) };
    expect(declaredOf({ ...long, metadata }, 'field:spec.refs')).toEqual([uncountedIndex('field:spec.refs')]);
  });

  it('are one mark for a list whose values are long when they are encoded', () => {
    const spec = { refs: Array.from({ length: 900 }, (_, at) => `${at}${' '.repeat(1000)}`) };
    const long = { ...object('a'), spec } as KubernetesObject;
    expect(declaredOf(long, 'field:spec.refs')).toEqual([uncountedIndex('field:spec.refs')]);
    const short = { ...object('a'), spec: { refs: spec.refs.map((ref) => ref.replaceAll(' ', 'x')) } };
    expect(declaredOf(short as KubernetesObject, 'field:spec.refs')).toHaveLength(900);
  });

  it('leave the short lists and single values of the object as they are', () => {
    const specs = ['field:spec.long', 'field:spec.short', 'field:metadata.name'] as const;
    const entries = declaredOf(withLists({ long: 5000, short: 3 }), ...specs);
    expect(entries.toSorted()).toEqual([
      'field:metadata.name=a',
      uncountedIndex('field:spec.long'),
      'field:spec.short=v0',
      'field:spec.short=v1',
      'field:spec.short=v2',
    ]);
  });

  it('are no more for many lists than for one', () => {
    const lists = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`list${at}`, 20]));
    const specs = Object.keys(lists).map((name) => `field:spec.${name}` as const);
    const entries = declaredOf(withLists(lists), ...specs);
    const marks = new Set<string>(specs.map(uncountedIndex));
    expect(entries.filter((entry) => !marks.has(entry)).length).toBeLessThanOrEqual(60);
    expect(new Set(entries.map((entry) => entry.slice(0, entry.indexOf('='))))).toEqual(new Set(specs));
  });

  it('are a mark for a value that is long, which readers of entries do not expect', () => {
    const refOf = (length: number): KubernetesObject =>
      ({ ...object('a'), spec: { ref: 'x'.repeat(length), refs: ['a', 'x'.repeat(length)] } }) as KubernetesObject;
    expect(declaredOf(refOf(1024), 'field:spec.ref', 'field:spec.refs').map(({ length }) => length)).toContain(1039);
    const marks = [uncountedIndex('field:spec.ref'), uncountedIndex('field:spec.refs')];
    expect(declaredOf(refOf(1025), 'field:spec.ref', 'field:spec.refs')).toEqual(marks);
    const demanding = { ...object('a'), spec: { selector: { app: 'x'.repeat(2000) } } } as KubernetesObject;
    expect(declaredOf(demanding, 'selector:spec.selector')).toEqual([]);
  });

  it('have a mark that is the entry of no value', () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        const named = { ...object('a'), spec: { ref: value } } as KubernetesObject;
        expect(indexEntriesOf(named, ['field:spec.ref'])).not.toContain(uncountedIndex('field:spec.ref'));
      }),
    );
  });
});

describe('the values of a declared index', () => {
  const labelled = (metadata: object, more: object = {}): KubernetesObject => ({
    ...object('a'),
    ...more,
    metadata: { ...object('a').metadata, ...metadata },
  });
  const parsed = (text: string): Record<string, string> => JSON.parse(text) as Record<string, string>;

  it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])('are own properties only: %s', (name) => {
    const without = labelled({ labels: { app: 'web' }, annotations: {} }, { spec: {} });
    const specs = [`label:${name}`, `annotation:${name}`, `field:spec.${name}`, `field:${name}.name`] as const;
    for (const spec of specs) expect(indexValues(without, spec)).toEqual([]);
    expect(indexEntriesOf(without, specs)).toEqual(['namespace:a', 'orphan:a']);
    const one = parsed(`{"${name}": "x"}`);
    const having = labelled({ labels: one, annotations: one }, { spec: one });
    for (const spec of specs.slice(0, 3)) expect(indexValues(having, spec)).toEqual(['x']);
  });

  it('are the texts, numbers and booleans at a path, through lists, each once and in their order', () => {
    const given = labelled(
      {},
      {
        spec: {
          refs: [{ name: 'a' }, [{ name: ['b', 1, 2n ** 63n] }], { name: 'a' }, null, 5, { name: {} }, { name: true }],
        },
      },
    );
    expect(indexValues(given, 'field:spec.refs.name')).toEqual(['a', 'b', '1', '9223372036854775808', 'true']);
  });

  it('are found in what is nested deeper than the stack', () => {
    let [list, record]: unknown[] = ['x', 'x'];
    for (let depth = 0; depth < 100_000; depth += 1) [list, record] = [[list], { a: record }];
    expect(indexValues(labelled({}, { list }), 'field:list')).toEqual(['x']);
    expect(indexValues(labelled({}, { record }), `field:record${'.a'.repeat(200)}`)).toEqual([]);
  });

  it('take the time of the values, and not of each name of the path for each of them', () => {
    const names = Array.from({ length: 8000 }, () => 'x');
    const costOf = (path: string): number => {
      const from = process.threadCpuUsage();
      for (let round = 0; round < 20; round += 1) indexValues(labelled({}, { names }), `field:${path}`);
      const { user, system } = process.threadCpuUsage(from);
      return user + system;
    };
    const long = `names${'.a'.repeat(250)}`;
    for (const path of [long, 'names.a']) costOf(path);
    // The kernel may count in ticks of 4 ms, and nothing below one.
    expect(costOf(long)).toBeLessThan(25 * Math.max(4000, costOf('names.a')));
  });

  it('are none of labels that are no text', () => {
    expect(indexValues(labelled({ labels: { a: {} } }), 'label:a')).toEqual([]);
    expect(indexValues(labelled({ labels: { a: {}, b: '1' } }), 'labels')).toEqual(['b=1']);
  });

  it('are all labels in the index of labels', () => {
    expect(indexValues(labelled({ labels: { app: 'web', tier: '' } }), 'labels')).toEqual(['app=web', 'tier=']);
    expect(indexValues(labelled({}), 'labels')).toEqual([]);
  });

  it.each<[string, unknown, string[]]>([
    ['one of the labels that a Service names, the longest', { tier: 'a', application: 'web' }, ['application=web']],
    ['one that a LabelSelector names', { matchLabels: { app: 'web' } }, ['app=web']],
    [
      'one that an expression names alone',
      { matchExpressions: [{ key: 'app', operator: 'In', values: ['w'] }] },
      ['app=w'],
    ],
    ['none where several would do', { matchExpressions: [{ key: 'app', operator: 'In', values: ['v', 'w'] }] }, ['']],
    ['none of a selector of absent labels', { matchExpressions: [{ key: 'app', operator: 'DoesNotExist' }] }, ['']],
    ['none of an empty selector', {}, ['']],
    ['none of a selector with no labels', { matchLabels: {} }, ['']],
    ['nothing of what is no selector', 'app=web', []],
    ['nothing of what is absent', undefined, []],
    ['nothing of null', null, []],
  ])('are in the index of a selector %s', (_, selector, expected) => {
    expect(indexValues(labelled({}, { spec: { selector } }), 'selector:spec.selector')).toEqual(expected);
  });

  it('find every selector that selects an object, by one of its labels or as one that demands none', () => {
    const word = fc.constantFrom('a', 'b', 'c');
    const labels = fc.dictionary(word, word, { maxKeys: 3 });
    const expression = fc.record({
      key: word,
      operator: fc.constantFrom('In', 'NotIn', 'Exists', 'DoesNotExist'),
      values: fc.array(word, { maxLength: 2 }),
    });
    const selector = fc.oneof(
      labels,
      fc.record(
        { matchLabels: labels, matchExpressions: fc.array(expression, { maxLength: 2 }) },
        { requiredKeys: [] },
      ),
    );
    let selecting = 0;
    fc.assert(
      fc.property(selector, labels, (spec, carried) => {
        const wanted = asLabelSelector(spec);
        if (!wanted || !matchesLabels(wanted, carried)) return;
        selecting += 1;
        const asked = ['', ...indexValues(labelled({ labels: carried }), 'labels')];
        const [value] = indexValues(labelled({}, { spec: { selector: spec } }), 'selector:spec.selector');
        expect(asked).toContain(value);
      }),
      { numRuns: 3000 },
    );
    expect(selecting).toBeGreaterThan(300);
  });

  it('become one line each, whatever they are', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        const [, , entry = ''] = indexEntriesOf(labelled({ labels: { a: `${value}\n\ud800` } }), ['label:a']);
        expect(entry).toMatch(/^label:a=[^\n]+$/);
      }),
    );
  });

  it('are those of a spec that names a path or a key, and of no other text', () => {
    for (const spec of ['field:spec.a', 'label:constructor', 'annotation:a.b/C', 'labels'])
      expect(isIndexSpec(spec)).toBe(true);
    for (const text of [
      '',
      'label:',
      'labels:a',
      'selector:spec.selector',
      'field:a\nb',
      'label:__proto__',
      'annotation:a\nb',
      'constructor:a',
      '__proto__:a',
      `field:${'x'.repeat(600)}`,
    ])
      expect(isIndexSpec(text)).toBe(false);
  });
});

describe('an owner whose UID is none', () => {
  it.each(['a\nnamespace:victim', 'a b', 'x'.repeat(200), ''])('writes no entry: %j', (uid) => {
    const entries = indexEntriesOf(object('a', [owner(uid, true)]));
    expect(entries).toEqual(['namespace:a']);
    const entry = encodeEntry({ resourceVersion: '5', uid, terminating: false, indexEntries: ['a\nb', ...entries] });
    expect(decodeEntry(entry)).toEqual({ resourceVersion: '5', uid: '', terminating: false, indexEntries: entries });
  });
});
