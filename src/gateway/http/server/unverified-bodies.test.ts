import { expect, it } from 'vitest';
import { VirtualClock } from '../../../../test/harness/test-clock.ts';
import { UnverifiedBodies } from './unverified-bodies.ts';

const MIB = 1024 * 1024;
const source = (name: string) => ({ name, isKnown: false });

it('strangers who sign large bodies wrongly keep out neither a function nor small bodies, and only for a while', () => {
  const clock = new VirtualClock();
  const bodies = new UnverifiedBodies(clock);
  let hashed = 0;
  for (let round = 0; round < 100; round += 1) {
    for (let at = 0; at < 20; at += 1) {
      const body = bodies.open(source(`stranger-${at}`), MIB);
      if (!body) continue;
      hashed += 1;
      body.wrong(MIB);
    }
  }
  expect(hashed).toBe(64);
  expect(bodies.open(source('stranger-1'), MIB)).toBeUndefined();
  expect(bodies.open(source('stranger-1'), 1024)).toBeDefined();
  const held = Array.from({ length: 10 }, () => bodies.open(source('function'), MIB));
  expect(held).not.toContain(undefined);
  clock.step(clock.now() + 10_000);
  expect(bodies.open(source('stranger-1'), MIB)).toBeDefined();
});

it('one source that signs wrongly has half of what is hashed for all', () => {
  const bodies = new UnverifiedBodies(new VirtualClock());
  let hashed = 0;
  for (let body = bodies.open(source('one'), MIB); body; body = bodies.open(source('one'), MIB)) {
    hashed += 1;
    body.wrong(MIB);
  }
  expect(hashed).toBe(32);
});
