import { describe, expect, it } from 'vitest';
import { TokenBucket } from './token-bucket.ts';

let nowMs = 0;
const bucket = (perSecond: number, burst: number): TokenBucket => new TokenBucket({ perSecond, burst }, () => nowMs);

describe('a token bucket', () => {
  it('gives its burst at once, and then so many a second', () => {
    const five = bucket(5, 2);
    expect([five.take(), five.take(), five.take()]).toEqual([true, true, false]);
    expect(five.waitMs).toBe(200);
    nowMs += 199;
    expect(five.take()).toBe(false);
    nowMs += 1;
    expect([five.take(), five.take()]).toEqual([true, false]);
  });

  it('saves up no more than its burst', () => {
    const five = bucket(5, 2);
    expect(five.isFull).toBe(true);
    five.take();
    expect(five.isFull).toBe(false);
    nowMs += 1_000_000;
    expect(five.isFull).toBe(true);
    expect(five.tokens).toBe(2);
  });

  it('goes into debt for what is spent, and forgives what is beyond the largest debt', () => {
    const ten = bucket(10, 20);
    ten.spend(25);
    expect(ten.tokens).toBe(-5);
    expect(ten.waitMs).toBe(600);
    ten.spend(100, 8);
    expect(ten.tokens).toBe(-8);
    ten.spend(100);
    ten.spend(1, 8);
    expect(ten.tokens).toBe(-108);
  });

  it('gives and takes nothing when the clock is set back', () => {
    const ten = bucket(10, 20);
    ten.spend(20);
    nowMs -= 5000;
    expect(ten.tokens).toBe(0);
    nowMs += 1000;
    expect(ten.tokens).toBe(10);
  });

  it('has a token at the time that it names, in spite of rounding', () => {
    const odd = bucket(1 / 3, 1);
    for (let at = 0; at < 100; at += 1) {
      expect(odd.take()).toBe(true);
      nowMs += odd.waitMs;
    }
  });
});
