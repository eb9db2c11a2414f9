import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/harness/eventually.ts';
import { InstantClock, VirtualClock } from '../../../test/harness/test-clock.ts';
import { type Clock, type Condition, type LogFields, silentLogger, UserError } from '../../core/index.ts';
import { CONTRACT_VERSION, type Description } from '../../contract/index.ts';
import type { ConditionType } from './condition-type.ts';
import type { RunningController } from '../controller/running/controller.ts';
import type { Controllers, StartOptions } from '../controller/running/controllers.ts';
import { DECLARATION_LINES, DeclarationLog } from '../controller/running/declaration-log.ts';
import type { ControllerSpec } from '../controller/running/controller-spec.ts';
import type { LastAnswer } from '../controller/endpoint/endpoint.ts';
import type { ResolvedFunction, FunctionResolver } from './function-resolver.ts';
import type { FunctionStatusWriter } from './function-status-writer.ts';
import { FunctionReconciler } from './function-reconciler.ts';
import type { ReconcileFunction, ReconcileFunctionStatus } from './reconcile-function.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';
import { RightsChanges } from './rights-changes.ts';

const forEver = (signal: AbortSignal): Promise<void> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
const forbidden = new InvalidFunctionError('Authorized', 'Forbidden', 'spec.for: no');

const PAUSED_BY_SPEC: Condition = {
  type: 'Paused',
  status: 'True',
  reason: 'PausedBySpec',
  message: 'spec.paused is true.',
  lastTransitionTime: '2026-01-01T00:00:00Z',
};

/** What a spec comes to: its text is the hash, and where its function is, which is nowhere. */
interface Spec {
  readonly hash: string;
  readonly paused?: boolean;
  readonly sync?: (signal: AbortSignal) => Promise<void>;
}

class World {
  readonly clock: Clock;
  /** Of all functions of the tenant. */
  readonly log: DeclarationLog;
  readonly #url: string;
  readonly written: ReconcileFunctionStatus[] = [];
  readonly said: string[] = [];
  /** Whether this gateway leads. */
  leads = true;
  paused = false;
  misses: string | undefined;
  /** The right that the gateway lacks. */
  refusal: string | undefined;
  waitsFor: string | undefined;
  keptOut = 0;
  /** How many keys are in a list of its queue. */
  keys: Readonly<Record<string, number>> = {};
  leftOut = 0;
  stalled: string | undefined;
  /** Whether `Progress` knows that its controller is not well. */
  isIll = false;
  openReason: string | undefined;
  lastAnswer: LastAnswer | undefined;
  /** When the failures that it reports end. */
  endsMs = Infinity;
  /** How often Redis was asked, and the apiserver. */
  readonly asked = { redis: 0, apiserver: 0, reads: 0 };
  running: ControllerSpec | undefined;
  /** The result of resolving the object, by its hash. */
  resolve: (hash: string) => string = (hash) => hash;
  /** Whether it must not run, although it is valid. */
  check: () => InvalidFunctionError | undefined = () => undefined;
  /** The result of reviewing its rights alone. */
  rights: () => void = () => {};
  /** The result of starting it. */
  start: () => void = () => {};
  #generation = 0;
  #managed: FunctionReconciler | undefined;
  #object: ReconcileFunction | undefined;
  readonly #specs = new Map<string, Spec>();

  /** @param url of the function. Default: it does not answer. */
  constructor(
    clock: Clock = new InstantClock(),
    url = 'http://127.0.0.1:9/',
    log = new DeclarationLog({ clock, logger: silentLogger }),
  ) {
    this.clock = clock;
    this.log = log;
    this.#url = url;
  }

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
    this.#object = object;
    if (this.#managed) this.#managed.update(object);
    else this.#managed = this.#manage(object);
    return this.#managed;
  }

