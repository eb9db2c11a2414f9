import { expect, it } from 'vitest';
import { systemClock } from '../../../../core/index.ts';
import { BarrierChecks } from './barrier-checks.ts';

it('the barriers of the last runs are remembered, except for long ones, which would fill the heap', async () => {
  const process = { passed: async () => true, late: () => {} };
  const onError = (error: unknown): void => expect.unreachable(String(error));
  const checks = new BarrierChecks({ process, clock: systemClock, onError });
  const [short, long] = ['b'.repeat(512), 'b'.repeat(513)];
  checks.remember('a', short);
  checks.remember('b', short);
  checks.remember('b', long);
  expect([await checks.passedOf('a'), await checks.passedOf('b')]).toEqual([short, undefined]);
});

it('a barrier that was not checked counts as not passed, and never as late', async () => {
  const late: string[] = [];
  const answers = [undefined, false, true];
  const process = { passed: async () => answers.shift(), late: (barrier: string) => void late.push(barrier) };
  const onError = (error: unknown): void => expect.unreachable(String(error));
  const checks = new BarrierChecks({ process, clock: { ...systemClock, now: () => 10_000 }, onError });
  expect([await checks.passed('b', 0), late]).toEqual([false, []]);
  expect([await checks.passed('b', 0), late]).toEqual([false, ['b']]);
  expect(await checks.passed('b', 0)).toBe(true);
});
