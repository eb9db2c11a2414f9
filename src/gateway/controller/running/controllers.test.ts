import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../test/harness/eventually.ts';
import { quietRuntime } from '../../../../test/harness/quiet-runtime.ts';
import { VirtualClock } from '../../../../test/harness/test-clock.ts';
import { type LogFields, originOf, type Resource, resource, silentLogger } from '../../../core/index.ts';
import type { CacheScope, Description, ViewLocation } from '../../../contract/index.ts';
import type { KeyWakeup } from '../../informer/cache/change.ts';
import type { Reader } from '../access/reader-users.ts';
import type { RunningController } from './controller.ts';
import type { ControllerSpec } from './controller-spec.ts';
import { Controllers } from './controllers.ts';
import { DECLARATION_LINES } from './declaration-log.ts';

interface Plan {
  readonly kinds?: readonly string[];
  readonly scope?: CacheScope;
  readonly inRedis?: readonly ViewLocation[];
  /** Default: every key. */
  readonly keys?: readonly string[];
  /** The body of `waitForSync`. */
  readonly sync?: (signal: AbortSignal) => Promise<void>;
  readonly fails?: 'create' | 'start' | 'stop';
  /** The end of its runs. */
  readonly drain?: () => Promise<void>;
}

const nameOf = ({ controller, declaration }: Reader): string => `${controller} ${declaration}`;

/** Controllers that only record the calls they get, with informers and Redis users that do the same. */
class World {
  readonly said: string[] = [];
  readonly users = new Map<string, readonly ViewLocation[]>();
  /** The controllers that need each kind, by kind. */
  readonly kinds = new Map<string, Set<string>>();
  readonly handlers = new Map<string, Map<string, string>>();
  readonly ending = new AbortController();
  readonly controllers: Controllers;
  readonly #plans = new Map<string, Plan>();
  readonly #informers = new Map<string, { view: { resource: Resource }; removeUser: (user: string) => void }>();

  constructor(runtime = quietRuntime()) {
    this.controllers = new Controllers({
      create: async (spec) => this.#create(spec),
      informers: {
        release: async (user, kept?: ReadonlySet<string>) => {
          const keeps = (kind: string): boolean => [...(kept ?? [])].some((each) => each.startsWith(`${kind} `));
          for (const [kind, users] of this.kinds) if (!keeps(kind)) users.delete(user);
        },
      },
      readerUsers: {
        allow: async (reader, views) => void this.users.set(nameOf(reader), views),
        remove: async (reader) => {
          if (this.users.delete(nameOf(reader))) this.said.push(`${reader.declaration} loses its user`);
        },
      },
      recovery: {
        check: async () => void this.said.push('check'),
        waitsFor: () => undefined,
        awaitsLeader: () => false,
      },
      events: {
        onRunning: () => {},
        forgetEarlier: async () => {},
        forget: async (id) => {
          this.said.push(`forget ${id}`);
          return true;
        },
      },
      drainMs: 10,
      ending: this.ending.signal,
      runtime,
    });
  }

  spec(id: string, version: string, plan: Plan = {}, more: Partial<ControllerSpec> = {}): ControllerSpec {
    this.#plans.set(version, plan);
    const description = { name: id, for: { apiVersion: 'v1', kind: 'Pod' } } as Description;
    return { id, origin: originOf(id), declaration: version, description, url: version, keys: [], ...more };
  }

  /** Each kind with its users: `v1/Pod: ns.a=first`. */
  needed(): string[] {
    return [...this.kinds].flatMap(([kind, users]) =>
      [...users].map((user) => `${kind}: ${user}=${this.handlers.get(kind)?.get(user)}`),
    );
  }

  running(): string[] {
    return this.controllers.running().map(({ name }) => name);
  }

