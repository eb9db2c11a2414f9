import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KubernetesObject, ObjectMeta } from '../../../core/index.ts';
import type { Change } from '../../informer/cache/change.ts';
import { hasChangedMap, type WithinTime } from './changed-map.ts';
import { EventPredicate } from './predicate.ts';

type Labels = Record<string, string>;

const objectWith = (metadata: Partial<Pick<ObjectMeta, 'labels' | 'annotations'>>): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'n', name: 'x', uid: 'u', resourceVersion: '1', ...metadata },
});
const withLabels = (labels: Labels | undefined): KubernetesObject => objectWith(labels ? { labels } : {});
const unbounded: WithinTime = (_, work) => work();
const large = (): Labels => Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`l${at}`, '']));

/** How often its keys have been listed. */
function watched(labels: Labels): { readonly labels: Labels; readonly count: () => number } {
  let count = 0;
  const ownKeys = (target: Labels): ArrayLike<string | symbol> => {
    count += 1;
    return Reflect.ownKeys(target);
  };
  return { labels: new Proxy(labels, { ownKeys }), count: () => count };
}

describe('the labels of an update', () => {
  const name = fc.oneof(fc.constantFrom('a', 'b', '1', '0', 'constructor', '__proto__', 'toString'), fc.string());
  const entries = fc.array(fc.tuple(name, fc.constantFrom('', '1', 'x')), { maxLength: 6 });
  // As the server's JSON is read: "__proto__" is a key of its own.
  const parsed = (pairs: readonly (readonly [string, string])[]): Labels =>
    JSON.parse(`{${pairs.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join()}}`) as Labels;
  const pair = fc.oneof(
    fc.tuple(entries, entries),
    // The same in another order, or but for one entry.
    entries.chain((all) =>
      fc.tuple(
        fc.constant(all),
        fc.shuffledSubarray(all, { minLength: Math.max(0, all.length - 1), maxLength: all.length }),
      ),
    ),
  );

  it('have changed when they are not deeply equal, absent ones being empty', () => {
    const found = { true: 0, false: 0 };
    const labels = (pairs: readonly (readonly [string, string])[], isAbsent: boolean) =>
      isAbsent ? undefined : parsed(pairs);
    // A failure prints its seed and path; give them to `fc.assert` to see it again.
    fc.assert(
      fc.property(pair, fc.nat(9), fc.nat(9), ([before, now], absentBefore, absentNow) => {
        const [old, object] = [labels(before, absentBefore === 0), labels(now, absentNow === 0)];
        const wanted = !isDeepStrictEqual(old ?? {}, object ?? {});
        const update = [withLabels(old), withLabels(object)] as const;
        // Also from memory.
        for (let asked = 0; asked < 2; asked += 1) expect(hasChangedMap('labels', ...update, unbounded)).toBe(wanted);
        found[`${wanted}`] += 1;
      }),
      { numRuns: 3000 },
    );
    expect(Math.min(found.true, found.false)).toBeGreaterThan(300);
  });

  it('are compared once, whoever asks and however often', () => {
    for (const now of [large(), { ...large(), l1000: 'other' }, { a: '' }]) {
      const [before, after] = [watched(large()), watched(now)];
      const [old, object] = [withLabels(before.labels), withLabels(after.labels)];
      const change: Change = { type: 'updated', old, object };
      const predicates = Array.from(
        { length: 1000 },
        () =>
          new EventPredicate({ any: [{ changed: 'labels' }, { not: { not: { changed: 'labels' } } }] }, () => {
            throw new Error('there is no expression');
          }),
      );
      const wanted = !isDeepStrictEqual({ ...before.labels }, { ...after.labels });
      const listed = before.count() + after.count();
      for (const each of predicates) expect(each.passes(change)).toBe(wanted);
      expect(before.count() + after.count() - listed).toBeLessThanOrEqual(2);
    }
  });

  it('are compared anew with another old object, and apart from the annotations', () => {
    const object = objectWith({ labels: { a: '1' }, annotations: { a: '2' } });
    for (const value of ['1', '2', '1']) {
      const old = objectWith({ labels: { a: value }, annotations: { a: value } });
      expect(hasChangedMap('labels', old, object, unbounded)).toBe(value !== '1');
      expect(hasChangedMap('annotations', old, object, unbounded)).toBe(value !== '2');
    }
  });

  it('are not known to have changed when the comparison is cut off, until another has time for it', () => {
    const sizes: number[] = [];
    const cutOff: WithinTime = (size) => {
      sizes.push(size);
      return undefined;
    };
    const [old, object] = [withLabels(large()), withLabels(large())];
    expect(hasChangedMap('labels', old, object, cutOff)).toBeUndefined();
    expect(hasChangedMap('labels', old, object, unbounded)).toBe(false);
    expect(hasChangedMap('labels', old, object, cutOff)).toBe(false);
    expect(sizes).toEqual([1001]);
  });

  it('that are few are compared whatever the time', () => {
    const never: WithinTime = () => undefined;
    expect(hasChangedMap('labels', withLabels(large()), withLabels({ a: '' }), never)).toBe(true);
    expect(hasChangedMap('labels', withLabels({ a: '' }), withLabels({ a: '' }), never)).toBe(false);
  });
});
