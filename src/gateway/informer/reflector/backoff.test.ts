import { describe, expect, it } from 'vitest';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import { Backoff } from './backoff.ts';

describe('the backoff of a reflector', () => {
  it('doubles from 0.8 s to 30 s', () => {
    const backoff = new Backoff(new InstantClock(), () => 0);
    const waits = Array.from({ length: 8 }, () => backoff.next());
    expect(waits).toEqual([800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
  });

  it('adds up to as much again by chance', () => {
    const backoff = new Backoff(new InstantClock(), () => 0.999);
    expect(backoff.next()).toBeCloseTo(1599.2);
    for (let at = 0; at < 9; at += 1) backoff.next();
    expect(backoff.next()).toBeCloseTo(59_970);
  });

  it('starts again after more than two quiet minutes', () => {
    const clock = new InstantClock();
    const backoff = new Backoff(clock, () => 0);
    backoff.next();
    clock.advance(120_000);
    expect(backoff.next()).toBe(1600);
    clock.advance(120_001);
    expect(backoff.next()).toBe(800);
  });
});
