import { expect, it } from 'vitest';
import type * as core from '../core/index.ts';
import { ApiError, SelectorError } from '../core/index.ts';
import { ObjectKeptOutError, UnreadableObjectError } from '../contract/node/codec.ts';
import { RunOverError } from './callback.ts';
import type * as ownErrors from './errors.ts';
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

it('each is an instance of its class in another copy of the package, and of no other class', async () => {
  // Another module for Node, and so another class of each name.
  const copies = ['./errors.ts?other', '../core/api-error.ts?other', '../core/label-requirement.ts?other'];
  const [errors, api, labels] = (await Promise.all(copies.map((path) => import(/* @vite-ignore */ path)))) as [
    typeof ownErrors,
    typeof core,
    typeof core,
  ];
  expect(errors.TerminalError).not.toBe(TerminalError);
  const others = [
    new errors.TerminalError('m'),
    new errors.RetryAfterError('m', 1),
    new errors.DisruptionBudgetError('m', 1),
    new errors.DeadlineError('m'),
    new api.ApiError({ code: 409 }),
    new labels.SelectorError('m'),
  ];
  const types = [TerminalError, RetryAfterError, DisruptionBudgetError, DeadlineError, ApiError, SelectorError];
  const instances = others.map((error) => types.filter((type) => error instanceof type).map(({ name }) => name));
  expect(instances).toEqual([
    ['TerminalError'],
    ['RetryAfterError'],
    ['RetryAfterError', 'DisruptionBudgetError'],
    ['DeadlineError'],
    ['ApiError'],
    ['SelectorError'],
  ]);
  class OwnError extends TerminalError {}
  expect(new OwnError('m')).toBeInstanceOf(TerminalError);
  expect(new OwnError('m')).toBeInstanceOf(OwnError);
  expect(new TerminalError('m')).not.toBeInstanceOf(OwnError);
  expect(others.filter((error) => error instanceof OwnError)).toEqual([]);
  for (const value of [undefined, null, 'm', {}, new Error('m')]) expect(value instanceof ApiError).toBe(false);
});
