import { describe, expect, it } from 'vitest';
import { VirtualClock } from '../../../../../test/harness/test-clock.ts';
import type { QueueLevels } from '../work-queue.ts';
import { Stall } from './stall.ts';

const NONE: QueueLevels = {
  pauses: [],
  morePauses: 0,
  pausedObjects: 0,
  pauseEndMs: Infinity,
  sizes: { queued: 0, running: 0, timers: 0, failing: 0, backlog: 0, waiting: 0, dead: 0 },
  low: 0,
  started: 7,
  demand: 0,
  firstDueMs: Infinity,
  oldestDueMs: undefined,
  oldestFailingMs: undefined,
};

function create(first: QueueLevels = NONE) {
  const clock = new VirtualClock();
  const world = { levels: first, asked: 0, isOpen: false };
  const read = async (): Promise<QueueLevels> => {
    world.asked += 1;
    return world.levels;
  };
  const stall = new Stall({ concurrency: 2, clock, read, isOpen: () => world.isOpen });
  return { clock, stall, world, pass: (ms: number) => clock.step(clock.now() + ms) };
}

describe('the stall of a queue', () => {
  it('is asked for once while the queue is at rest, and again after each activity', async () => {
    const { stall, world, pass } = create();
    for (let look = 0; look < 100; look += 1) {
      expect(await stall.ms()).toBe(0);
      pass(5000);
    }
    expect(world.asked).toBe(1);
    expect(await stall.mayMakeDue(Promise.resolve('added'))).toBe('added');
    await stall.ms();
    await expect(stall.mayMakeDue(Promise.reject(new Error('no answer')))).rejects.toThrow('no answer');
    await stall.ms();
    expect(world.asked).toBe(3);
  });

  it.each([
    ['first due key', (atMs: number) => ({ firstDueMs: atMs })],
    ['first end of a pause', (atMs: number) => ({ pauseEndMs: atMs })],
  ])('is asked for again at the time of the %s', async (_, levelsAt) => {
    const { clock, stall, world, pass } = create();
    world.levels = { ...NONE, ...levelsAt(clock.now() + 10_000) };
    await stall.ms();
    pass(9999);
    await stall.ms();
    expect(world.asked).toBe(1);
    pass(1);
    await stall.ms();
    expect(world.asked).toBe(2);
  });

  it.each([
    ['runs', { running: 1 }],
    ['dead letters', { dead: 1 }],
  ])('is asked for again while there are %s, which another gateway may end', async (_, sizes) => {
    const { stall, world, pass } = create({ ...NONE, sizes: { ...NONE.sizes, ...sizes } });
    await stall.ms();
    pass(5000);
    world.levels = NONE;
    await stall.ms();
    expect(stall.levels).toEqual(NONE);
    expect(world.asked).toBe(2);
    pass(5000);
    await stall.ms();
    expect(world.asked).toBe(2);
  });

  it.each([
    ['a timer', { nextMs: Date.UTC(2030, 0, 1) }],
    ['a ready key', { sizes: { queued: 1, failing: 0, dead: 0 } }],
    ['a key that fails', { sizes: { queued: 0, failing: 1, dead: 0 } }],
    ['a dead letter', { sizes: { queued: 0, failing: 0, dead: 1 } }],
    ['a pause', { pauses: 1 }],
  ])('is asked for again when the poller finds %s of another gateway', async (_, due) => {
    const { stall, world } = create();
    const same = { nextMs: undefined, sizes: { queued: 0, failing: 0, dead: 0 }, pauses: 0 };
    await stall.ms();
    stall.compare(same);
    await stall.ms();
    expect(world.asked).toBe(1);
    stall.compare({ ...same, ...due });
    await stall.ms();
    expect(world.asked).toBe(2);
  });

  it('is not forgotten because of an activity between question and answer', async () => {
    const { clock, stall, world, pass } = create();
    const answered = stall.ms();
    await stall.mayMakeDue(Promise.resolve());
    await answered;
    world.levels = { ...world.levels, firstDueMs: clock.now() };
    pass(31_000);
    expect(await stall.ms()).toBe(31_000);
  });

  it('is none while the circuit is open, and counts from its end', async () => {
    const { clock, stall, world, pass } = create();
    await stall.ms();
    world.levels = { ...world.levels, firstDueMs: clock.now() };
    world.isOpen = true;
    pass(40_000);
    expect(await stall.ms()).toBe(0);
    expect(world.asked).toBe(1);
    world.isOpen = false;
    expect(await stall.ms()).toBe(0);
    pass(6000);
    expect(await stall.ms()).toBe(6000);
  });

  it('is the age of the first key that is due, but only since a run started last, and where there is room', async () => {
    const { clock, stall, world, pass } = create();
    await stall.ms();
    world.levels = { ...world.levels, firstDueMs: clock.now() };
    await stall.mayMakeDue(Promise.resolve());
    pass(20_000);
    expect(await stall.ms()).toBe(20_000);
    world.levels = { ...world.levels, started: 8 };
    expect(await stall.ms()).toBe(0);
    pass(5000);
    expect(await stall.ms()).toBe(5000);
    world.levels = { ...world.levels, sizes: { ...NONE.sizes, running: 2 } };
    expect(await stall.ms()).toBe(0);
  });
});
