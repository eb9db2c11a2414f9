import { expect, it } from 'vitest';
import { eventually } from '../../../test/harness/eventually.ts';
import { memoryUse } from '../../../test/harness/memory-use.ts';
import { quietRuntime } from '../../../test/harness/quiet-runtime.ts';
import { ScriptedApiserver } from '../../../test/harness/scripted-apiserver.ts';
import { InstantClock, VirtualClock } from '../../../test/harness/test-clock.ts';
import { type ObjectMeta, silentLogger } from '../../core/index.ts';
import { DeclarationLog } from '../controller/running/declaration-log.ts';
import type { Controllers } from '../controller/running/controllers.ts';
import type { FunctionResolver } from './function-resolver.ts';
import type { FunctionStatusWriter } from './function-status-writer.ts';
import type { ReconcileFunction, ReconcileFunctionStatus } from './reconcile-function.ts';
import { DeclaredFunctions } from './declared-functions.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';

const served = {
  groupVersion: 'levelhook.dev/v1alpha1',
  resources: [{ name: 'reconcilefunctions', kind: 'ReconcileFunction', namespaced: true, verbs: ['list', 'watch'] }],
};

function declared(uid: string, resourceVersion: string, more: Partial<ObjectMeta> = {}): ReconcileFunction {
  const metadata = { namespace: 'shop', name: 'web', uid, resourceVersion, generation: 1, ...more };
  return { apiVersion: 'levelhook.dev/v1alpha1', kind: 'ReconcileFunction', metadata, spec: { of: uid } };
}

interface StartOptions {
  /** What the review of each function waits for. */
  readonly reviewed?: Promise<void>;
  /** The functions wait for processor time. */
  readonly hasNoTime?: boolean;
  /** Time stands still: nothing is tried again. */
  readonly isTimeless?: boolean;
  /** The objects that the cluster has, each made when it is sent. */
  readonly objects?: readonly (() => ReconcileFunction)[];
}

/** Functions that cannot run, after a review of them, and a Redis that takes no writes while `isFull`. */
async function start({
  reviewed,
  hasNoTime = false,
  isTimeless = false,
  objects = [() => declared('first', '1')],
}: StartOptions = {}) {
  const server = await ScriptedApiserver.start();
  const ending = new AbortController();
  const clock = new InstantClock();
  const world = {
    hasNoTime,
    isFull: true,
    tries: 0,
    removed: 0,
    resolves: 0,
    resolved: new Set<string>(),
    specs: new Map<string, unknown>(),
    leaving: 0,
    refused: new Map<string, string>(),
  };
  const controllers: Pick<Controllers, 'get' | 'known' | 'log' | 'stop' | 'remove'> = {
    known: () => new Map(),
    log: new DeclarationLog({ clock, logger: silentLogger }),
    get: () => undefined,
    stop: async () => {},
    remove: async () => {
      world.tries += 1;
      if (world.isFull) throw new Error('OOM');
      world.removed += 1;
    },
  };
  const resolver: Pick<FunctionResolver, 'resolve'> = {
    resolve: async ({ metadata, spec }: ReconcileFunction, _signal, on) => {
      world.resolves += 1;
      world.resolved.add(metadata.uid);
      world.specs.set(metadata.uid, spec);
      if (world.hasNoTime) on?.waiting?.();
      await reviewed;
      throw new InvalidFunctionError('Ready', 'No', 'no');
    },
  };
  const functions = new DeclaredFunctions({
    cluster: { client: server.client, rights: { run: async () => {} } },
    select: { labelSelector: undefined, maxPerNamespace: 10, leaving: () => world.leaving },
    controllers: controllers as Controllers,
    resolver: resolver as FunctionResolver,
    writer: {
      leads: true,
      write: async ({ metadata }: ReconcileFunction, _: unknown, { conditions = [] }: ReconcileFunctionStatus) => {
        const ready = conditions.find(({ type }) => type === 'Ready');
        world.refused.set(metadata.uid, `${ready?.reason}: ${ready?.message}`);
      },
    } as unknown as FunctionStatusWriter,
    progress: { stalled: () => undefined, isIll: () => false },
    reviewMs: 1000,
    runtime: quietRuntime({ clock: isTimeless ? new VirtualClock() : clock }),
  });
  functions.start(ending.signal);
  (await server.next()).object(served);
  const stream = await server.next();
  const live = new Map<string, () => ReconcileFunction>();
  for (const object of objects) {
    live.set(object().metadata.name, object);
    stream.event('ADDED', object());
  }
  stream.initialEventsEnd('1');
  const reads: string[] = [];
  server.answer((path) => {
    const name = path.slice(path.lastIndexOf('/') + 1);
    reads.push(name);
    return live.get(name)?.();
  });
  const stop = async (): Promise<void> => {
    ending.abort();
    await functions.stopped();
  };
  return { clock, functions, live, reads, server, stop, stream, world };
}