  /** Controllers share one informer for each kind. */
  #informer(kind: string) {
    const informer = this.#informers.get(kind) ?? {
      view: { resource: resource('v1', kind) },
      removeUser: (user: string) => void this.handlers.get(`v1/${kind}`)?.delete(user),
    };
    this.#informers.set(kind, informer);
    return informer;
  }

  #create({ id, origin, declaration, url }: ControllerSpec): RunningController {
    const plan = this.#plans.get(url) ?? {};
    const { kinds = ['Pod'], scope = {}, inRedis = [], sync = async () => {}, fails } = plan;
    for (const kind of kinds) this.kinds.set(`v1/${kind}`, (this.kinds.get(`v1/${kind}`) ?? new Set()).add(id));
    if (fails === 'create') throw new Error('cannot be made');
    const informers = kinds.map((kind) => this.#informer(kind));
    const own = {
      name: id,
      origin,
      declaration,
      keys: [],
      cacheAccess: { scope, inRedis },
      queue: { pause: async (by: string) => void this.said.push(`${url} pause ${by}`) },
      hasInScope: (key: string) => (plan.keys ?? [key]).includes(key),
      addHandlers: async (before?: RunningController) => {
        const names = before ? `${url}+${before.declaration}` : url;
        for (const kind of kinds) {
          const users = this.handlers.get(`v1/${kind}`) ?? new Map<string, string>();
          this.handlers.set(`v1/${kind}`, users.set(id, names));
        }
      },
      sources: { informers, waitForSync: sync },
      wake: async (wakeups: readonly KeyWakeup[]) => {
        this.said.push(`${url} wake ${wakeups.map(({ key }) => key).join(' ')}`);
      },
      start: async () => {
        this.said.push(`${url} start`);
        if (fails === 'start') throw new Error('cannot be started');
      },
      stop: async () => {
        this.said.push(`${url} stop`);
        await plan.drain?.();
        if (fails === 'stop') throw new Error('does not stop');
      },
    };
    return own as unknown as RunningController;
  }
}

const going = new AbortController().signal;
const forEver = (signal: AbortSignal): Promise<void> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
const claims = (controller: string, declaration?: string) => ({
  controller,
  ...(declaration === undefined ? {} : { declaration }),
  scope: { 'v1/Pod': '*' as const },
  expiresAt: 0,
});
const view: ViewLocation = { prefix: 'pods' };

describe('the log', () => {
  it('has a bound for fifty controllers of a tenant that begin, change and end again and again', async () => {
    const lines: string[] = [];
    const info = ({ controller }: LogFields): void => void lines.push(String(controller));
    const clock = new VirtualClock();
    const world = new World(quietRuntime({ clock, logger: { ...silentLogger, info } }));
    for (let change = 0; change < 20; change += 1) {
      for (let at = 0; at < 50; at += 1) {
        await world.controllers.apply(world.spec(`noisy.${at}`, `first ${at}`), { signal: going });
        await world.controllers.apply(world.spec(`noisy.${at}`, `second ${at}`), { signal: going });
        if (change % 2 === 0) await world.controllers.stop(`noisy.${at}`);
        else await world.controllers.remove(`noisy.${at}`);
      }
    }
    expect(lines).toHaveLength(DECLARATION_LINES.burst);
    await world.controllers.start(world.spec('quiet.web', 'first'), { signal: going });
    expect(lines.at(-1)).toBe('quiet.web');
  });
});

describe('a controller that is started', () => {
  it('runs once it is complete, and is looked at then', async () => {
    const world = new World();
    await world.controllers.start(world.spec('web', 'first'), { signal: going });
    expect(world.said).toEqual(['first start', 'check']);
    expect(world.controllers.running().map(({ name }) => name)).toEqual(['web']);
    expect(world.running()).toEqual(['web']);
  });

  it('counts for readiness from its start on, when it is configured', async () => {
    const world = new World();
    const counts = (): boolean[] => ['web', 'ns.web', 'other'].map((id) => world.controllers.countsForReady(id));
    const synced = Promise.withResolvers<void>();
    const started = world.controllers.start(world.spec('web', 'first', { sync: () => synced.promise }), {
      signal: going,
    });
    await world.controllers.start(world.spec('ns.web', 'second'), { signal: going });
    expect(counts()).toEqual([true, false, false]);
    synced.resolve();
    await started;
    expect(counts()).toEqual([true, false, false]);
    await world.controllers.stop('web');
    expect(counts()).toEqual([false, false, false]);
  });

  it.each([
    ['is being started', true],
    ['runs', false],
  ])('is refused while another of its name %s, which goes on', async (_what, early) => {
    const world = new World();
    const synced = Promise.withResolvers<void>();
    const first = world.controllers.start(world.spec('web', 'first', { sync: () => synced.promise }), {
      signal: going,
    });
    if (!early) {
      synced.resolve();
      await first;
    }
    const second = world.controllers.start(world.spec('web', 'second'), { signal: going });
    await expect(second).rejects.toThrow('two functions call their controller "web"');
    synced.resolve();
    await first;
    expect(world.needed()).toEqual(['v1/Pod: web=first']);
    expect(world.said).not.toContain('first stop');
  });

  it.each(['create', 'start'] as const)('leaves nothing behind when it fails to %s', async (fails) => {
    const world = new World();
    const failing = world.controllers.start(world.spec('web', 'first', { fails, inRedis: [view] }), { signal: going });
    await expect(failing).rejects.toThrow('cannot be');
    expect([world.needed(), [...world.users], [...world.controllers.known()], world.running()]).toEqual([
      [],
      [],
      [],
      [],
    ]);
    // Also not its name.
    await world.controllers.start(world.spec('web', 'second'), { signal: going });
  });

  it('is paused before it runs a key when it is to be paused', async () => {
    const world = new World();
    await world.controllers.apply(world.spec('ns.web', 'first', {}, { paused: true }), { signal: going });
    expect(world.said).toEqual(['first pause controller', 'first start', 'check']);
  });

  it('tells when it waits for nothing but the cache', async () => {
    const world = new World();
    const stop = new AbortController();
    const waiting = Promise.withResolvers<void>();
    const started = world.controllers.apply(world.spec('ns.web', 'first', { sync: forEver }), {
      signal: stop.signal,
      onWaiting: () => waiting.resolve(),
    });
    await waiting.promise;
    expect(world.needed()).toEqual(['v1/Pod: ns.web=first']);
    stop.abort();
    await expect(started).rejects.toThrow('abort');
    expect(world.needed()).toEqual([]);
  });
});

