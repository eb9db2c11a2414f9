import { readdir, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { controller } from 'levelhook/function';
import { complete, type RunToken } from 'levelhook/function/callback';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { Trigger } from '../../src/contract/index.ts';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { metric } from '../harness/gateway-view.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { slowdownDuring, stillDuring } from '../harness/pace.ts';
import type { Line } from '../harness/process.ts';
import { untilWritten } from '../harness/redis-written.ts';
import { ServedFunction } from '../harness/served-function.ts';
import { Started } from '../harness/started.ts';

const NAME = 'restarts';
const API_TOKEN = 'a-token-of-the-test-that-is-long-enough';
const OTHERS = Array.from({ length: 10 }, (_, at) => `other-${at}`);

interface SceneOptions {
  readonly gateways: number;
  readonly timeoutSeconds: number;
  readonly callbackSeconds: number;
}

/** Gateways that elect a leader, a Redis of their own, and a function whose runs the test holds. */
class Scene {
  /** The keys whose runs began, in order. */
  readonly begun: string[] = [];
  /** When each began, on the wall clock of this machine, which the logs of its gateways have as well. */
  readonly begunAtMs: number[] = [];
  /** Keys that had two runs at once. A run whose deadline has passed is over, on any machine. */
  readonly overlaps: string[] = [];
  readonly gateways: Listening[] = [];
  readonly namespace = uniqueName(NAME);
  readonly #started: Started;
  readonly #options: SceneOptions;
  readonly #held = new Set<string>();
  /** How to end each run that is held, and its deadline. */
  readonly #working = new Map<string, { readonly end: () => void; readonly deadlineMs: number }>();
  readonly #tokens = new Map<string, RunToken>();
  #cluster!: Cluster;
  #setting!: Setting;
  #redis!: RedisServer;
  #connection!: Redis;
  #data!: string;
  #function!: ServedFunction;

  private constructor(started: Started, options: SceneOptions) {
    this.#started = started;
    this.#options = options;
  }

  static async start(started: Started, options: SceneOptions): Promise<Scene> {
    const scene = new Scene(started, options);
    const directory = await started.directory();
    scene.#data = join(directory, 'appendonlydir');
    const redis = await startRedis({ ignoreEnvironment: true, directory, appendOnly: true });
    started.add(() => redis.stop());
    scene.#redis = redis;
    scene.#connection = new Redis(redis.url, { maxRetriesPerRequest: null });
    scene.#connection.on('error', () => {});
    started.add(async () => scene.#connection.disconnect());
    scene.#cluster = await started.cluster(inject('kubeconfig'), scene.namespace);
    scene.#setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    const { timeoutSeconds, callbackSeconds } = options;
    const callbacks = callbackSeconds === 0 ? {} : { callbackSeconds };
    const source = { resource: configMaps, namespaces: [scene.namespace] };
    const declared = { name: NAME, for: source, concurrency: 30, timeoutSeconds, ...callbacks };
    const fn = controller(declared).reconcile(async ({ namespace, name }, { runToken }) => {
      if (namespace === scene.namespace) return scene.#run(name, runToken);
      return undefined;
    });
    scene.#function = await started.open(new ServedFunction(fn, scene.#setting));
    await scene.create(OTHERS);
    await Promise.all(Array.from({ length: options.gateways }, () => scene.startGateway()));
    await scene.untilBegun(0, OTHERS);
    await untilIdle(scene.leader.url);
    return scene;
  }

  async startGateway(): Promise<Listening> {
    const variables = {
      LEVELHOOK_LEASE: `${this.namespace}/levelhook`,
      LEVELHOOK_API_TOKENS: API_TOKEN,
      LEVELHOOK_DRAIN_SECONDS: '0',
      LEVELHOOK_LOG_TRIGGERS: 'false',
    };
    const gateway = this.#started.keep(await startGateway(this.#setting, [this.#function.url], variables));
    await untilReady(gateway.url);
    // The one that leads is the first.
    const leads = (await metric(gateway.url, 'leader_election_master_status')) === 1;
    if (leads) this.gateways.unshift(gateway);
    else this.gateways.push(gateway);
    return gateway;
  }

  get leader(): Listening {
    return this.gateways[0] as Listening;
  }

  get last(): Listening {
    return this.gateways.at(-1) as Listening;
  }

  async create(names: readonly string[]): Promise<void> {
    const { namespace } = this;
    await Promise.all(names.map((name) => this.#cluster.create(configMaps, { metadata: { namespace, name } })));
    await this.untilBegun(0, this.gateways.length > 0 ? names : []);
  }

  async change(names: readonly string[]): Promise<void> {
    const { namespace } = this;
    const data = { at: String(machineMs()) };
    for (const name of names) await this.#cluster.patch(configMaps, { namespace, name }, { data });
  }

  /** Holds the next run of a key, which this gateway starts. Resolves once it has begun. */
  async hold(name: string, gateway: Listening): Promise<void> {
    this.#held.add(name);
    // A gateway that was just started may not be ready yet.
    await eventually(async () => {
      const answer = await fetch(`${gateway.url}/reconcile`, {
        method: 'POST',
        headers: { authorization: `Bearer ${API_TOKEN}`, 'content-type': 'application/json' },
        body: JSON.stringify({ controller: NAME, keys: [{ namespace: this.namespace, name }] }),
      });
      expect(answer.ok, await answer.text()).toBe(true);
    });
    await eventually(async () => expect(this.#held.has(name)).toBe(false));
    if (name.startsWith('callback-')) {
      await eventually(async () => expect(await this.#isBusy(name)).toBe(true));
    }
  }

  async #isBusy(name: string): Promise<boolean> {
    const path = `queues/${NAME}/keys/${this.namespace}/${name}`;
    const answer = await fetch(`${this.leader.url}/${path}`);
    return JSON.stringify(await answer.json()).includes('"busy"');
  }

  release(name: string): void {
    this.#working.get(name)?.end();
  }

  /** Sends the outcome of a run that goes on through this gateway. */
  async complete(name: string, gateway: Listening): Promise<void> {
    const token = this.#tokens.get(name);
    if (!token) throw new Error(`no run of ${name} goes on`);
    this.release(name);
    const url = gateway.url + new URL(token.url).pathname;
    await complete({ ...token, url }, { status: 'done' }, { secrets: [this.#setting.secret] });
  }

  isWorking(name: string): boolean {
    return Date.now() < (this.#working.get(name)?.deadlineMs ?? 0);
  }

  async untilBegun(from: number, names: readonly string[]): Promise<void> {
    await eventually(
      async () => expect(names.filter((each) => !this.begun.includes(each, from))).toEqual([]),
      60_000,
      10,
    );
  }

  async written(): Promise<number> {
    await untilWritten(this.#connection);
    return (await stat(await this.#file())).size;
  }

  /** @param data what of it the next process has: all, none, or so many bytes of the append-only file. */
  async restart(signal: NodeJS.Signals, data: 'all' | 'none' | number): Promise<void> {
    await this.#redis.kill(signal);
    if (data === 'none') await rm(this.#data, { recursive: true });
    else if (data !== 'all') await truncate(await this.#file(), data);
    await this.#redis.start();
  }

  async #file(): Promise<string> {
    const name = (await readdir(this.#data)).find((each) => each.endsWith('.incr.aof'));
    return join(this.#data, name ?? '');
  }

  /** What gateways have logged of waits for runs that Redis may not know of. */
  get waits(): Line[] {
    const isWait = ({ msg }: Line): boolean => String(msg).startsWith('unrecorded runs');
    return this.gateways.flatMap(({ process }) => process.lines.filter(isWait));
  }

  async #run(name: string, runToken: RunToken | undefined): Promise<{ completesWithinSeconds: number } | undefined> {
    this.begun.push(name);
    this.begunAtMs.push(Date.now());
    if (this.isWorking(name)) this.overlaps.push(name);
    if (!this.#held.delete(name)) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    const isOfThis = ({ requests }: Trigger): boolean => requests.some((each) => each.name === name);
    const deadlineMs = Date.parse(this.#function.triggers.findLast(isOfThis)?.deadline ?? '');
    const end = (): void => {
      this.#working.delete(name);
      resolve();
    };
    this.#working.set(name, { end, deadlineMs });
    if (name.startsWith('callback-') && runToken) {
      this.#tokens.set(name, runToken);
      return { completesWithinSeconds: this.#options.callbackSeconds };
    }
    await promise;
    return undefined;
  }
}

/** How Redis is restarted. */
interface Restart {
  readonly name: string;
  readonly signal: NodeJS.Signals;
  readonly loses: boolean;
}

const restarts: readonly Restart[] = [
  { name: 'a kill of Redis', signal: 'SIGKILL', loses: false },
  { name: 'a kill of Redis that loses its last writes', signal: 'SIGKILL', loses: true },
  { name: 'an ordered shutdown of Redis', signal: 'SIGTERM', loses: false },
];

/** The first run begins within this time after Redis is back. A slow machine has longer. */
const FIRST_RUN_MS = 3000;

/** A wait for what could be in flight would last for a quarter of an hour, or a day. */
const LONGEST = 900;

/** One and three gateways are for the long form. */
const GATEWAYS = process.env['REDIS_RESTARTS_LONG'] ? [1, 2, 3] : [2];

const worlds = [0, 86_400].flatMap((callbackSeconds) =>
  GATEWAYS.map((gateways) => ({ gateways, callbackSeconds, timeoutSeconds: LONGEST })),
);

describe.each(worlds)('$gateways gateways that live, with callbackSeconds $callbackSeconds', (options) => {
  const started = new Started();
  let scene: Scene;

  beforeAll(async () => {
    scene = await Scene.start(started, options);
  });

  afterAll(() => started.stop());

  it.for(restarts.map((each, round) => ({ ...each, round })))(
    'after $name only the keys wait whose runs are in flight',
    { timeout: 240_000 },
    async ({ signal, loses, round }) => {
      const { gateways } = scene;
      const held = gateways.map((_, at) => `held-${round}-${at}`);
      const [goesOn, ended] =
        options.callbackSeconds === 0
          ? [[], []]
          : [
              gateways.map((_, at) => `callback-${round}-on-${at}`),
              gateways.map((_, at) => `callback-${round}-ended-${at}`),
            ];
      await scene.create([...held, ...goesOn, ...ended]);
      // Started by one gateway, and ended through the next.
      for (const [at, name] of ended.entries()) await scene.hold(name, gateways[at] as Listening);
      for (const [at, name] of ended.entries()) await scene.complete(name, gateways.at(at - 1) as Listening);
      const written = await scene.written();
      for (const [at, name] of [...held.entries(), ...goesOn.entries()])
        await scene.hold(name, gateways[at] as Listening);
      if (!loses) await scene.written();

      const from = scene.begun.length;
      await scene.restart(signal, loses ? written : 'all');
      const backMs = machineMs();
      const first = eventually(async () => expect(scene.begun.length).toBeGreaterThan(from), 60_000, 5);
      const tookFirst = first.then(() => Math.round(machineMs() - backMs));
      const measured = Promise.all([tookFirst, slowdownDuring(tookFirst), stillDuring(tookFirst)]);
      await scene.change([...OTHERS, ...held, ...goesOn, ...ended]);
      const [tookMs, slowdown, stillMs] = await measured;
      process.stdout.write(
        `${options.gateways} gateways, callbackSeconds ${options.callbackSeconds}: first run after ${tookMs} ms\n`,
      );
      expect(tookMs - stillMs).toBeLessThan(FIRST_RUN_MS * slowdown);
      await scene.untilBegun(from, [...OTHERS, ...ended]);
      const inFlight = [...held, ...goesOn];
      expect(inFlight.filter((name) => !scene.isWorking(name) || scene.begun.includes(name, from))).toEqual([]);
      for (const name of held) scene.release(name);
      await scene.untilBegun(from, held);
      expect(scene.overlaps).toEqual([]);
    },
  );
});

/** Of two gateways the one that follows has a run in flight, and does not answer after the restart of Redis. */
describe.concurrent('a gateway that does not answer after a restart of Redis', () => {
  interface Row {
    readonly name: string;
    readonly timeoutSeconds: number;
    readonly data: 'all' | 'none';
    /** Before the restart. */
    readonly before: 'SIGKILL' | 'SIGSTOP' | 'SIGTERM';
    readonly run: (scene: Scene, from: number) => Promise<void>;
  }

  const HELD = 'held-by-follower';
  /** The run takes all of it. */
  const TIMEOUT_SECONDS = 8;

  const untilWaiting = (scene: Scene): Promise<void> =>
    eventually(async () => expect(scene.leader.process.output).toContain('unrecorded runs'));

  /**
   * No key has begun before the deadline of a run that the gateway may have started until the restart. The times are
   * those of the leader's log, so a slow machine does not change the result.
   */
  async function untilWaited(scene: Scene, from: number): Promise<void> {
    await scene.untilBegun(from, [...OTHERS, HELD]);
    const { waits } = scene;
    expect(waits, JSON.stringify(waits)).toEqual([expect.objectContaining({ gateways: [expect.any(String)] })]);
    const [wait] = waits;
    const endMs = Date.parse(String(wait?.['time'])) + (TIMEOUT_SECONDS - Number(wait?.['seconds'])) * 1000;
    expect(Math.min(...scene.begunAtMs.slice(from))).toBeGreaterThan(endMs);
  }

  const rows: readonly Row[] = [
    {
      name: 'is not waited for when it has stopped in order beside its runs, which are on record',
      timeoutSeconds: LONGEST,
      data: 'all',
      before: 'SIGTERM',
      async run(scene, from) {
        await scene.untilBegun(from, OTHERS);
        expect(scene.begun.slice(from)).not.toContain(HELD);
        expect(scene.isWorking(HELD)).toBe(true);
        expect(scene.waits).toEqual([]);
      },
    },
    {
      name: 'is waited for when it was killed',
      timeoutSeconds: TIMEOUT_SECONDS,
      data: 'none',
      before: 'SIGKILL',
      run: untilWaited,
    },
    {
      name: 'is waited for when it is frozen, and starts nothing too early when it comes back',
      timeoutSeconds: TIMEOUT_SECONDS,
      data: 'none',
      before: 'SIGSTOP',
      async run(scene, from) {
        await untilWaited(scene, from);
        scene.last.process.send('SIGCONT');
        const next = scene.begun.length;
        await eventually(async () => expect(await fetch(`${scene.last.url}/readyz`)).toMatchObject({ status: 200 }));
        await scene.hold(HELD, scene.last);
        // A second run of the held key would be an overlap.
        await scene.change([HELD, ...OTHERS]);
        await scene.untilBegun(next, OTHERS);
      },
    },
    {
      name: 'is not waited for any longer when it was frozen and comes back',
      timeoutSeconds: LONGEST,
      data: 'none',
      before: 'SIGSTOP',
      async run(scene, from) {
        await untilWaiting(scene);
        expect(scene.begun.slice(from)).toEqual([]);
        scene.last.process.send('SIGCONT');
        await scene.change(OTHERS);
        await scene.untilBegun(from, OTHERS);
        expect(scene.begun.slice(from)).not.toContain(HELD);
        scene.release(HELD);
        await scene.untilBegun(from, [HELD]);
      },
    },
  ];

  for (const { name, timeoutSeconds, data, before, run } of rows) {
    it(name, { timeout: 240_000 }, async ({ onTestFinished }) => {
      const started = new Started();
      onTestFinished(() => started.stop());
      const scene = await Scene.start(started, { gateways: 2, timeoutSeconds, callbackSeconds: 0 });
      await scene.create([HELD]);
      await scene.hold(HELD, scene.last);
      scene.last.process.send(before);
      if (before === 'SIGTERM') {
        expect(await scene.last.process.exited).toBe(0);
        await scene.written();
      }
      const from = scene.begun.length;
      await scene.restart('SIGKILL', data);
      await scene.change([...OTHERS, HELD]);
      await run(scene, from);
      expect(scene.overlaps).toEqual([]);
    });
  }
});