it('a removal is repeated until it succeeds, and one declared again under the name comes after it', async () => {
  const { live, server, stop, stream, world } = await start();
  await eventually(async () => expect(world.resolved).toEqual(new Set(['first'])));
  live.set('web', () => declared('second', '3'));
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

it('a function waits while too many deleted ones of its namespace have runs that are not over', async () => {
  const { live, server, stop, stream, world } = await start({ objects: [] });
  world.leaving = 100;
  live.set('web', () => declared('first', '2'));
  stream.event('ADDED', declared('first', '2'));
  await eventually(async () =>
    expect(world.refused.get('first')).toBe(
      'TooManyFunctions: 100 deleted ReconcileFunctions of the namespace have runs that are not over: it waits for one of them to end.',
    ),
  );
  expect(world.resolves).toBe(0);
  world.leaving = 99;
  await eventually(async () => expect(world.resolves).toBeGreaterThan(0));
  await stop();
  await server[Symbol.asyncDispose]();
});

it('a removal that does not succeed does not keep the gateway from ending', async () => {
  const { clock, server, stop, stream, world } = await start();
  await eventually(async () => expect(world.resolved).toEqual(new Set(['first'])));
  stream.event('DELETED', declared('first', '2'));
  await eventually(async () => expect(world.tries).toBeGreaterThan(6));
  await stop();
  expect(world.removed).toBe(0);
  expect(clock.sleeps).toEqual(expect.arrayContaining([1000, 2000, 4000, 8000, 16_000, 30_000]));
  await server[Symbol.asyncDispose]();
});

it('a review of one declaration that takes very long delays the readiness of the gateway by a minute at most', async () => {
  const reviewed = Promise.withResolvers<void>();
  const { clock, functions, server, stop, world } = await start({ reviewed: reviewed.promise });
  // The list was read.
  await eventually(async () => expect(world.resolved).toEqual(new Set(['first'])));
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
  const { functions, server, stop } = await start({ reviewed: reviewed.promise, hasNoTime: true });
  await functions.complete;
  expect(['shop.web', 'shop.other'].map((id) => functions.isUndecided(id))).toEqual([true, false]);
  reviewed.resolve();
  await eventually(async () => expect(functions.isUndecided('shop.web')).toBe(false));
  await stop();
  await server[Symbol.asyncDispose]();
});

const MAX = 10;
const LARGE = 256 * 1024;

/** The object of this number, the older the smaller, with a large spec and large annotations. */
function large(number: number): ReconcileFunction {
  const seconds = `${number % 60}`.padStart(2, '0');
  const creationTimestamp = `2026-01-01T00:0${Math.floor(number / 60)}:${seconds}Z`;
  const more = { name: `f${number}`, creationTimestamp, annotations: { large: 'a'.repeat(LARGE) } };
  return { ...declared(`u${number}`, '1', more), spec: specOf(number) };
}

const specOf = (number: number) => ({ number, large: `${number}`.repeat(LARGE / 4).slice(0, LARGE) });

/** Starts with this number of them, the youngest first. */
function startLarge(count: number) {
  const objects = Array.from({ length: count }, (_, at) => () => large(at));
  return start({ isTimeless: true, objects: objects.toReversed() });
}

const namesOf = (numbers: readonly number[]): string[] => numbers.map((number) => `f${number}`);
const oldest = Array.from({ length: MAX }, (_, at) => at);

it('beyond the limit of a namespace the gateway keeps neither specs nor annotations, however large they are', async () => {
  const before = await memoryUse();
  const { functions, reads, server, stop, world } = await startLarge(60);
  await functions.complete;
  world.specs.clear();
  const ready = (number: number) => functions.conditions(`shop.f${number}`)?.find(({ type }) => type === 'Ready');
  await eventually(async () => expect(ready(59)?.reason).toBe('TooManyFunctions'));
  expect([0, 9, 10].map((number) => ready(number)?.reason)).toEqual(['No', 'No', 'TooManyFunctions']);
  // Of all objects together it would be 30 MiB.
  expect((await memoryUse()) - before).toBeLessThan(8 * 1024 * 1024);
  expect(reads.toSorted()).toEqual(namesOf(oldest));
  await stop();
  await server[Symbol.asyncDispose]();
});

it('a ReconcileFunction that comes within the limit is read again, and runs with its whole spec', async () => {
  const { functions, reads, server, stop, stream, world } = await startLarge(20);
  await functions.complete;
  stream.event('DELETED', large(3));
  await eventually(async () => expect(world.specs.get('u10')).toEqual(specOf(10)));
  stream.event('DELETED', large(15)).event('DELETED', large(0));
  await eventually(async () => expect(world.specs.get('u11')).toEqual(specOf(11)));
  expect(reads.toSorted()).toEqual(namesOf([...oldest, 10, 11]).toSorted());
  await stop();
  await server[Symbol.asyncDispose]();
});

it('an older ReconcileFunction takes the place of the youngest within the limit', async () => {
  const objects = Array.from({ length: MAX }, (_, at) => () => large(at + 1));
  const { functions, live, server, stop, stream, world } = await start({ isTimeless: true, objects });
  await functions.complete;
  live.set('f0', () => large(0));
  stream.event('ADDED', large(0));
  await eventually(async () => expect(world.specs.get('u0')).toEqual(specOf(0)));
  const reasonOf = (id: string) => functions.conditions(id)?.find(({ type }) => type === 'Ready')?.reason;
  await eventually(async () => expect(reasonOf(`shop.f${MAX}`)).toBe('TooManyFunctions'));
  expect(reasonOf('shop.f1')).toBe('No');
  await stop();
  await server[Symbol.asyncDispose]();
});

it('a changed spec is read and resolved again, and a changed status is not', async () => {
  const { live, reads, server, stop, stream, world } = await start({ isTimeless: true });
  await eventually(async () => expect(world.specs.get('first')).toEqual({ of: 'first' }));
  const withStatus: ReconcileFunction = { ...declared('first', '2'), status: { url: 'http://forged.example/' } };
  stream.event('MODIFIED', withStatus);
  // Events are handled in order: a review of `web` would begin before the first one of `other`.
  live.set('other', () => declared('second', '3', { name: 'other' }));
  stream.event('ADDED', declared('second', '3', { name: 'other' }));
  await eventually(async () => expect(world.specs.get('second')).toEqual({ of: 'second' }));
  expect(reads).toEqual(['web', 'other']);
  expect(world.resolves).toBe(2);
  const changed = { ...declared('first', '4', { generation: 2 }), spec: { of: 'another' } };
  live.set('web', () => changed);
  stream.event('MODIFIED', changed);
  await eventually(async () => expect(world.specs.get('first')).toEqual({ of: 'another' }));
  expect(reads).toEqual(['web', 'other', 'web']);
  expect(world.resolves).toBe(3);
  await stop();
  await server[Symbol.asyncDispose]();
});
