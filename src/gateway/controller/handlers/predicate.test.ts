import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KubernetesObject } from '../../../core/index.ts';
import type { Predicate } from '../../../contract/index.ts';
import type { Change } from '../../informer/cache/change.ts';
import { EventPredicate, visitLeaves } from './predicate.ts';

const objectWith = (metadata: Partial<KubernetesObject['metadata']> = {}): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'n', name: 'x', uid: 'u', resourceVersion: '1', generation: 1, ...metadata },
});
const noCel = (): never => {
  throw new Error('there is no expression');
};
const passes = (predicate: Predicate, change: Change): boolean => new EventPredicate(predicate, noCel).passes(change);
const updated = (
  old: Partial<KubernetesObject['metadata']>,
  now: Partial<KubernetesObject['metadata']>,
): Change & { type: 'updated' } => ({
  type: 'updated',
  old: objectWith(old),
  object: objectWith({ resourceVersion: '2', ...now }),
});

describe('what has changed', () => {
  const changes = {
    generation: updated({}, { generation: 2 }),
    labels: updated({ labels: { a: '1' } }, { labels: { a: '2' } }),
    annotations: updated({}, { annotations: { a: '' } }),
    status: updated({ labels: { a: '1', b: '2' } }, { labels: { b: '2', a: '1' } }),
    nothingSaid: updated({}, { labels: {}, annotations: {} }),
  };

  it.each([
    ['generation', ['generation']],
    ['labels', ['labels']],
    ['annotations', ['annotations']],
    ['resourceVersion', ['generation', 'labels', 'annotations', 'status', 'nothingSaid']],
  ] as const)('%s: passes updates that change it, adds and deletes', (changed, passing) => {
    const found = Object.entries(changes).filter(([, change]) => passes({ changed }, change));
    expect(found.map(([name]) => name)).toEqual(passing);
    for (const type of ['added', 'deleted'] as const) {
      expect(passes({ changed }, { type, object: objectWith() })).toBe(true);
    }
  });

  it('of a kind without generations never the generation', () => {
    const none = { generation: undefined } as unknown as KubernetesObject['metadata'];
    expect(passes({ changed: 'generation' }, updated(none, { ...none, labels: { a: '' } }))).toBe(false);
  });

  it('passes where the old object is not to be had', () => {
    expect(passes({ changed: 'labels' }, { type: 'updated', object: objectWith() })).toBe(true);
  });
});

it('a label selector looks at the object as it is now, whatever happened to it', () => {
  const predicate = { labelSelector: { matchLabels: { a: '1' } } };
  expect(passes(predicate, updated({}, { labels: { a: '1' } }))).toBe(true);
  expect(passes(predicate, updated({ labels: { a: '1' } }, {}))).toBe(false);
  expect(passes(predicate, { type: 'deleted', object: objectWith({ labels: { a: '1' } }) })).toBe(true);
  expect(passes(predicate, { type: 'deleted', object: objectWith() })).toBe(false);
});

