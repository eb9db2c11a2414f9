import { array, assert, constantFrom, integer, property, tuple } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NewestMap } from './newest-map.ts';

describe('a map of the newest entries', () => {
  it('has the entries that were set last, in that order, and tells of each that has left', () => {
    const operations = array(tuple(constantFrom('set', 'delete'), integer({ min: 0, max: 9 })));
    assert(
      property(operations, integer({ min: 1, max: 5 }), (done, most) => {
        const left: number[] = [];
        const map = new NewestMap<number, number>(most, (value) => left.push(value));
        let model: [number, number][] = [];
        const modelLeft: number[] = [];
        for (const [at, [operation, key]] of done.entries()) {
          model = model.filter(([each]) => each !== key);
          if (operation === 'delete') map.delete(key);
          else {
            map.set(key, at);
            model.push([key, at]);
          }
          if (model.length > most) modelLeft.push(model.shift()?.[1] ?? NaN);
          expect([...map]).toEqual(model);
        }
        expect(left).toEqual(modelLeft);
      }),
    );
  });
});
