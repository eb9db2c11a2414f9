import { describe, expect, it } from 'vitest';
import { InstantClock } from '../../../test/harness/test-clock.ts';
import { quietRuntime } from '../../../test/harness/quiet-runtime.ts';
import type { RunningController } from '../controller/running/controller.ts';
import type { View } from '../informer/cache/view.ts';
import { Progress } from './progress.ts';

/** A gateway with one view and one controller, which wait as long as `waits` says. */
async function looked(waits: { unappliedMs?: number; outboxMs?: number; dueMs?: number }, isNeeded = true) {
  const view = { outbox: { ageMs: async () => waits.outboxMs } } as unknown as View;
  const stop = new AbortController();
  const reported: string[] = [];
  const progress = new Progress({
    informers: () => [{ name: 'v1/Pod', unappliedMs: waits.unappliedMs ?? 0, view }],
    neededViews: () => (isNeeded ? [{ name: 'v1/Pod', unappliedMs: waits.unappliedMs ?? 0 }] : []),
    controllers: () => [
      { name: 'web', queue: { stall: {}, stalledMs: async () => waits.dueMs ?? 0 } } as unknown as RunningController,
    ],
    notes: () => ({ problems: [], remarks: [], isStarting: false, circuit: undefined }),
    isNeededForReady: () => isNeeded,
    onChanged: (controller) => void reported.push(controller),
    runtime: quietRuntime({ clock: new InstantClock() }),
  });
  const running = progress.run(stop.signal);
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  stop.abort();
  await running;
  return { notReady: progress.notReady(), stalled: progress.stalled('web'), reported };
}

describe('a gateway says that it stands still', () => {
  it.each([
    [{}, undefined],
    [{ unappliedMs: 29_000, outboxMs: 29_000, dueMs: 29_000 }, undefined],
    [{ unappliedMs: 45_000 }, 'v1/Pod: an event waits for 45 s to be in the cache'],
    [{ outboxMs: 45_000 }, 'v1/Pod: a wakeup waits for 45 s to be in a queue'],
    [{ dueMs: 45_000 }, 'web: a key is due for 45 s and does not run'],
  ])('when %j', async (waits, said) => {
    expect((await looked(waits)).notReady).toBe(said);
  });

  it.each([{ unappliedMs: 45_000 }, { outboxMs: 45_000 }])(
    'not when only declared functions wait: %j',
    async (waits) => {
      expect((await looked(waits, false)).notReady).toBeUndefined();
    },
  );

  it('once, of a controller that the gateway is ready without, to that controller alone', async () => {
    expect(await looked({ dueMs: 45_000 }, false)).toEqual({
      notReady: undefined,
      stalled: 'a key is due for 45 s and does not run',
      reported: ['web'],
    });
    expect(await looked({ dueMs: 29_000 }, false)).toMatchObject({ stalled: undefined, reported: [] });
  });
});