describe('combinations', () => {
  const names = ['a', 'b', 'c', 'd'] as const;
  const leaf: fc.Arbitrary<Predicate> = fc.oneof(
    fc.constantFrom(...names).map((name) => ({ labelSelector: { matchLabels: { [name]: '1' } } })),
    fc.constantFrom('generation', 'labels', 'annotations', 'resourceVersion').map((changed) => ({ changed })),
    fc.constantFrom('true', 'false', 'object', 'oldObject').map((cel) => ({ cel })),
  );
  const { tree } = fc.letrec<{ tree: Predicate }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 3 },
      leaf,
      fc.array(tie('tree'), { minLength: 1, maxLength: 3 }).map((all) => ({ all })),
      fc.array(tie('tree'), { minLength: 1, maxLength: 3 }).map((any) => ({ any })),
      tie('tree').map((not) => ({ not })),
    ),
  }));
  const metadata = fc.record({
    generation: fc.integer({ min: 1, max: 2 }),
    labels: fc.dictionary(fc.constantFrom(...names), fc.constantFrom('1', '2'), { maxKeys: 3 }),
    annotations: fc.dictionary(fc.constantFrom(...names), fc.constantFrom('1'), { maxKeys: 1 }),
  });
  const change: fc.Arbitrary<Change> = fc.oneof(
    fc.tuple(metadata, metadata).map(([old, now]) => updated(old, now)),
    fc
      .tuple(fc.constantFrom('added' as const, 'deleted' as const), metadata)
      .map(([type, now]) => ({ type, object: objectWith(now) })),
  );
  /** "object" and "oldObject" tell whether the one or the other has the label "a". */
  const has = (object: KubernetesObject | undefined): boolean => object?.metadata.labels?.['a'] !== undefined;
  const compile = (text: string) => ({
    usesOld: text === 'oldObject',
    evaluate: (object: KubernetesObject, old: KubernetesObject | undefined) =>
      text === 'object' ? has(object) : text === 'oldObject' ? has(old) : text === 'true',
  });
  const plain = (predicate: Predicate, told: Change): boolean => {
    if ('all' in predicate) return predicate.all.every((each) => plain(each, told));
    if ('any' in predicate) return predicate.any.some((each) => plain(each, told));
    if ('not' in predicate) return !plain(predicate.not, told);
    return new EventPredicate(predicate, compile).passes(told);
  };

  it('are boolean algebra', () => {
    fc.assert(
      fc.property(tree, change, (predicate, told) => {
        expect(new EventPredicate(predicate, compile).passes(told)).toBe(plain(predicate, told));
      }),
      { numRuns: 2000 },
    );
  });

  it('do not ask for the old object where it makes no difference', () => {
    let spared = 0;
    fc.assert(
      fc.property(tree, metadata, metadata, (predicate, old, now) => {
        const told = updated(old, now);
        const event = new EventPredicate(predicate, compile);
        if (event.needsOld(told.object)) return;
        spared += 1;
        expect(event.passes({ type: 'updated', object: told.object })).toBe(event.passes(told));
      }),
      { numRuns: 2000 },
    );
    expect(spared).toBeGreaterThan(100);
  });

  it('know what a new object is answered, where that is the same for all', () => {
    fc.assert(
      fc.property(tree, metadata, (predicate, now) => {
        const event = new EventPredicate(predicate, compile);
        if (event.forNew === undefined) return;
        expect(event.passes({ type: 'added', object: objectWith(now) })).toBe(event.forNew);
      }),
      { numRuns: 1000 },
    );
  });

  it('let pass what a part that fails would have decided, and nothing else', () => {
    const failing = (text: string) => ({ usesOld: false, evaluate: () => (text === 'object' ? undefined : true) });
    const asIf = (value: boolean) => () => ({ usesOld: false, evaluate: () => value });
    fc.assert(
      fc.property(tree, change, (predicate, told) => {
        const [yes, no] = [true, false].map((value) =>
          new EventPredicate(predicate, (text) => (text === 'object' ? asIf(value)() : failing(text))).passes(told),
        );
        const passed = new EventPredicate(predicate, failing).passes(told);
        // Several of the same expression may cancel out; then it passes all the same.
        if (yes || no) expect(passed).toBe(true);
      }),
      { numRuns: 2000 },
    );
    const is = (predicate: Predicate): boolean =>
      new EventPredicate(predicate, failing).passes({ type: 'added', object: objectWith() });
    const nothing = { not: { changed: 'labels' } } as const;
    expect(is({ not: { cel: 'object' } })).toBe(true);
    expect(is({ all: [{ cel: 'object' }, nothing] })).toBe(false);
    expect(is({ any: [{ cel: 'object' }, nothing] })).toBe(true);
  });
});

it('leaves are visited with where they stand, and all are counted', () => {
  const predicate: Predicate = {
    all: [{ not: { cel: 'x' } }, { any: [{ changed: 'labels' }, { labelSelector: {} }] }],
  };
  const places: string[] = [];
  expect(visitLeaves(predicate, (_, at) => places.push(at))).toBe(6);
  expect(places).toEqual(['all.0.not.cel', 'all.1.any.0.changed', 'all.1.any.1.labelSelector']);
});
