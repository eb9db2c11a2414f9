import * as fc from 'fast-check';
import type { Endpoint } from 'levelhook/function/kinds';
import { describe, expect, it } from 'vitest';
import { identityOf } from '../lib/endpoint-slices.ts';
import { endpoint } from '../lib/testing-services.ts';
import { packEndpoints } from './packing.ts';

interface Slice {
  readonly name: string;
  readonly endpoints: readonly Endpoint[];
}

const names = (endpoints: readonly Endpoint[]): string[] => endpoints.map(({ targetRef }) => targetRef?.name ?? '');
const range = (from: number, to: number): Endpoint[] =>
  Array.from({ length: to - from }, (_, at) => endpoint(`p${from + at}`));
const slice = (name: string, endpoints: readonly Endpoint[]): Slice => ({ name, endpoints });
const pack = (slices: readonly Slice[], wanted: readonly Endpoint[], max = 10, relabelled: readonly string[] = []) => {
  const packing = packEndpoints(slices, wanted, { max, mustWrite: ({ name }) => relabelled.includes(name) });
  return {
    update: Object.fromEntries(packing.update.map((each) => [each.slice.name, names(each.endpoints)])),
    create: packing.create.map(names),
    delete: packing.delete.map(({ name }) => name),
  };
};

describe('packing', () => {
  it('changes nothing when nothing has changed', () => {
    expect(pack([slice('a', range(0, 3)), slice('b', range(3, 9))], range(0, 9))).toEqual({
      update: {},
      create: [],
      delete: [],
    });
  });

  it('makes full slices of the first endpoints', () => {
    expect(pack([], range(0, 25)).create.map((each) => each.length)).toEqual([10, 10, 5]);
  });

  it('puts a new endpoint into the slice that is written anyway, the fullest first', () => {
    const slices = [slice('a', range(0, 5)), slice('b', range(10, 18)), slice('c', range(20, 23))];
    // One endpoint leaves a, one leaves b: both are written.
    const wanted = [...range(1, 5), ...range(11, 18), ...range(20, 23), ...range(30, 34)];
    expect(pack(slices, wanted)).toEqual({
      update: {
        a: ['p1', 'p2', 'p3', 'p4', 'p33'],
        b: [...names(range(11, 18)), 'p30', 'p31', 'p32'],
      },
      create: [],
      delete: [],
    });
  });

  it('else into the one untouched slice that it fills best', () => {
    const slices = [slice('a', range(0, 3)), slice('b', range(10, 17)), slice('c', range(20, 29))];
    const wanted = [...range(0, 3), ...range(10, 17), ...range(20, 29), ...range(30, 33)];
    expect(pack(slices, wanted).update).toEqual({ b: [...names(range(10, 17)), 'p30', 'p31', 'p32'] });
  });

  it('else into a new slice, and leaves those with some places alone', () => {
    const slices = [slice('a', range(0, 8)), slice('b', range(10, 18))];
    const wanted = [...range(0, 8), ...range(10, 18), ...range(30, 34)];
    expect(pack(slices, wanted)).toEqual({ update: {}, create: [['p30', 'p31', 'p32', 'p33']], delete: [] });
  });

  it('deletes a slice that has lost all of its endpoints', () => {
    expect(pack([slice('a', range(0, 3)), slice('b', range(3, 5))], range(3, 5)).delete).toEqual(['a']);
  });

  it('writes an endpoint in another state where it is', () => {
    const ready = endpoint('p1');
    const leaving = endpoint('p1', { conditions: { ready: false, serving: true, terminating: true } });
    const [packed] = packEndpoints([slice('a', [ready])], [leaving], { max: 10, mustWrite: () => false }).update;
    expect(packed?.endpoints).toEqual([leaving]);
  });

  it('writes and fills a slice that must be written for its labels', () => {
    expect(pack([slice('a', range(0, 2)), slice('b', range(2, 8))], range(0, 9), 10, ['a'])).toEqual({
      update: { a: ['p0', 'p1', 'p8'] },
      create: [],
      delete: [],
    });
  });

  it('never has an endpoint twice, loses none, fills no slice over its limit, and writes no slice without a reason', () => {
    const max = 5;
    const states = fc.constantFrom({}, { conditions: { ready: false, serving: false, terminating: false } });
    const someEndpoint = fc
      .tuple(fc.integer({ min: 0, max: 40 }), states)
      .map(([at, more]) => endpoint(`p${at}`, more));
    const endpoints = fc.uniqueArray(someEndpoint, { selector: identityOf, maxLength: 30 });
    // Slices may have any content: an endpoint twice, or too many endpoints.
    const slices = fc
      .array(fc.array(someEndpoint, { minLength: 0, maxLength: max }), { maxLength: 6 })
      .map((all) => all.map((each, at) => slice(`s${at}`, each)));
    let packed = 0;
    fc.assert(
      fc.property(slices, endpoints, (before, wanted) => {
        const packing = packEndpoints(before, wanted, { max, mustWrite: () => false });
        const updates = new Map(packing.update.map((each) => [each.slice.name, each.endpoints]));
        const deleted = new Set(packing.delete.map(({ name }) => name));
        const after = [
          ...before.filter(({ name }) => !deleted.has(name)).map((each) => updates.get(each.name) ?? each.endpoints),
          ...packing.create,
        ];
        const all = after.flat();
        const text = (each: readonly Endpoint[]): string[] => each.map((one) => JSON.stringify(one)).toSorted();
        expect(text(all)).toEqual(text(wanted));
        for (const each of after) expect(each.length).toBeLessThanOrEqual(max);
        for (const each of packing.create) expect(each.length).toBeGreaterThan(0);

        // Each slice with a wrong endpoint must be written, and at most one more, for the remaining endpoints.
        const wantedText = new Map(wanted.map((each) => [identityOf(each), JSON.stringify(each)]));
        const seen = new Set<string>();
        const isBad = (one: Endpoint): boolean => {
          const identity = identityOf(one);
          const bad = seen.has(identity) || wantedText.get(identity) !== JSON.stringify(one);
          seen.add(identity);
          return bad;
        };
        // `filter` visits all endpoints, including those behind a bad one; `some` would stop there.
        const wrong = before.filter((each) => each.endpoints.filter(isBad).length > 0);
        const touched = [...updates.keys(), ...deleted];
        for (const { name } of wrong) expect(touched).toContain(name);
        expect(touched.length - wrong.length).toBeLessThanOrEqual(1);
        // A new slice is allowed only when the remaining endpoints do not fit into slices that are written anyway.
        const left = wanted.filter((each) => !seen.has(identityOf(each))).length;
        if (packing.create.length > 0) {
          const room = packing.update
            .filter(({ slice: { name } }) => wrong.some((each) => each.name === name))
            .reduce((sum, each) => sum + max - each.endpoints.length, 0);
          expect(room).toBe(0);
          expect(packing.create.length).toBeLessThanOrEqual(Math.ceil(left / max));
        }
        packed += 1;
      }),
      { numRuns: 2000 },
    );
    expect(packed).toBe(2000);
  });
});