describe('a controller that is changed', () => {
  it('ends before the new one runs, and keeps nothing that only it needed', async () => {
    const world = new World();
    await world.controllers.apply(world.spec('ns.web', 'first', { kinds: ['Pod', 'Node'] }), { signal: going });
    await world.controllers.apply(world.spec('ns.web', 'second', { kinds: ['Pod', 'Secret'] }), { signal: going });
    expect(world.said).toEqual(['first start', 'check', 'first stop', 'second start', 'check']);
    expect(world.needed()).toEqual(['v1/Pod: ns.web=second', 'v1/Secret: ns.web=second']);
    expect(world.handlers.get('v1/Node')).toEqual(new Map());
    expect(world.running()).toEqual(['ns.web']);
  });

  it.each<[string, Plan, string]>([
    ['is given up while it waits', { sync: forEver }, 'abort'],
    ['cannot be made', { fails: 'create' }, 'cannot be made'],
  ])('goes on as it was when the change %s', async (_what, plan, message) => {
    const world = new World();
    const inRedis = [view];
    await world.controllers.apply(world.spec('ns.web', 'first', { inRedis }), { signal: going });
    const stop = new AbortController();
    const spec = world.spec('ns.web', 'second', { kinds: ['Pod', 'Secret'], ...plan });
    const changing = world.controllers.apply(spec, { signal: stop.signal });
    setImmediate(() => stop.abort());
    await expect(changing).rejects.toThrow(message);
    expect(world.needed()).toEqual(['v1/Pod: ns.web=first']);
    expect(world.handlers.get('v1/Secret') ?? new Map()).toEqual(new Map());
    // It still reads in Redis as before.
    expect([...world.users]).toEqual([['ns.web first', inRedis]]);
    await world.controllers.enqueue([{ controller: 'ns.web', key: 'a', reasons: [] }]);
    expect(world.said.at(-1)).toBe('first wake a');
    expect(world.said).not.toContain('first stop');
  });

  it('gets the events and the callbacks of the old one until the new one runs', async () => {
    const world = new World();
    const { controllers } = world;
    await controllers.apply(world.spec('ns.web', 'first', { keys: ['a', 'b'] }), { signal: going });
    const synced = Promise.withResolvers<void>();
    const plan = { keys: ['b', 'c'], kinds: ['Pod', 'Secret'], sync: () => synced.promise };
    const changing = controllers.apply(world.spec('ns.web', 'second', plan), { signal: going });
    await eventually(async () => expect(world.needed()).toContain('v1/Secret: ns.web=second+first'));
    expect(world.needed()).toContain('v1/Pod: ns.web=second+first');
    const from = world.said.length;
    const wake = (keys: readonly string[]) =>
      controllers.enqueue(keys.map((key) => ({ controller: 'ns.web', key, reasons: [] })));
    await wake(['a', 'b', 'c']);
    expect(world.said.slice(from)).toEqual(['second wake a b c', 'first wake a']);
    expect(controllers.callbackTaker('ns.web')?.declaration).toBe('first');
    synced.resolve();
    await changing;
    expect(world.needed()).toEqual(['v1/Pod: ns.web=second', 'v1/Secret: ns.web=second']);
    expect(controllers.callbackTaker('ns.web')?.declaration).toBe('second');
  });

  it('is not halted by a change that was given up before its cache was complete', async () => {
    const world = new World();
    await world.controllers.apply(world.spec('ns.web', 'first'), { signal: going });
    const changing = world.controllers.apply(world.spec('ns.web', 'second'), { signal: AbortSignal.abort() });
    await expect(changing).rejects.toThrow('abort');
    expect(world.said).not.toContain('first stop');
  });

  it('leaves nothing behind when the new one does not start after it has ended', async () => {
    const world = new World();
    await world.controllers.apply(world.spec('ns.web', 'first', { kinds: ['Pod', 'Node'] }), { signal: going });
    const changing = world.controllers.apply(world.spec('ns.web', 'second', { fails: 'start' }), { signal: going });
    await expect(changing).rejects.toThrow('cannot be started');
    expect([world.needed(), [...world.controllers.known()], world.running()]).toEqual([[], [], []]);
    expect([...(world.handlers.get('v1/Node') ?? [])]).toEqual([]);
  });

  it.each(['first', 'second'])(
    'loses its Redis user when the declaration %s may read parts only from now on',
    async (declaration) => {
      const world = new World();
      await world.controllers.apply(world.spec('ns.web', 'first', { inRedis: [view] }), { signal: going });
      expect([...world.users]).toEqual([['ns.web first', [view]]]);
      const next = world.spec('ns.web', 'second', { inRedis: [] }, { declaration });
      await world.controllers.apply(next, { signal: going });
      expect([...world.users]).toEqual([]);
    },
  );

  it('gets a Redis user of its own when it is declared anew, and the old one goes with the last run', async () => {
    const world = new World();
    const { promise: synced, resolve } = Promise.withResolvers<void>();
    await world.controllers.apply(world.spec('ns.web', 'first', { inRedis: [view] }), { signal: going });
    const other: ViewLocation = { prefix: 'nodes' };
    const plan = { inRedis: [other], sync: () => synced };
    const changing = world.controllers.apply(world.spec('ns.web', 'second', plan), { signal: going });
    await new Promise(setImmediate);
    const both = new Map([
      ['ns.web first', [view]],
      ['ns.web second', [other]],
    ]);
    expect(world.users).toEqual(both);
    resolve();
    await changing;
    expect([...world.users]).toEqual([['ns.web second', [other]]]);
    expect(world.said.slice(2)).toEqual(['first stop', 'first loses its user', 'second start', 'check']);
  });

  it('keeps its Redis user, with the new views, when it is changed and not declared anew', async () => {
    const world = new World();
    const other: ViewLocation = { prefix: 'nodes' };
    await world.controllers.apply(world.spec('ns.web', 'first', { inRedis: [view] }), { signal: going });
    const changed = world.spec('ns.web', 'second', { inRedis: [other] }, { declaration: 'first' });
    await world.controllers.apply(changed, { signal: going });
    expect([...world.users]).toEqual([['ns.web first', [other]]]);
    expect(world.said).not.toContain('first loses its user');
  });
});

