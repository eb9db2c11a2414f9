import { expect, it } from 'vitest';
import { eventually } from '../../../test/harness/eventually.ts';
import { quietRuntime } from '../../../test/harness/quiet-runtime.ts';
import { ScriptedApiserver } from '../../../test/harness/scripted-apiserver.ts';
import { InstantClock } from '../../../test/harness/test-clock.ts';
import type { KubernetesObject } from '../../core/index.ts';
import type { Controllers } from '../controller/running/controllers.ts';
import type { FunctionResolver } from './function-resolver.ts';
import type { FunctionStatusWriter } from './function-status-writer.ts';
import type { ReconcileFunction } from './reconcile-function.ts';
import { DeclaredFunctions } from './declared-functions.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';

const served = {
  groupVersion: 'levelhook.dev/v1alpha1',
  resources: [{ name: 'reconcilefunctions', kind: 'ReconcileFunction', namespaced: true, verbs: ['list', 'watch'] }],
};

function declared(uid: string, resourceVersion: string): KubernetesObject {
  const metadata = { namespace: 'shop', name: 'web', uid, resourceVersion, generation: 1 };
  return { apiVersion: 'levelhook.dev/v1alpha1', kind: 'ReconcileFunction', metadata };
}

/**
 * Functions that cannot run, after this review of them, and a Redis that takes no writes while `isFull`.
 * @param hasNoTime the functions wait for processor time.
 */
async function start(reviewed: Promise<void> = Promise.resolve(), hasNoTime = false) {
  const server = await ScriptedApiserver.start();
  const ending = new AbortController();
  const clock = new InstantClock();
  const world = { hasNoTime, isFull: true, tries: 0, removed: 0, resolved: new Set<string>() };
  const controllers: Pick<Controllers, 'get' | 'stop' | 'remove'> = {
    get: () => undefined,
    stop: async () => {},
    remove: async () => {
      world.tries += 1;
      if (world.isFull) throw new Error('OOM');
      world.removed += 1;
    },
  };
  const resolver: Pick<FunctionResolver, 'resolve'> = {
    resolve: async ({ metadata }: ReconcileFunction, _signal, onWaiting) => {
      world.resolved.add(metadata.uid);
      if (world.hasNoTime) onWaiting?.();
      await reviewed;
      throw new InvalidFunctionError('Ready', 'No', 'no');
    },
  };
  const functions = new DeclaredFunctions({
    client: server.client,
    select: { labelSelector: undefined, maxPerNamespace: 10 },
    controllers: controllers as Controllers,
    resolver: resolver as FunctionResolver,
    writer: { leads: true, write: async () => {} } as unknown as FunctionStatusWriter,
    progress: { stalled: () => undefined, isIll: () => false },
    reviewMs: 1000,
    runtime: quietRuntime({ clock }),
  });
  functions.start(ending.signal);
  (await server.next()).object(served);
  const stream = (await server.next()).event('ADDED', declared('first', '1')).initialEventsEnd('1');
  await eventually(async () => expect(world.resolved).toEqual(new Set(['first'])));
  const stop = async (): Promise<void> => {
    ending.abort();
    await functions.stopped();
  };
  return { clock, functions, server, stop, stream, world };
}

it('a removal is repeated until it succeeds, and one declared again under the name comes after it', async () => {
  const { server, stop, stream, world } = await start();
  stream.event('DELETED', declared('first', '2')).event('ADDED', declared('second', '3'));
  await eventually(async () => expect(world.tries).toBeGreaterThan(3));
  expect(world.resolved).toEqual(new Set(['first']));
  world.isFull = false;
  await eventually(async () => expect(world.resolved).toEqual(new Set(['first', 'second'])));
  const { tries } = world;
  expect(world.removed).toBe(1);
  await stop();
  expect(world).toMatchObject({ removed: 1, tries });
  await server[Symbol.asyncDispose]();
});

it('a removal that does not succeed does not keep the gateway from ending', async () => {
  const { clock, server, stop, stream, world } = await start();
  stream.event('DELETED', declared('first', '2'));
  await eventually(async () => expect(world.tries).toBeGreaterThan(6));
  await stop();
  expect(world.removed).toBe(0);
  expect(clock.sleeps).toEqual(expect.arrayContaining([1000, 2000, 4000, 8000, 16_000, 30_000]));
  await server[Symbol.asyncDispose]();
});

it('a review of one declaration that takes very long delays the readiness of the gateway by a minute at most', async () => {
  const reviewed = Promise.withResolvers<void>();
  const { clock, functions, server, stop } = await start(reviewed.promise);
  const reason = 'not all ReconcileFunctions have been reconciled yet';
  expect(functions.notReady()).toBe(reason);
  clock.advance(60_000);
  expect(functions.notReady()).toEqual({ warning: reason });
  expect(functions.isComplete).toBe(false);
  reviewed.resolve();
  await functions.complete;
  expect(functions.notReady()).toBeUndefined();
  expect(functions.isComplete).toBe(true);
  await stop();
  await server[Symbol.asyncDispose]();
});

it('a ReconcileFunction that waits for processor time delays no other, and its controller may still come', async () => {
  const reviewed = Promise.withResolvers<void>();
  const { functions, server, stop } = await start(reviewed.promise, true);
  await functions.complete;
  expect(['shop.web', 'shop.other'].map((id) => functions.isUndecided(id))).toEqual([true, false]);
  reviewed.resolve();
  await eventually(async () => expect(functions.isUndecided('shop.web')).toBe(false));
  await stop();
  await server[Symbol.asyncDispose]();
});
