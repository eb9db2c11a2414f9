import { beforeEach, describe, expect, it } from 'vitest';
import { EventCorrelator } from './event-correlator.ts';

let now: number;
let correlator: EventCorrelator;
const about = { name: 'web', uid: 'u', resourceVersion: '1' };
const tell = (message: string, type = 'Normal', reason = 'Did', object: { name: string } = about) =>
  correlator.observe(object, { type, reason, message });

beforeEach(() => {
  now = Date.parse('2026-01-01T00:00:00Z');
  correlator = new EventCorrelator(() => now);
});

describe('EventCorrelator', () => {
  it('counts the same event, whatever version of the object it was about', () => {
    const first = tell('one');
    now += 5000;
    expect(tell('one', 'Normal', 'Did', { ...about, resourceVersion: '2' } as { name: string })).toBe(first);
    expect(first).toMatchObject({
      count: 2,
      firstTimestamp: '2026-01-01T00:00:00Z',
      lastTimestamp: '2026-01-01T00:00:05Z',
    });
    expect(first?.name).toMatch(/^web[.][0-9a-f]{16}$/);
  });

  it('tells apart object, type, reason and message', () => {
    const events = [tell('one'), tell('two'), tell('one', 'Warning'), tell('one', 'Normal', 'Else')];
    events.push(tell('one', 'Normal', 'Did', { ...about, uid: 'v' } as { name: string }));
    expect(new Set(events.map((event) => event?.name)).size).toBe(5);
  });

  it('combines from the tenth of similar ones on, and not after ten quiet minutes', () => {
    const events = Array.from({ length: 12 }, (_, at) => tell(`pod ${at}`));
    expect(new Set(events).size).toBe(10);
    expect(events[11]).toBe(events[9]);
    expect(events[11]).toMatchObject({ count: 3, message: '(combined from similar events): pod 11' });
    now += 600_000;
    expect(tell('pod 12')).toBe(events[9]);
    now += 600_001;
    expect(tell('pod 13')?.message).toBe('pod 13');
  });

  it('lets through 25 of a type about an object, then one in five minutes, and counts the others', () => {
    const told = Array.from({ length: 30 }, () => tell('again'));
    expect(told.filter(Boolean)).toHaveLength(25);
    expect(tell('again', 'Warning')).toBeDefined();
    now += 299_999;
    expect(tell('again')).toBeUndefined();
    now += 1;
    expect(tell('again')).toMatchObject({ count: 32 });
    expect(tell('again')).toBeUndefined();
  });

  it('keeps 4096 records and forgets the least recently used', () => {
    const kept = tell('one', 'Normal', 'Did', { name: 'kept' });
    const lost = tell('one', 'Normal', 'Did', { name: 'lost' });
    for (let at = 0; at < 4095; at += 1) {
      tell('one', 'Normal', 'Did', { name: `other-${at}` });
      if (at === 2000) tell('one', 'Normal', 'Did', { name: 'kept' });
    }
    expect(tell('one', 'Normal', 'Did', { name: 'kept' })).toBe(kept);
    expect(tell('one', 'Normal', 'Did', { name: 'lost' })).not.toBe(lost);
  });

  it('makes a name of an object with the longest name', () => {
    const name = tell('one', 'Normal', 'Did', { name: 'a'.repeat(235) + '.' + 'b'.repeat(17) })?.name ?? '';
    expect(name.length).toBeLessThanOrEqual(253);
    expect(name).toMatch(/^a{235}[.][0-9a-f]{16}$/);
  });
});
