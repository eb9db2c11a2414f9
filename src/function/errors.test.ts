import { expect, it } from 'vitest';
import { ObjectKeptOutError, UnreadableObjectError } from '../contract/node/codec.ts';
import { RunOverError } from './callback.ts';
import { DeadlineError, DisruptionBudgetError, RetryAfterError, TerminalError } from './errors.ts';
import { OwnerError } from './owner.ts';

it('each has a code that programs may compare: it never changes', () => {
  const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a', uid: 'u', resourceVersion: '1' } };
  const errors = [
    new TerminalError('m'),
    new RetryAfterError('m', 1),
    new DisruptionBudgetError('m', 1),
    new DeadlineError('m'),
    new RunOverError('m'),
    new OwnerError('m'),
    new UnreadableObjectError('m'),
    new ObjectKeptOutError('ns/a', { reason: 'it is too deep', object }),
  ];
  expect(errors.map(({ name, code }) => `${name} ${code}`)).toEqual([
    'TerminalError ERR_LEVELHOOK_TERMINAL',
    'RetryAfterError ERR_LEVELHOOK_RETRY_AFTER',
    'DisruptionBudgetError ERR_LEVELHOOK_DISRUPTION_BUDGET',
    'DeadlineError ERR_LEVELHOOK_DEADLINE',
    'RunOverError ERR_LEVELHOOK_RUN_OVER',
    'OwnerError ERR_LEVELHOOK_OWNER',
    'UnreadableObjectError ERR_LEVELHOOK_UNREADABLE_OBJECT',
    'ObjectKeptOutError ERR_LEVELHOOK_OBJECT_KEPT_OUT',
  ]);
});
