import { expect, it } from 'vitest';
import { silentLogger } from '../../core/index.ts';
import { InstantClock } from '../../../test/harness/test-clock.ts';
import { Lifecycle } from './lifecycle.ts';

it('parts of which none ends are given up within one limit for all, each is asked, and the last first', async () => {
  const clock = new InstantClock();
  const lifecycle = new Lifecycle(clock, silentLogger);
  const asked: string[] = [];
  for (let at = 0; at < 10; at += 1) {
    lifecycle.started(`part-${at}`, () => {
      asked.push(`part-${at}`);
      return new Promise(() => {});
    });
  }
  const fromMs = clock.now();
  await lifecycle.stop(25_000);
  expect(asked).toEqual(Array.from({ length: 10 }, (_, at) => `part-${9 - at}`));
  expect(clock.now() - fromMs).toBeLessThan(30_000);
});