  /** The object comes back with these conditions, by whomever. */
  observe(conditions: readonly Condition[]): void {
    if (this.#object) this.#managed?.update({ ...this.#object, status: { ...this.written.at(-1), conditions } });
  }

  condition(type: ConditionType): Condition | undefined {
    return this.written.at(-1)?.conditions?.find((each) => each.type === type);
  }

  until(type: ConditionType, expected: Partial<Condition>): Promise<void> {
    return eventually(async () => expect(this.condition(type)).toMatchObject(expected));
  }

  /** Waits for this number of reviews. */
  async reviews(count = 5): Promise<void> {
    const end = this.asked.apiserver + count;
    await eventually(async () => expect(this.asked.apiserver).toBeGreaterThan(end));
  }

  /** Changes facts behind its conditions. */
  change(
    what: Partial<
      Pick<World, 'keptOut' | 'keys' | 'misses' | 'openReason' | 'paused' | 'refusal' | 'stalled' | 'waitsFor'>
    >,
  ): void {
    Object.assign(this, what);
    this.#managed?.again('facts');
  }

  async end(): Promise<void> {
    await this.#managed?.end();
  }

  #manage(object: ReconcileFunction): FunctionReconciler {
    const resolver: Pick<FunctionResolver, 'inTurn' | 'resolve'> = {
      inTurn: async (_, work) => work(),
      resolve: async ({ spec }: ReconcileFunction, _signal, on): Promise<ResolvedFunction> => {
        this.asked.apiserver += 1;
        on?.asking?.({ account: { namespace: 'shop', name: 'reader' }, namespaces: new Set() });
        const { hash: declared, paused } = spec as Spec;
        const hash = this.resolve(declared);
        const description = { name: 'web' } as Description;
        const rules = { allow: [new URL(this.#url).origin], loopback: true, tenant: 'shop.' };
        const where = { url: this.#url, rules, ca: hash };
        const declaration = declared;
        const controller: ControllerSpec = {
          id: 'shop.web',
          origin: 'declared',
          declaration,
          description,
          ...where,
          keys: [],
        };
        return { controller, paused, hash, checkRights: async () => this.rights() };
      },
    };
    const queue = {
      pause: async () => this.change({ paused: true }),
      resume: async () => this.change({ paused: false }),
      inspector: {
        levels: async () => {
          this.asked.redis += 1;
          return {
            pauses: this.paused ? [{ scope: 'controller', sinceMs: 0 }] : [],
            pausedObjects: 0,
            sizes: this.keys,
          };
        },
      },
    };
    const keptOut = async () => {
      this.asked.redis += 1;
      return { all: this.keptOut, leftOut: this.leftOut };
    };
    // One object as long as it runs.
    const failures = Object.defineProperties({} as { missesEvents: string | undefined; endsMs: number }, {
      missesEvents: { get: () => this.misses },
      // As HandlerFailures: a failure that has ended is not reported any more.
      endsMs: { get: () => (this.clock.now() < this.endsMs ? this.endsMs : Infinity) },
    });
    const controller = Object.defineProperties({ queue, failures } as unknown as RunningController, {
      circuit: {
        get: () => (this.openReason === undefined ? undefined : { sinceMs: 0, untilMs: 0, reason: this.openReason }),
      },
      endpoint: { get: () => ({ lastAnswer: this.lastAnswer }) },
      sources: { get: () => ({ keptOut, refusal: this.refusal }) },
    });
    const controllers = {
      log: this.log,
      get: () => this.running && controller,
      waitsFor: () => this.waitsFor,
      apply: async (spec: ControllerSpec, { signal, onWaiting }: StartOptions) => {
        this.start();
        onWaiting?.(controller);
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
      isLeading: () => this.leads,
      get leads() {
        return this.isLeading();
      },
      write: async (_o: unknown, _b: unknown, status: ReconcileFunctionStatus) => this.written.push(status),
    };
    return new FunctionReconciler(object, {
      resolver: resolver as unknown as FunctionResolver,
      controllers: controllers as unknown as Controllers,
      writer: writer as unknown as FunctionStatusWriter,
      progress: { stalled: () => this.stalled, isIll: () => this.isIll },
      reviewMs: 10_000,
      declared: {
        read: async () => {
          this.asked.reads += 1;
          return this.#object ?? object;
        },
        check: () => this.check(),
      },
      runtime: { clock: this.clock, logger: silentLogger },
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
    await world.reviews();
    expect(world.said).toEqual(['run a']);
    const count = world.written.length;
    await world.reviews();
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
    await world.reviews();
    expect(world.said).toEqual(['run a']);
    world.rights = () => {
      throw forbidden;
    };
    await world.until('Authorized', { status: 'False', reason: 'Forbidden' });
    expect(world.said).toEqual(['run a', 'stop']);
  });

  it('says which right the gateway lacks while it waits for its cache, and when the gateway has the right', async () => {
    world.refusal = 'the gateway may not list things: grant it';
    world.declare({ hash: 'a', sync: forEver });
    await world.until('Ready', { status: 'False', reason: 'GatewayForbidden' });
    expect(world.condition('Synced')?.message).toContain('the gateway may not list things: grant it');
    world.change({ refusal: undefined });
    await world.until('Synced', { status: 'False', reason: 'CacheFilling' });
    world.change({ refusal: 'the gateway may not watch things' });
    await world.until('Synced', { reason: 'GatewayForbidden' });
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

  it('counts as undecided until the apiserver has answered, although it has been looked at', async () => {
    world.resolve = () => {
      throw new Error('connection refused');
    };
    const managed = world.declare({ hash: 'a', sync: forEver });
    await managed.looked;
    await world.reviews();
    expect(managed.isDecided).toBe(false);
    world.resolve = () => {
      throw forbidden;
    };
    await world.until('Authorized', { status: 'False' });
    expect(managed.isDecided).toBe(true);
  });

  it('is decided when it waits for nothing but its cache', async () => {
    const managed = world.declare({ hash: 'a', sync: forEver });
    expect(managed.isDecided).toBe(false);
    await managed.looked;
    expect(managed.isDecided).toBe(true);
  });

  it('goes on while the apiserver does not answer', async () => {
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True' });
    world.resolve = () => {
      throw new Error('connection refused');
    };
    await world.reviews(10);
    expect(world.said).toEqual(['run a']);
    expect(world.condition('Authorized')).toMatchObject({ status: 'True' });
  });

  it('runs in a gateway that follows, which writes nothing before it leads', async () => {
    world.leads = false;
    const managed = world.declare({ hash: 'a', paused: true });
    await world.reviews();
    expect(world.said).toEqual(['run a']);
    expect(world.written).toEqual([]);
    expect(world.paused).toBe(false);
    world.leads = true;
    managed.lead();
    await world.until('Synced', { status: 'True' });
    await eventually(async () => expect(world.paused).toBe(true));
  });

  it('is paused also when the apiserver does not answer the first review of the change', async () => {
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True' });
    let failures = 0;
    world.resolve = (hash) => {
      if ((failures += 1) <= 2) throw new Error('connection refused');
      return hash;
    };
    world.declare({ hash: 'a', paused: true });
    await eventually(async () => expect(world.paused).toBe(true), 5000);
  });

  it('that another gateway paused runs again when the field is removed after this one leads', async () => {
    world.leads = false;
    const managed = world.declare({ hash: 'a', paused: true });
    await world.reviews();
    world.paused = true;
    world.observe([PAUSED_BY_SPEC]);
    world.leads = true;
    managed.lead();
    world.declare({ hash: 'a' });
    await eventually(async () => expect(world.paused).toBe(false));
  });

  it('that another gateway paused runs again when the field was removed while no gateway led', async () => {
    world.leads = false;
    world.paused = true;
    const managed = world.declare({ hash: 'a' });
    world.observe([PAUSED_BY_SPEC]);
    await world.reviews();
    expect(world.paused).toBe(true);
    world.leads = true;
    managed.lead();
    await eventually(async () => expect(world.paused).toBe(false));
  });

  it('keeps the pause of a person when this gateway leads after another one has ended that of the spec', async () => {
    world.leads = false;
    const managed = world.declare({ hash: 'a', paused: true });
    world.observe([PAUSED_BY_SPEC]);
    await world.reviews();
    world.declare({ hash: 'a' });
    world.paused = true;
    world.observe([{ ...PAUSED_BY_SPEC, reason: 'PausedByHand' }]);
    world.leads = true;
    managed.lead();
    await world.until('Paused', { reason: 'PausedByHand' });
    await world.reviews();
    expect(world.paused).toBe(true);
  });

  it('says that it cannot run once, however often that is tried', async () => {
    world.start = () => {
      throw new UserError('it cannot run');
    };
    world.declare({ hash: 'a' });
    await world.until('Ready', { status: 'False', reason: 'NotRunnable' });
    const count = world.written.length;
    await world.reviews(20);
    expect(world.written).toHaveLength(count);
  });
});

describe('fifty ReconcileFunctions of a tenant', () => {
  it('fill no log when each is changed from one invalid URL to another one, again and again', async () => {
    const clock = new VirtualClock();
    const written: LogFields[] = [];
    const logger = { ...silentLogger, info: (fields: LogFields) => void written.push(fields) };
    const log = new DeclarationLog({ clock, logger });
    const worlds = Array.from({ length: 50 }, () => new World(clock, undefined, log));
    for (const each of worlds) {
      each.resolve = (hash) => {
        throw new InvalidFunctionError('Reachable', 'EndpointInvalid', `spec.endpoint.url: ${hash} is no URL`);
      };
    }
    for (let change = 0; change < 10; change += 1) {
      for (const each of worlds) each.declare({ hash: `url-${change}` });
      for (const each of worlds) {
        await each.until('Ready', { message: expect.stringContaining(`url-${change} is no URL`) as string });
      }
    }
    expect(written).toHaveLength(DECLARATION_LINES.burst);
    // The next line tells how many were left out.
    clock.jump(1000);
    log.write('info', 'shop.web', {}, 'next');
    expect(written.at(-1)).toMatchObject({ leftOut: 50 * 10 - DECLARATION_LINES.burst });
    await Promise.all(worlds.map((each) => each.end()));
  });
});

describe('a ReconcileFunction that runs says on its object', () => {
  it('that its handlers fail, and when they no longer do', async () => {
    world.declare({ hash: 'a' });
    await world.until('EventsHandled', { status: 'True' });
    world.change({ misses: 'watches.0.map was cut off' });
    await world.until('EventsHandled', { status: 'False', reason: 'HandlersFail' });
    await world.until('Ready', { status: 'False', reason: 'HandlersFail' });
    expect(world.condition('EventsHandled')?.message).toContain('watches.0.map was cut off');
    world.change({ misses: undefined });
    await world.until('EventsHandled', { status: 'True' });
  });

  it('that its keys wait after a loss of data', async () => {
    world.waitsFor = 'reading the server again: v1/Pod';
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'False', reason: 'Recovering' });
    world.change({ waitsFor: undefined });
    await world.until('Synced', { status: 'True', reason: 'CacheComplete' });
  });

  it('that the gateway lacks the right to follow what it reads', async () => {
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True' });
    world.change({ refusal: 'the gateway may not watch things' });
    await world.until('Ready', { status: 'False', reason: 'GatewayForbidden' });
    world.change({ refusal: undefined });
    await world.until('Synced', { status: 'True', reason: 'CacheComplete' });
  });

  it('that a key is stalled', async () => {
    world.stalled = 'a key is due for 31 s and does not run';
    world.declare({ hash: 'a' });
    await world.until('EventsHandled', { status: 'False', reason: 'KeysStalled' });
  });

  it('that objects are kept out of what it reads', async () => {
    world.keptOut = 2;
    world.declare({ hash: 'a' });
    await world.until('Synced', { status: 'True', reason: 'ObjectsKeptOut' });
  });

  it('how many of them are kept out for want of memory', async () => {
    world.keptOut = 3;
    world.leftOut = 2;
    world.declare({ hash: 'a' });
    const message =
      'All that it reads is in the cache but 1 objects that are nested too deep or too large and 2 objects whose ' +
      "namespaces or readers hold more than their share of Redis' short memory.";
    await world.until('Synced', { status: 'True', reason: 'ObjectsKeptOut', message });
  });
});

describe('spec.paused', () => {
  it('pauses the keys as long as it is true, whatever became of the pause', async () => {
    world.declare({ hash: 'a', paused: true });
    await world.until('Paused', { status: 'True', reason: 'PausedBySpec' });
    expect(world.paused).toBe(true);
    // By hand, or with all other data in Redis.
    world.change({ paused: false });
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
    await world.reviews();
    expect(world.paused).toBe(true);
  });
});

/** A function that answers, under the expected name. */
async function serveFunction(): Promise<{ readonly url: string; requests: number; readonly stop: () => void }> {
  const kind = { apiVersion: 'v1', kind: 'Pod' };
  const text = { version: CONTRACT_VERSION, name: 'web', for: kind, concurrency: 1, timeoutSeconds: 1 };
  const body = JSON.stringify({ ...text, owns: [], watches: [], reads: [], indexes: [] });
  const server = createServer((_, response) => {
    served.requests += 1;
    response.setHeader('content-type', 'application/json').end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const served = {
    requests: 0,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    stop: () => void server.close(),
  };
  return served;
}

describe('a ReconcileFunction at rest', () => {
  const MINUTE = 60_000;
  let clock: VirtualClock;
  let served: Awaited<ReturnType<typeof serveFunction>>;
  beforeEach(async () => {
    clock = new VirtualClock();
    served = await serveFunction();
    world = new World(clock, served.url);
    world.declare({ hash: 'a' });
    await world.until('Ready', { status: 'True', reason: 'Running' });
    await pass(3000);
  });
  afterEach(async () => {
    await world.end();
    served.stop();
  });

  async function pass(ms: number): Promise<void> {
    const endMs = clock.now() + ms;
    while (clock.now() < endMs) {
      clock.step(endMs);
      for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  it('changes to a declaration that does without a right which the old one has just lost', async () => {
    world.rights = () => {
      throw forbidden;
    };
    const filled = Promise.withResolvers<void>();
    world.declare({ hash: 'b', sync: () => filled.promise });
    await pass(5000);
    filled.resolve();
    await eventually(async () => expect(world.said).toEqual(['run a', 'run b']));
  });

  it('tries again at once when a start fails after a long wait, and less and less often after that', async () => {
    const starts: number[] = [];
    const filled = Promise.withResolvers<void>();
    world.declare({
      hash: 'b',
      sync: async () => {
        starts.push(clock.now());
        await filled.promise;
        throw new Error('Redis refuses it');
      },
    });
    await pass(5000);
    filled.resolve();
    await pass(3 * MINUTE);
    const waits = starts.slice(1).map((atMs, at) => atMs - (starts[at] ?? 0));
    expect(waits[0]).toBeLessThan(9000);
    expect(starts.length).toBeLessThan(15);
    expect(world.said).toEqual(['run a']);
  });

  it('is resolved again when that was asked for while it was started', async () => {
    const filled = Promise.withResolvers<void>();
    const managed = world.declare({ hash: 'b', sync: () => filled.promise });
    await pass(2500);
    const { apiserver } = world.asked;
    // Its start ends before the next pass.
    managed.again('review');
    filled.resolve();
    await eventually(async () => expect(world.said).toEqual(['run a', 'run b']));
    await pass(2000);
    expect(world.asked.apiserver).toBe(apiserver + 1);
  });

  it('asks Redis nothing and writes nothing, and asks the apiserver once a period', async () => {
    const { redis, apiserver } = world.asked;
    const { length } = world.written;
    await pass(10 * MINUTE);
    expect(world.asked.redis).toBe(redis);
    expect(world.written).toHaveLength(length);
    const reviews = world.asked.apiserver - apiserver;
    // Of 10 s each in these tests.
    expect(reviews).toBeGreaterThan(55);
    expect(reviews).toBeLessThanOrEqual(60);
  });

  it('asks about its rights at once when they have changed, and less often when they change time and again', async () => {
    const managed = world.declare({ hash: 'a' });
    await pass(1);
    await pass(3000);
    const changes = new RightsChanges();
    changes.ofAccounts(['shop/writer']);
    const { apiserver } = world.asked;
    const nowMs = clock.now();
    managed.rightsChanged(changes);
    changes.ofAccounts(['shop/reader']);
    expect(world.asked.apiserver).toBe(apiserver);
    managed.rightsChanged(changes);
    await eventually(async () => expect(world.asked.apiserver).toBe(apiserver + 1));
    expect(clock.now()).toBe(nowMs);
    while (clock.now() < nowMs + 10 * MINUTE) {
      managed.rightsChanged(changes);
      await pass(200);
    }
    // One in 10 s and 30 s each, and the first ten.
    expect(world.asked.apiserver - apiserver).toBeLessThanOrEqual(60 + 20 + 11);
  });

  it('reads its spec from the apiserver once for each generation, however often that is reviewed', async () => {
    const { reads, apiserver } = world.asked;
    await pass(MINUTE);
    expect(world.asked.apiserver - apiserver).toBeGreaterThan(3);
    expect(world.asked.reads).toBe(reads);
    world.declare({ hash: 'b' });
    await eventually(async () => expect(world.said).toEqual(['run a', 'run b']));
    await pass(MINUTE);
    expect(world.asked.reads).toBe(reads + 1);
  });

  it.each<[string, Parameters<World['change']>[0], ConditionType, string]>([
    ['its keys are paused by hand', { paused: true }, 'Paused', 'PausedByHand'],
    ['its handlers fail', { misses: 'for.predicate failed' }, 'EventsHandled', 'HandlersFail'],
    ['its keys are stalled', { stalled: 'a key is due' }, 'EventsHandled', 'KeysStalled'],
    ['its part of Redis is repaired', { waitsFor: 'reading the server again' }, 'Synced', 'Recovering'],
    ['an object is kept out', { keptOut: 1 }, 'Synced', 'ObjectsKeptOut'],
    ['a key of it fails', { keys: { failing: 1 } }, 'Ready', 'KeysFail'],
    ['a key of it has become a dead letter', { keys: { dead: 1, failing: 1 } }, 'Ready', 'DeadLetters'],
    ['its circuit breaker opens', { openReason: 'it does not answer' }, 'Reachable', 'CircuitBreakerOpen'],
  ])('says at once that %s', async (_, what, type, reason) => {
    const nowMs = clock.now();
    world.change(what);
    await world.until(type, { reason });
    expect(clock.now()).toBe(nowMs);
  });

  it('says that its keys no longer fail, although nobody has seen them fail but itself', async () => {
    world.change({ keys: { failing: 1 } });
    await world.until('Ready', { reason: 'KeysFail' });
    world.keys = {};
    world.isIll = true;
    const { redis } = world.asked;
    await pass(5 * MINUTE);
    // `Progress` will report when it has been well for a while.
    expect(world.condition('Ready')).toMatchObject({ reason: 'KeysFail' });
    expect(world.asked.redis).toBe(redis);
    world.isIll = false;
    await pass(35_000);
    expect(world.condition('Ready')).toMatchObject({ status: 'True', reason: 'Running' });
  });

  it('looks twice where something changes time and again, and not at each change', async () => {
    const { redis } = world.asked;
    for (let change = 0; change < 100; change += 1) {
      world.change({ misses: `failure ${change}` });
      await pass(20);
    }
    await pass(2000);
    // Two questions each.
    expect(world.asked.redis - redis).toBeLessThanOrEqual(2 * 3);
    expect(world.condition('EventsHandled')?.message).toContain('failure 99');
  });

  it('is not asked by a gateway that follows, nor when that leads and the status tells that it answers', async () => {
    const conditions = world.written.at(-1)?.conditions ?? [];
    const asked = served.requests;
    await world.end();
    world = new World(clock, served.url);
    world.leads = false;
    const managed = world.declare({ hash: 'a' });
    await eventually(async () => expect(world.said).toEqual(['run a']));
    await pass(10 * MINUTE);
    world.observe(conditions);
    world.leads = true;
    managed.lead();
    await pass(10 * MINUTE);
    expect(world.condition('Reachable')).toMatchObject({ status: 'True', reason: 'Answered' });
    expect(served.requests).toBe(asked);
    expect(asked).toBe(1);
  });

  it('looks again when what it tells of ends by itself', async () => {
    const { redis } = world.asked;
    world.endsMs = clock.now() + 5000;
    world.change({ misses: 'for.predicate failed' });
    await world.until('EventsHandled', { reason: 'HandlersFail' });
    world.misses = undefined;
    await pass(4000);
    expect(world.condition('EventsHandled')).toMatchObject({ reason: 'HandlersFail' });
    await pass(1001);
    expect(world.condition('EventsHandled')).toMatchObject({ reason: 'Handled' });
    expect(world.asked.redis).toBe(redis + 2);
  });

  it('looks again when what it tells of ends just after a look', async () => {
    world.endsMs = clock.now() + 5000;
    world.change({ misses: 'for.predicate failed' });
    await world.until('EventsHandled', { reason: 'HandlersFail' });
    await pass(4000);
    world.change({ paused: true });
    await world.until('Paused', { status: 'True' });
    world.misses = undefined;
    // After the rest between two looks, and before the next review.
    await pass(2001);
    expect(world.condition('EventsHandled')).toMatchObject({ reason: 'Handled' });
  });

  it('leaves conditions of others as they are now, and writes nothing for their sake', async () => {
    // A type that every object inherits is one of others, too.
    const type = 'constructor';
    const foreign = (status: 'True' | 'False') =>
      ({ type, status, reason: 'Asked', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }) as const;
    const { length } = world.written;
    const conditions = world.written.at(-1)?.conditions ?? [];
    world.observe([...conditions, foreign('False')]);
    await pass(1000);
    world.observe([...conditions, foreign('True')]);
    await pass(2500);
    expect(world.written).toHaveLength(length);
    world.change({ paused: true });
    // The reconciler has read the foreign condition's status again by now.
    await pass(2001);
    await world.until('Paused', { status: 'True' });
    expect(world.written.at(-1)?.conditions?.filter((each) => each.type === type)).toEqual([foreign('True')]);
  });
});
