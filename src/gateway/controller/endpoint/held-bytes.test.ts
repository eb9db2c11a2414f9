import { describe, expect, it } from 'vitest';
import { HeldBytes } from './held-bytes.ts';

describe('the bytes that requests hold', () => {
  it('have a bound for each owner, and one for all', () => {
    const held = new HeldBytes({ perOwner: 10, total: 15, reserved: 0 });
    const [first, second, other] = [held.open('a'), held.open('a'), held.open('b')];
    expect(first.add(6)).toBe(true);
    expect(second.add(5)).toBe(false);
    expect(second.add(4)).toBe(true);
    expect(other.add(6)).toBe(false);
    expect(other.add(5)).toBe(true);
    first.release();
    expect(other.add(5)).toBe(true);
    expect(second.add(6)).toBe(false);
  });

  it('leave a little for each owner when the others have used up the total', () => {
    const held = new HeldBytes({ perOwner: 10, total: 10, reserved: 3 });
    expect(held.open('a').add(10)).toBe(true);
    const small = held.open('b');
    expect(small.add(4)).toBe(false);
    expect(small.add(3)).toBe(true);
    expect(held.open('b').add(1)).toBe(false);
    expect(held.open('c').add(3)).toBe(true);
  });

  it('are given back once, and grow again afterwards', () => {
    const held = new HeldBytes({ perOwner: 10, total: 10, reserved: 0 });
    const hold = held.open('a');
    expect(hold.add(10)).toBe(true);
    hold.release();
    hold.release();
    expect(held.open('a').add(10)).toBe(true);
    expect(held.open('b').add(1)).toBe(false);
  });
});