describe('a token of a controller', () => {
  const tokenOf = (declaration: string) => claims('ns.web', declaration);

  it('ends when the controller is declared anew, and not before the new one runs', async () => {
    const world = new World();
    const { controllers } = world;
    await controllers.apply(world.spec('ns.web', 'first'), { signal: going });
    const { promise: synced, resolve } = Promise.withResolvers<void>();
    const changing = controllers.apply(world.spec('ns.web', 'second', { sync: () => synced }), { signal: going });
    await new Promise(setImmediate);
    expect(controllers.holder(tokenOf('first'))?.declaration).toBe('first');
    expect(controllers.holder(tokenOf('second'))?.declaration).toBe('second');
    resolve();
    await changing;
    expect(() => controllers.holder(tokenOf('first'))).toThrow('declared anew');
    expect(controllers.holder(tokenOf('second'))?.declaration).toBe('second');
  });

  it('reads no more than both declarations may while one replaces the other', async () => {
    const world = new World();
    const { controllers } = world;
    const scopes = [
      { 'v1/Pod': ['a', 'b'], 'v1/Service': '*' },
      { 'v1/Pod': ['b', 'c'], 'v1/Service': ['a'], 'v1/Secret': '*' },
    ] as const;
    await controllers.apply(world.spec('ns.web', 'first', { scope: scopes[0] }), { signal: going });
    const synced = Promise.withResolvers<void>();
    const plan = { scope: scopes[1], sync: () => synced.promise };
    const changing = controllers.apply(world.spec('ns.web', 'second', plan), { signal: going });
    await new Promise(setImmediate);
    expect(controllers.scopeOf(tokenOf('first'))).toEqual({ 'v1/Pod': ['b'], 'v1/Service': ['a'] });
    expect(controllers.scopeOf(tokenOf('second'))).toEqual(scopes[1]);
    synced.resolve();
    await changing;
  });

  it('is not revived by another controller of the same name', async () => {
    const world = new World();
    const { controllers } = world;
    await controllers.apply(world.spec('ns.web', 'first'), { signal: going });
    await controllers.remove('ns.web');
    expect(() => controllers.holder(tokenOf('first'))).toThrow('does not run');
    await controllers.apply(world.spec('ns.web', 'second'), { signal: going });
    expect(() => controllers.holder(tokenOf('first'))).toThrow('declared anew');
  });
});

