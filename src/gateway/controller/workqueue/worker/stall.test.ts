import { describe, expect, it } from 'vitest';
import { VirtualClock } from '../../../../../test/harness/test-clock.ts';
import type { QueueFacts } from '../queue-facts.ts';
import { type DueKeys, Stall } from './stall.ts';

const NONE: QueueFacts = {
  pauses: [],
  circuit: undefined,
  sizes: { queued: 0, running: 0, failing: 0, dead: 0 },
};
const NOTHING_DUE: DueKeys = { firstDueMs: Infinity, firstPauseEndMs: Infinity, running: 0, started: 7 };

function create(first: Partial<DueKeys> = {}, facts = NONE) {
  const clock = new VirtualClock();
  const world = { due: { ...NOTHING_DUE, ...first }, facts, asked: 0, isOpen: false };
  const read = async (): Promise<DueKeys> => {
    world.asked += 1;
    return world.due;
  };
  const readFacts = async (): Promise<QueueFacts> => world.facts;
  const stall = new Stall({ concurrency: 2, clock, read, readFacts, isOpen: () => world.isOpen });
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

  it.each(['firstDueMs', 'firstPauseEndMs'] as const)('is asked for again at the time of %s', async (name) => {
    const { clock, stall, world, pass } = create();
    world.due = { ...world.due, [name]: clock.now() + 10_000 };
    await stall.ms();
    pass(9999);
    await stall.ms();
    expect(world.asked).toBe(1);
    pass(1);
    await stall.ms();
    expect(world.asked).toBe(2);
  });

  it.each([
    ['runs', { running: 1 }, NONE],
    ['dead letters', {}, { ...NONE, sizes: { ...NONE.sizes, dead: 1 } }],
  ])('is asked for again while there are %s, which another gateway may end', async (_, due, facts) => {
    const { stall, world, pass } = create(due, facts);
    await stall.ms();
    pass(5000);
    world.due = NOTHING_DUE;
    world.facts = NONE;
    await stall.ms();
    expect(stall.facts).toEqual(NONE);
    expect(world.asked).toBe(2);
    pass(5000);
    await stall.ms();
    expect(world.asked).toBe(2);
  });

  it.each([
    ['a timer', { nextMs: Date.UTC(2030, 0, 1), sizes: { queued: 0, dead: 0 } }],
    ['a ready key', { nextMs: undefined, sizes: { queued: 1, dead: 0 } }],
    ['a dead letter', { nextMs: undefined, sizes: { queued: 0, dead: 1 } }],
  ])('is asked for again when the poller finds %s of another gateway', async (_, due) => {
    const { stall, world } = create();
    await stall.ms();
    stall.compare({ nextMs: undefined, sizes: { queued: 0, dead: 0 } });
    await stall.ms();
    expect(world.asked).toBe(1);
    stall.compare(due);
    await stall.ms();
    expect(world.asked).toBe(2);
  });

  it('rests with the facts of the time after its last run', async () => {
    const { clock, world } = create({}, { ...NONE, sizes: { ...NONE.sizes, failing: 1 } });
    const answers = Promise.withResolvers<DueKeys>();
    const read = async (): Promise<DueKeys> => answers.promise;
    const readFacts = async (): Promise<QueueFacts> => world.facts;
    const slow = new Stall({ concurrency: 2, clock, read, readFacts, isOpen: () => false });
    const asked = slow.ms();
    // The last run ends well before Redis says that there is none.
    world.facts = NONE;
    answers.resolve(NOTHING_DUE);
    await asked;
    expect(slow.facts).toEqual(NONE);
  });

  it('is not forgotten because of an activity between question and answer', async () => {
    const { clock, stall, world, pass } = create();
    const answered = stall.ms();
    await stall.mayMakeDue(Promise.resolve());
    await answered;
    world.due = { ...world.due, firstDueMs: clock.now() };
    pass(31_000);
    expect(await stall.ms()).toBe(31_000);
  });

  it('is none while the circuit is open, and counts from its end', async () => {
    const { clock, stall, world, pass } = create();
    await stall.ms();
    world.due = { ...world.due, firstDueMs: clock.now() };
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
    world.due = { ...world.due, firstDueMs: clock.now() };
    await stall.mayMakeDue(Promise.resolve());
    pass(20_000);
    expect(await stall.ms()).toBe(20_000);
    world.due = { ...world.due, started: 8 };
    expect(await stall.ms()).toBe(0);
    pass(5000);
    expect(await stall.ms()).toBe(5000);
    world.due = { ...world.due, running: 2 };
    expect(await stall.ms()).toBe(0);
  });
});
