import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareResourceVersions, isResourceVersion, newestResourceVersion } from './resource-version.ts';

// Numbers beyond a double, and near each other.
const number = fc.oneof(
  fc.bigInt({ min: 1n, max: 2n ** 200n }),
  fc.bigInt({ min: 1n, max: 30n }),
  fc.bigInt({ min: 2n ** 53n - 3n, max: 2n ** 53n + 3n }),
);

describe('resource versions', () => {
  it('compare as the numbers that they are, of any length', () => {
    fc.assert(
      fc.property(number, number, (a, b) => {
        expect(Math.sign(compareResourceVersions(String(a), String(b)))).toBe(a < b ? -1 : a > b ? 1 : 0);
        expect(newestResourceVersion(String(a), String(b))).toBe(String(a > b ? a : b));
      }),
    );
  });

  it('are decimal numbers without a leading zero', () => {
    fc.assert(
      fc.property(number, (a) => {
        expect(isResourceVersion(String(a))).toBe(true);
      }),
    );
    for (const text of ['', '0', '01', '-1', '1.0', '1e5', ' 1', '1\n', '0x1', 'x', 5, null, undefined, ['1']]) {
      expect(isResourceVersion(text), JSON.stringify(text)).toBe(false);
    }
  });
});
