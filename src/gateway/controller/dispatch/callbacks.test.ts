import { expect, it } from 'vitest';
import { LimitedLines, type LogFields, silentLogger, silentMetrics, systemClock } from '../../../core/index.ts';
import type { CallbackBody } from '../../../contract/index.ts';
import { TokenError } from '../access/token.ts';
import { Callbacks, type CallbacksOptions } from './callbacks.ts';

it('callbacks write a line each within the limit of their tenant, and the next line says how many were left out', async () => {
  let nowMs = 0;
  const lines = new LimitedLines({ now: () => nowMs });
  const written: LogFields[] = [];
  const write = (fields: LogFields): void => void written.push(fields);
  const options: Omit<CallbacksOptions, 'queue' | 'dispatcher'> = {
    controller: 'c',
    declaration: 'd',
    tokens: {
      verify: () => {
        throw new TokenError('the token is over');
      },
      hasAccount: async () => true,
    },
    incarnation: async () => 'i',
    admitLine: () => lines.admit('tenant'),
    runtime: { clock: systemClock, logger: { ...silentLogger, info: write, warn: write }, metrics: silentMetrics },
  };
  const callbacks = new Callbacks(options as CallbacksOptions);
  const result = { status: 'done' } as const;
  const body: CallbackBody = { version: 'v1', controller: 'c', token: 't', namespace: 'a', name: 'b', run: 7, result };
  for (let at = 0; at < 50; at += 1) expect(await callbacks.handle(body)).toMatchObject({ kind: 'over' });
  expect(written).toHaveLength(10);
  expect(written[0]).toMatchObject({ controller: 'c', key: 'a/b', run: 7, end: 'over' });
  nowMs += 1000;
  await callbacks.handle(body);
  expect(written.slice(10)).toMatchObject([{ end: 'over', leftOut: 40 }]);
});

it('a callback for a key that its token does not name asks neither the queue nor the apiserver', async () => {
  const runs = { incarnation: 'i', keys: { 7: 'a/b' } };
  const asked = async (): Promise<never> => expect.fail('it was asked');
  const options: Omit<CallbacksOptions, 'queue' | 'dispatcher'> = {
    controller: 'c',
    declaration: 'd',
    tokens: { verify: () => ({ controller: 'c', declaration: 'd', runs, expiresAt: Infinity }), hasAccount: asked },
    incarnation: asked,
    admitLine: () => undefined,
    runtime: { clock: systemClock, logger: silentLogger, metrics: silentMetrics },
  };
  const callbacks = new Callbacks(options as CallbacksOptions);
  const result = { status: 'done' } as const;
  const body: CallbackBody = { version: 'v1', controller: 'c', token: 't', namespace: 'a', name: 'b', run: 7, result };
  const message = (run: number): string => `the token is not for run ${run} of this key`;
  expect(await callbacks.handle({ ...body, name: 'other' })).toEqual({ kind: 'over', message: message(7) });
  expect(await callbacks.handle({ ...body, run: 8 })).toEqual({ kind: 'over', message: message(8) });
});

it('a callback changes nothing when the ServiceAccount that its token stands for is gone', async () => {
  const options: Omit<CallbacksOptions, 'queue' | 'dispatcher'> = {
    controller: 'c',
    declaration: 'd',
    tokens: {
      verify: () => ({
        controller: 'c',
        declaration: 'd',
        runs: { incarnation: 'i', keys: { 7: 'a/b' } },
        expiresAt: Infinity,
      }),
      hasAccount: async () => false,
    },
    incarnation: async () => 'i',
    admitLine: () => undefined,
    runtime: { clock: systemClock, logger: silentLogger, metrics: silentMetrics },
  };
  // Without a queue: it must not be asked.
  const callbacks = new Callbacks(options as CallbacksOptions);
  const result = { status: 'done' } as const;
  const body: CallbackBody = { version: 'v1', controller: 'c', token: 't', namespace: 'a', name: 'b', run: 7, result };
  expect(await callbacks.handle(body)).toMatchObject({ kind: 'over', message: expect.stringContaining('ServiceAcc') });
});
