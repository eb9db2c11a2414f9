import { afterEach, expect, it, vi } from 'vitest';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import { ReadingTimes } from './reading-time.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

it('tenants that read all the time share seven tenths of the thread, in turn', async () => {
  const clock = new InstantClock();
  vi.spyOn(performance, 'now').mockImplementation(() => clock.now());
  const times = new ReadingTimes(clock);
  const [objects, objectMs, fromMs] = [500, 4, clock.now()];
  const read = Array.from({ length: 10 }, () => 0);
  let leastWhenOneEnded: number | undefined;
  await Promise.all(
    read.map(async (_, tenant) => {
      const { pace } = times.for(`tenant-${tenant}/function`);
      for (let at = 0; at < objects; at += 1) {
        await pace(() => clock.advance(objectMs));
        read[tenant] = at + 1;
      }
      leastWhenOneEnded ??= Math.min(...read);
    }),
  );
  // They may have four seconds at once.
  const share = (read.length * objects * objectMs - 4000) / (clock.now() - fromMs);
  expect(share).toBeLessThan(0.75);
  expect(share).toBeGreaterThan(0.65);
  expect(leastWhenOneEnded).toBeGreaterThan(objects * 0.9);
});
