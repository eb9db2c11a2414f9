import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../core/index.ts';
import { BufferedWeight, EventBuffer } from './event-buffer.ts';
import type { WatchEvent } from './watch-event.ts';

const event = (version: number): WatchEvent => ({ kind: 'bookmark', version: String(version) });
const { signal } = new AbortController();

describe('EventBuffer', () => {
  it('gives events in their order, some at a time, and none twice', async () => {
    const buffer = new EventBuffer(systemClock);
    for (let at = 1; at <= 5; at += 1) buffer.push(event(at), 10);
    expect(await buffer.take(2, signal)).toEqual([event(1), event(2)]);
    buffer.push(event(6), 10);
    expect(await buffer.take(100, signal)).toEqual([event(3), event(4), event(5), event(6)]);
  });

  it('waits for an event', async () => {
    const buffer = new EventBuffer(systemClock);
    const taken = buffer.take(10, signal);
    await Promise.resolve();
    buffer.push(event(1), 10);
    expect(await taken).toEqual([event(1)]);
  });

  it('is full at its bound, and takes an event all the same', async () => {
    const buffer = new EventBuffer(systemClock, 100);
    buffer.push(event(1), 1, 99);
    expect(buffer.full).toBe(false);
    buffer.push(event(2), 1, 1);
    expect(buffer.full).toBe(true);
    buffer.push(event(3), 1, 1000);
    expect(await buffer.take(2, signal)).toHaveLength(2);
    expect(buffer.full).toBe(true);
    expect(await buffer.take(2, signal)).toEqual([event(3)]);
    expect(buffer.full).toBe(false);
  });

  it('gives no more than a size of text, whatever it weighs', async () => {
    const buffer = new EventBuffer(systemClock);
    for (let at = 1; at <= 4; at += 1) buffer.push(event(at), 10, 1000);
    expect(await buffer.take(100, signal, 20)).toEqual([event(1), event(2)]);
    expect(buffer.weight).toBe(2000);
  });

  it('is full when all together are beyond their bound, if it holds much of it', async () => {
    const together = new BufferedWeight(800);
    const [small, large, larger] = [1, 2, 3].map(() => new EventBuffer(systemClock, 1000, together));
    if (!small || !large || !larger) throw new Error('no buffers');
    const full = (): boolean[] => [small, large, larger].map((each) => each.full);
    small.push(event(1), 1, 100);
    large.push(event(2), 1, 300);
    larger.push(event(3), 1, 400);
    expect(full()).toEqual([false, false, false]);
    larger.push(event(4), 1, 1);
    expect(full()).toEqual([false, true, true]);
    await larger.take(1, signal);
    expect(full()).toEqual([false, false, false]);
    large.push(event(5), 1, 500);
    expect(full()).toEqual([false, true, false]);
    large.end();
    large.push(event(6), 1, 500);
    expect(together.now).toBe(101);
    expect(full()).toEqual([false, false, false]);
  });

  it('tells each producer that waits, whoever began to wait last', async () => {
    const buffer = new EventBuffer(systemClock, 6400);
    buffer.push(event(1), 1000);
    buffer.push(event(2), 1000);
    const reached: string[] = [];
    const waits = [
      buffer.drained(signal).then(() => reached.push('drained')),
      buffer.low(signal).then(() => reached.push('low')),
      buffer.drained(signal).then(() => reached.push('drained, too')),
    ];
    await buffer.take(1, signal);
    await new Promise((resolve) => setImmediate(resolve));
    expect(reached).toEqual([]);
    buffer.push(event(3), 1);
    await buffer.take(1, signal);
    await new Promise((resolve) => setImmediate(resolve));
    expect(reached).toEqual(['low']);
    await buffer.take(1, signal);
    await Promise.all(waits);
    expect(reached.toSorted()).toEqual(['drained', 'drained, too', 'low']);
  });

  it('tells the producer when everything is taken', async () => {
    const buffer = new EventBuffer(systemClock);
    await buffer.drained(signal);
    buffer.push(event(1), 1);
    buffer.push(event(2), 1);
    let drained = false;
    const waiting = buffer.drained(signal).then(() => (drained = true));
    await buffer.take(1, signal);
    await new Promise((resolve) => setImmediate(resolve));
    expect(drained).toBe(false);
    await buffer.take(1, signal);
    await waiting;
  });

  it('ends every wait at an abort, and gives nothing after it', async () => {
    const buffer = new EventBuffer(systemClock);
    const abort = new AbortController();
    const taken = buffer.take(1, abort.signal);
    abort.abort();
    expect(await taken).toEqual([]);
    buffer.push(event(1), 1);
    expect(await buffer.take(1, abort.signal)).toEqual([]);
    await buffer.drained(abort.signal);
  });
});
