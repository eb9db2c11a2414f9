import { describe, expect, it } from 'vitest';
import { IdlePace, type PaceShare, QUEUES_AT_FULL_PACE } from './idle-pace.ts';

/**
 * Asks the shares for an hour. @returns how often each share was asked, and the largest number of requests at one
 * moment.
 */
function countHour(shares: readonly PaceShare[]): { each: number[]; most: number } {
  const atMoments = new Map<number, number>();
  const each = shares.map((share) => {
    let count = 0;
    for (let ms = share.nextMs(17, 5000); ms <= 3_600_000; ms = share.nextMs(ms, 5000)) {
      atMoments.set(ms, (atMoments.get(ms) ?? 0) + 1);
      count += 1;
    }
    return count;
  });
  return { each, most: Math.max(...atMoments.values()) };
}

const sum = (counts: readonly number[]): number => counts.reduce((total, each) => total + each, 0);

describe('IdlePace', () => {
  it('asks few queues at every interval, all at the same moments', () => {
    const pace = new IdlePace();
    const { each } = countHour(Array.from({ length: QUEUES_AT_FULL_PACE }, () => pace.join()));
    expect(new Set(each)).toEqual(new Set([720]));
  });

  it('asks many queues no more often in sum, no more at a moment, and each of them', () => {
    const bound = 720 * QUEUES_AT_FULL_PACE;
    for (const queues of [300, 1000, 5000]) {
      const pace = new IdlePace();
      const { each, most } = countHour(Array.from({ length: queues }, () => pace.join()));
      expect(sum(each), `${queues} queues`).toBeLessThanOrEqual(bound);
      expect(most).toBeLessThanOrEqual(QUEUES_AT_FULL_PACE);
      expect(Math.min(...each)).toBeGreaterThan(0);
    }
  });

  it('tells its shares of each change, and goes back when queues leave', () => {
    const pace = new IdlePace();
    const told: number[] = [];
    const first = pace.join((factor) => told.push(factor));
    const others = Array.from({ length: QUEUES_AT_FULL_PACE }, () => pace.join());
    expect(first.factor).toBe(2);
    for (const other of others) {
      other.leave();
      other.leave();
    }
    expect(first.factor).toBe(1);
    expect(told).toEqual([2, 1]);
  });
});
