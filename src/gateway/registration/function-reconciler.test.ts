import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/harness/eventually.ts';
import { InstantClock } from '../../../test/harness/test-clock.ts';
import { silentLogger, UserError } from '../../core/index.ts';
import type { Description } from '../../contract/index.ts';
import type { FunctionCondition, ConditionType } from './condition.ts';
import type { Controllers, StartOptions } from '../controllers/controllers.ts';
import type { ControllerSpec } from '../controllers/controller-spec.ts';
import type { ResolvedFunction, FunctionResolver } from './function-resolver.ts';
import type { FunctionStatusWriter } from './function-status-writer.ts';
import { FunctionReconciler } from './function-reconciler.ts';
import type { ReconcileFunction, ReconcileFunctionStatus } from './reconcile-function.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';

const forEver = (signal: AbortSignal): Promise<void> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
const forbidden = new InvalidFunctionError('Authorized', 'Forbidden', 'spec.for: no');

/** What a spec comes to: its text is the hash, and where its function is, which is nowhere. */
interface Spec {
  readonly hash: string;
  readonly paused?: boolean;
  readonly sync?: (signal: AbortSignal) => Promise<void>;
}

class World {
  readonly clock = new InstantClock();
  readonly written: ReconcileFunctionStatus[] = [];
  readonly said: string[] = [];
  paused = false;
  misses: string | undefined;
  waitsFor: string | undefined;
  keptOut = 0;
  standstillMs = 0;
  running: ControllerSpec | undefined;
  /** What looking at the object comes to, by its hash. */
  resolve: (hash: string) => string = (hash) => hash;
  /** What asking for its rights alone comes to. */
  rights: () => void = () => {};
  /** What starting it comes to. */
  start: () => void = () => {};
  #generation = 0;
  #managed: FunctionReconciler | undefined;
  readonly #specs = new Map<string, Spec>();

