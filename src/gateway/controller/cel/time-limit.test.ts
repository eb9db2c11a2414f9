import { describe, expect, it } from 'vitest';
import { TimeLimitError, withinTime } from './time-limit.ts';

const spin = (): never => {
  for (;;);
};

describe('work within a time limit', () => {
  it('gives what it gives and throws what it throws', () => {
    const value = {};
    expect(withinTime(1000, () => value)).toBe(value);
    expect(withinTime(1000, () => undefined)).toBeUndefined();
    expect(() => {
      withinTime(1000, () => {
        throw new TypeError('x');
      });
    }).toThrow(new TypeError('x'));
  });

  it.each<[string, () => unknown]>([
    ['a loop', spin],
    [
      'a loop that catches everything',
      () => {
        for (;;) {
          try {
            spin();
          } catch {
            // The watchdog's end cannot be caught.
          }
        }
      },
    ],
    ['a regular expression', () => /^(a*)*$/.test(`${'a'.repeat(64)}b`)],
    ['a callback of a built-in', () => [1, 2, 3].map(spin)],
  ])('is ended in %s, and the next is not', (_, work) => {
    const from = performance.now();
    expect(() => withinTime(30, work)).toThrow(TimeLimitError);
    expect(performance.now() - from).toBeLessThan(5000);
    expect(withinTime(1000, () => 'next')).toBe('next');
  });

  it('counts processor time: a thread that waits is tried again', () => {
    const gate = new Int32Array(new SharedArrayBuffer(4));
    let attempts = 0;
    const starved = (): string => {
      attempts += 1;
      // The thread waits here as if another process had the processor.
      if (attempts < 3) for (;;) Atomics.wait(gate, 0, 0, 5);
      return 'done';
    };
    expect(withinTime(50, starved)).toBe('done');
    expect(attempts).toBe(3);
  });
});
