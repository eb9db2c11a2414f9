import { describe, expect, it } from 'vitest';
import { continuedTime } from './gateway-clock.ts';

const HOUR = 3_600_000;
const T = 1_763_000_000_000;
const at = (nowMs: number, wallMs: number, redisMs: number) => ({ nowMs, wallMs, redisMs });

describe('the time at the start of a gateway', () => {
  it.each<[string, ReturnType<typeof at>, ReturnType<typeof at>, number]>([
    ['that of its machine, when all clocks agree', at(T, T, T), at(T + HOUR, T + HOUR, T + HOUR), T + HOUR],
    ['that of its machine, when NTP has moved it', at(T, T, T), at(T + 2900, T + 2900, T + 2000), T + 2900],
    ['never before the record', at(T, T, T), at(T - 3000, T - 3000, T + 1000), T + 1000],
    ['continued, when its clock was set back', at(T, T, T), at(T - HOUR, T - HOUR, T + 60_000), T + 60_000],
    ['continued, when its clock was set ahead', at(T, T, T), at(T + HOUR, T + HOUR, T + 60_000), T + 60_000],
    ['that of its machine, when Redis was set ahead', at(T, T, T), at(T + 60_000, T + 60_000, T + HOUR), T + 60_000],
    ['that of its machine, when Redis was set back', at(T, T, T), at(T + 60_000, T + 60_000, T - HOUR), T + 60_000],
    ['the record, when both were set back', at(T, T, T), at(T - HOUR, T - HOUR, T - HOUR), T],
    [
      'that of gateways whose clock was ahead',
      at(T + HOUR, T + HOUR, T),
      at(T + 60_000, T + 60_000, T + 60_000),
      T + HOUR + 60_000,
    ],
    [
      'that of gateways whose clock was behind',
      at(T - HOUR, T - HOUR, T),
      at(T + 60_000, T + 60_000, T + 60_000),
      T - HOUR + 60_000,
    ],
    [
      'that of gateways whose time was another',
      at(T + HOUR, T, T),
      at(T + 60_000, T + 60_000, T + 60_000),
      T + HOUR + 60_000,
    ],
  ])('is %s', (_what, record, start, expected) => {
    expect(continuedTime(record, start)).toBe(expected);
  });

  it('is not taken from a record that is damaged', () => {
    expect(continuedTime(undefined, at(T, T, T))).toBeUndefined();
    expect(continuedTime(at(999_999_999_999_999, T, T), at(T, T, T))).toBeUndefined();
  });
});