  declare(spec: Spec): FunctionReconciler {
    this.#specs.set(spec.hash, spec);
    this.#generation += 1;
    const metadata = { namespace: 'shop', name: 'web', uid: 'u', resourceVersion: '1', generation: this.#generation };
    const object: ReconcileFunction = {
      apiVersion: 'levelhook.dev/v1alpha1',
      kind: 'ReconcileFunction',
      metadata,
      spec,
    };
    if (this.#managed) this.#managed.update(object);
    else this.#managed = this.#manage(object);
    return this.#managed;
  }

  condition(type: ConditionType): FunctionCondition | undefined {
    return this.written.at(-1)?.conditions?.find((each) => each.type === type);
  }

  until(type: ConditionType, expected: Partial<FunctionCondition>): Promise<void> {
    return eventually(async () => expect(this.condition(type)).toMatchObject(expected));
  }

  /** So many looks later. */
  async looks(count = 5): Promise<void> {
    const end = this.clock.sleeps.length + count;
    await eventually(async () => expect(this.clock.sleeps.length).toBeGreaterThan(end));
  }

  async end(): Promise<void> {
    await this.#managed?.end();
  }

  #manage(object: ReconcileFunction): FunctionReconciler {
    const resolver = {
      resolve: async ({ spec }: ReconcileFunction): Promise<ResolvedFunction> => {
        const { hash: declared, paused } = spec as Spec;
        const hash = this.resolve(declared);
        const description = { name: 'web' } as Description;
        const rules = { allow: ['http://127.0.0.1:9'], loopback: true };
        const controller = { id: 'shop.web', description, url: 'http://127.0.0.1:9/', rules, keys: [] };
        return { controller: { ...controller, ca: hash }, paused, hash, checkRights: async () => this.rights() };
      },
    };
    const queue = {
      pause: async () => void (this.paused = true),
      resume: async () => void (this.paused = false),
      standstillMs: async () => this.standstillMs,
      pauses: async () => (this.paused ? [{ scope: 'controller', sinceMs: 0 }] : []),
    };
    const controllers = {
      get: () =>
        this.running && {
          queue,
          openReason: undefined,
          missesEvents: this.misses,

          keptOut: async () => this.keptOut,
        },
      waitsFor: () => this.waitsFor,
      apply: async (spec: ControllerSpec, { signal, onWaiting }: StartOptions) => {
        this.start();
        onWaiting?.();
        await (this.#specs.get(spec.ca ?? '')?.sync ?? (async () => {}))(signal);
        this.running = spec;
        this.said.push(`run ${spec.ca}`);
      },
      stop: async () => {
        if (this.running) this.said.push('stop');
        this.running = undefined;
      },
    };
    const writer = {
      write: async (_o: unknown, _b: unknown, status: ReconcileFunctionStatus) => this.written.push(status),
    };
    return new FunctionReconciler(object, {
      resolver: resolver as unknown as FunctionResolver,
      controllers: controllers as unknown as Controllers,
      writer: writer as unknown as FunctionStatusWriter,
      reviewMs: 10_000,
      clock: this.clock,
      logger: silentLogger,
    });
  }
}

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => world.end());

describe('a ReconcileFunction under management', () => {
  it('runs, and says what it found, once', async () => {
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True' });
    await world.until('Reachable', { status: 'False', reason: 'ConnectionRefused' });
    await world.looks(20);
    expect(world.said).toEqual(['run a']);
    const count = world.written.length;
    await world.looks(20);
    expect(world.written).toHaveLength(count);
  });

  it('goes on as it was when a change is taken back before it was through, and says so', async () => {
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True' });
    world.declare({ hash: 'b', sync: forEver });
    await world.until('Synced', { status: 'False', reason: 'CacheFilling' });
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True', observedGeneration: 3 });
    expect(world.said).toEqual(['run a']);
  });

  it('stops when a right is withdrawn while a change of it waits for a cache that never comes', async () => {
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True' });
    world.declare({ hash: 'b', sync: forEver });
    await world.until('Synced', { reason: 'CacheFilling' });
    expect(world.running?.ca).toBe('a');
    world.resolve = () => {
      throw forbidden;
    };
    await world.until('Authorized', { status: 'False', reason: 'Forbidden' });
    expect(world.said).toEqual(['run a', 'stop']);
  });

  it('stops when a right is withdrawn while the rest of it cannot be looked at, and not for that alone', async () => {
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True' });
    world.resolve = () => {
      throw new Error('the aggregated apiserver of one of its kinds is down');
    };
    await world.looks(20);
    expect(world.said).toEqual(['run a']);
    world.rights = () => {
      throw forbidden;
    };
    await world.until('Authorized', { status: 'False', reason: 'Forbidden' });
    expect(world.said).toEqual(['run a', 'stop']);
  });

  it('begins again when what it names changes while it waits', async () => {
    world.declare({ hash: 'a', sync: forEver });
    await world.until('Synced', { reason: 'CacheFilling' });
    // Its Secret is another one, say.
    world.resolve = () => 'b';
    await world.until('Synced', { status: 'True' });
    expect(world.said).toEqual(['run b']);
  });

  it('has been looked at when it waits for nothing but its cache: nobody else waits for that', async () => {
    await world.declare({ hash: 'a', sync: forEver }).looked;
    expect(world.said).toEqual([]);
  });

  it('goes on while the apiserver does not answer', async () => {
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True' });
    world.resolve = () => {
      throw new Error('connection refused');
    };
    await world.looks(50);
    expect(world.said).toEqual(['run a']);
    expect(world.condition('Authorized')).toMatchObject({ status: 'True' });
  });

  it('says that it cannot run once, however often that is tried', async () => {
    world.start = () => {
      throw new UserError('it cannot run');
    };
    world.declare({ hash: 'a' });
    await world.until('Ready', { status: 'False', reason: 'NotRunnable' });
    const count = world.written.length;
    await world.looks(100);
    expect(world.written).toHaveLength(count);
  });
});

describe('a ReconcileFunction that runs says on its object', () => {
  it('that its handlers fail, and when they no longer do', async () => {
    world.declare({ hash: 'a' });
    await world.until('EventsHandled', { status: 'True' });
    world.misses = 'watches.0.map was cut off';
    await world.until('EventsHandled', { status: 'False', reason: 'HandlersFail' });
    await world.until('Ready', { status: 'False', reason: 'HandlersFail' });
    expect(world.condition('EventsHandled')?.message).toContain('watches.0.map was cut off');
    world.misses = undefined;
    await world.until('EventsHandled', { status: 'True' });
  });

  it('that its keys wait after a loss of data', async () => {
    world.waitsFor = 'reading the server again: v1/Pod';
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'False', reason: 'Recovering' });
    world.waitsFor = undefined;
    await world.until('Synced', { status: 'True', reason: 'CacheComplete' });
  });

  it('that a key stands still', async () => {
    world.standstillMs = 31_000;
    world.declare({ hash: 'a' });
    await world.until('EventsHandled', { status: 'False', reason: 'KeysStandStill' });
  });

  it('that objects are kept out of what it reads', async () => {
    world.keptOut = 2;
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True', reason: 'ObjectsKeptOut' });
  });
});

describe('spec.paused', () => {
  it('pauses the keys as long as it is true, whatever became of the pause', async () => {
    world.declare({ hash: 'a', paused: true });
    await world.until('Paused', { status: 'True', reason: 'PausedBySpec' });
    expect(world.paused).toBe(true);
    // By hand, or with the rest of what Redis held.
    world.paused = false;
    await eventually(async () => expect(world.paused).toBe(true));
    world.declare({ hash: 'a', paused: false });
    await world.until('Paused', { status: 'False' });
    expect(world.paused).toBe(false);
  });

  it('that goes lets the keys run, and pauses them again when it comes back', async () => {
    world.declare({ hash: 'a', paused: true });
    await world.until('Paused', { status: 'True' });
    world.declare({ hash: 'a' });
    await world.until('Paused', { status: 'False' });
    expect(world.paused).toBe(false);
    world.declare({ hash: 'a', paused: true });
    await world.until('Paused', { status: 'True' });
    expect(world.paused).toBe(true);
  });

  it('that is not there leaves a pause by hand alone', async () => {
    world.paused = true;
    world.declare({ hash: 'a' });
    await world.until('Paused', { status: 'True', reason: 'PausedByHand' });
    await world.looks(20);
    expect(world.paused).toBe(true);
  });
});
