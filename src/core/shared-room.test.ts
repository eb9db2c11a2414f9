import { describe, expect, it } from 'vitest';
import { SharedRoom, type RequestSource, sourceName } from './shared-room.ts';

const stranger = (name: string): RequestSource => ({ name, isKnown: false });

function fill(room: SharedRoom, source: RequestSource): number {
  let count = 0;
  while (room.take(source)) count += 1;
  return count;
}

it.each([
  ['10.0.0.1', '10.0.0.1'],
  ['::ffff:10.0.0.1', '10.0.0.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
  ['2001:db8::6', '2001:db8:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['', ''],
])('the client at %s is known as %s', (address, name) => expect(sourceName(address)).toBe(name));

describe('a shared room', () => {
  it('gives half to the first source, and half of the rest to each later one', () => {
    const room = new SharedRoom(64);
    const counts = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => fill(room, stranger(name)));
    expect(counts).toEqual([32, 16, 8, 4, 2, 1]);
    expect(room.taken).toBe(63);
    expect(fill(room, stranger('g'))).toBe(1);
    expect(fill(room, stranger('h'))).toBe(0);
  });

  it('gives all sources the same, and leaves as much for one more, once each takes again what it gives back', () => {
    const room = new SharedRoom(1000);
    const sources = Array.from({ length: 9 }, (_, at) => stranger(String(at)));
    for (const source of sources) fill(room, source);
    // Like connections that end: sources above their share do not get their places again.
    for (let round = 0; round < 100; round += 1) {
      for (const source of sources) {
        room.giveBack(source, Math.min(10, room.takenBy(source)));
        fill(room, source);
      }
    }
    for (const source of sources) expect(Math.abs(room.takenBy(source) - 100)).toBeLessThanOrEqual(5);
    expect(fill(room, stranger('next'))).toBeGreaterThan(45);
  });

  it('gives a known source all that is left', () => {
    const room = new SharedRoom(64);
    fill(room, stranger('a'));
    expect(fill(room, { name: 'b', isKnown: true })).toBe(32);
    expect(room.take(stranger('c'))).toBe(false);
  });

  it('takes a place of the source that has most for one that has less', () => {
    const room = new SharedRoom(64);
    const sources = Array.from({ length: 12 }, (_, at) => stranger(String(at)));
    for (const source of sources) fill(room, source);
    const free = (name: string): boolean => {
      room.giveBack({ name });
      return true;
    };
    const next = stranger('next');
    expect(room.take(next)).toBe(false);
    for (let at = 0; at < 64; at += 1) expect(room.takeFrom(next, free)).toBe(true);
    const most = Math.max(...sources.map((source) => room.takenBy(source)));
    expect(room.takenBy(next)).toBeGreaterThanOrEqual(most - 1);
    expect(room.takenBy(next)).toBeLessThanOrEqual(most + 1);
    expect(room.taken).toBeLessThanOrEqual(64);
  });

  it('asks the sources with more for a place, the largest first, then the source itself, and no other', () => {
    const room = new SharedRoom(64);
    for (const [name, count] of [
      ['a', 30],
      ['b', 16],
      ['c', 8],
      ['d', 5],
      ['e', 3],
      ['f', 1],
    ] as const) {
      for (let at = 0; at < count; at += 1) expect(room.take(stranger(name))).toBe(true);
    }
    const asked: string[] = [];
    const refuse = (name: string): boolean => {
      asked.push(name);
      return false;
    };
    expect(room.takeFrom(stranger('d'), refuse)).toBe(false);
    expect(asked).toEqual(['a', 'b', 'c', 'd']);
    expect(room.taken).toBe(63);
  });

  it('takes amounts as a whole or not at all', () => {
    const room = new SharedRoom(100);
    const [a, b] = [stranger('a'), stranger('b')];
    expect(room.take(a, 51)).toBe(false);
    expect(room.taken).toBe(0);
    expect(room.take(a, 50)).toBe(true);
    expect(room.take(b, 26)).toBe(false);
    expect(room.take(b, 25)).toBe(true);
    room.giveBack(a, 50);
    room.giveBack(b, 25);
    expect([room.taken, room.takenBy(a), room.takenBy(b)]).toEqual([0, 0, 0]);
  });
});