describe('a controller that is stopped', () => {
  it('reads nothing any more, even when its runs do not end in order', async () => {
    const world = new World();
    const { controllers } = world;
    await controllers.apply(world.spec('ns.web', 'first', { fails: 'stop', inRedis: [view] }), { signal: going });
    const token = claims('ns.web', 'first');
    expect(controllers.scopeOf(token)).toEqual({});
    await expect(controllers.stop('ns.web')).rejects.toThrow('does not stop');
    expect([world.needed(), [...world.users], world.running()]).toEqual([[], [], []]);
    expect(() => controllers.scopeOf(token)).toThrow('does not run');
    // The claims alone decide for the token of a person, and for a configured function that only other gateways have.
    for (const each of [claims('ann'), claims('web', 'configured')]) {
      expect(controllers.scopeOf(each)).toEqual(each.scope);
    }
    expect(() => controllers.scopeOf(claims('ns.web'))).toThrow('names no declaration');
  });

  it('reads nothing while its runs end, when its function has lost its rights', async () => {
    const world = new World();
    const { controllers } = world;
    const drained = Promise.withResolvers<void>();
    const drain = () => drained.promise;
    await controllers.apply(world.spec('ns.web', 'first', { inRedis: [view], drain }), { signal: going });
    const stopping = controllers.stop('ns.web', { withdrawn: true });
    await eventually(async () => expect(world.said).toContain('first stop'));
    expect([...world.users]).toEqual([]);
    expect(() => controllers.scopeOf(claims('ns.web', 'first'))).toThrow('has lost its rights');
    // Its runs may write until they end: the apiserver decides about each write.
    expect(controllers.holder(claims('ns.web', 'first'))?.declaration).toBe('first');
    drained.resolve();
    await stopping;
    await controllers.apply(world.spec('ns.web', 'first', { inRedis: [view] }), { signal: going });
    expect(controllers.scopeOf(claims('ns.web', 'first'))).toEqual({});
  });

  it('reads until its runs end, when its function keeps its rights', async () => {
    const world = new World();
    const { controllers } = world;
    const drained = Promise.withResolvers<void>();
    const drain = () => drained.promise;
    await controllers.apply(world.spec('ns.web', 'first', { inRedis: [view], drain }), { signal: going });
    const stopping = controllers.stop('ns.web');
    await eventually(async () => expect(world.said).toContain('first stop'));
    expect([...world.users]).toEqual([['ns.web first', [view]]]);
    expect(controllers.scopeOf(claims('ns.web', 'first'))).toEqual({});
    drained.resolve();
    await stopping;
    expect([...world.users]).toEqual([]);
  });

  it('is forgotten only after a check, and by a wakeup told as absent', async () => {
    const world = new World();
    await world.controllers.apply(world.spec('ns.web', 'first'), { signal: going });
    await world.controllers.remove('ns.web');
    expect(world.said.slice(2)).toEqual(['first stop', 'check', 'forget ns.web']);
    expect(await world.controllers.enqueue([{ controller: 'ns.web', key: 'a', reasons: [] }])).toEqual({
      absent: ['ns.web'],
      failed: new Map(),
    });
  });

  it('keeps its views when it is the gateway that ends', async () => {
    const world = new World();
    const starting = world.controllers.apply(world.spec('ns.web', 'first', { sync: forEver }), {
      signal: world.ending.signal,
    });
    setImmediate(() => world.ending.abort());
    await expect(starting).rejects.toThrow('abort');
    // No controller listens, but the informers have not been released: that would remove their views.
    expect(world.handlers.get('v1/Pod')).toEqual(new Map());
    expect([...(world.kinds.get('v1/Pod') ?? [])]).toEqual(['ns.web']);
  });
});
