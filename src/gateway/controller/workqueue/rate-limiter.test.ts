import { expect, it } from 'vitest';
import { keyBackoffMs } from './rate-limiter.ts';

it("the backoff of a key doubles from 5 ms to 1000 s, as client-go's", () => {
  const waits = Array.from({ length: 20 }, (_, at) => keyBackoffMs(at + 1));
  expect(waits).toEqual([
    5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480, 40_960, 81_920, 163_840, 327_680, 655_360,
    1_000_000, 1_000_000,
  ]);
  expect(keyBackoffMs(0)).toBe(5);
  expect(keyBackoffMs(5000)).toBe(1_000_000);
});
