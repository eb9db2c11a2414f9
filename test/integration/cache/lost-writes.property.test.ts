import { afterAll, beforeAll, expect, it } from 'vitest';
import { formatObjectKey, type KubernetesObject, resource } from '../../../src/core/index.ts';
import { RedisReader } from '../../../src/function/node/redis-reader.ts';
import type { Applier } from '../../../src/gateway/informer/cache/applier.ts';
import { redisRunId } from '../../../src/gateway/informer/cache/incarnation.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { ForeignWriterError } from '../../../src/gateway/informer/cache/view-writer.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import type { WatchEvent } from '../../../src/gateway/informer/reflector/watch-event.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { ForgetfulRedis } from '../../harness/forgetful-redis.ts';
import { type Random, seededRandom } from '../../harness/seeded-random.ts';
import { Started } from '../../harness/started.ts';
import { createView } from '../../harness/views.ts';

const pods = resource('v1', 'Pod');
const NAMES = ['a', 'b', 'c', 'd', 'e', 'f'];
const STEPS = Number(process.env['LOST_WRITES_STEPS'] ?? 600);
/** Of these steps, so many of each kind must have happened. */
const LEAST = { reads: STEPS / 12, refused: STEPS / 24, losses: STEPS / 40, repairs: STEPS / 60 };

interface State {
  readonly version: number;
  /** Undefined: the object was deleted at that version. */
  readonly object: KubernetesObject | undefined;
}

/** What the server has, and has had. */
class ServerHistory {
  version = 1;
  readonly #states = new Map<string, State[]>(NAMES.map((name) => [name, [{ version: 0, object: undefined }]]));

  change(name: string, isDelete: boolean): { kind: 'changed' | 'deleted'; object: KubernetesObject } | undefined {
    const states = this.#states.get(name) ?? [];
    const before = states.at(-1)?.object;
    if (isDelete && !before) return undefined;
    this.version += 1;
    const uid = before?.metadata.uid ?? `uid-${this.version}`;
    const metadata = { namespace: 'n', name, uid, resourceVersion: String(this.version) };
    const object = { apiVersion: 'v1', kind: 'Pod', metadata };
    states.push({ version: this.version, object: isDelete ? undefined : object });
    return { kind: isDelete ? 'deleted' : 'changed', object };
  }

  now(): KubernetesObject[] {
    return [...this.#states.values()].flatMap((states) => states.at(-1)?.object ?? []);
  }

  /** The version of the state that was read, when that is not older than the state of `least`; else undefined. */
  seen(name: string, least: number, object: KubernetesObject | undefined): number | undefined {
    const states = this.#states.get(name) ?? [];
    if (object) {
      const version = Number(object.metadata.resourceVersion);
      return version >= least ? version : undefined;
    }
    const absent = states.find((state, at) => !state.object && (states[at + 1]?.version ?? Infinity) > least);
    return absent && Math.max(absent.version, least);
  }
}

/** A run: what it has seen of each object, or what was in the cache when it began. */
interface Run {
  readonly reader: RedisReader;
  readonly seen: Map<string, number>;
}

/** A gateway and functions, over a Redis that loses any number of its last writes. */
class World {
  readonly counts = { reads: 0, refused: 0, losses: 0, repairs: 0 };
  readonly #forgetful: ForgetfulRedis;
  readonly #redis: Redis;
  readonly #functions: Redis;
  readonly #random: Random;
  readonly #server = new ServerHistory();
  #view: View;
  #applier: Applier;
  #runs: Run[] = [];
  /** Nothing was lost since the view was renewed: runs may begin. */
  #isSound = false;
  #offsets: number[] = [];
  /** A repair that is under way, step by step. */
  #repair: AsyncGenerator<void, void> | undefined;
  /** What has changed since its list began; undefined while there is no list under way. */
  #behindList: WatchEvent[] | undefined;

  private constructor(forgetful: ForgetfulRedis, redis: Redis, functions: Redis, random: Random) {
    this.#forgetful = forgetful;
    this.#redis = redis;
    this.#functions = functions;
    this.#random = random;
    this.#view = createView(redis, pods);
    this.#applier = applierOf(this.#view);
  }

  static async start(started: Started, random: Random): Promise<World> {
    const forgetful = await ForgetfulRedis.start(started);
    const connections = [await connectRedis(forgetful.url), await connectRedis(forgetful.url)] as const;
    started.add(async () => connections.forEach((each) => each.disconnect()));
    const world = new World(forgetful, ...connections, random);
    await world.#view.writer.claim('writer');
    for (const name of NAMES) world.#server.change(name, false);
    await world.#applier.apply(listOf(String(world.#server.version), world.#server.now()));
    await world.#view.record.renew(await redisRunId(connections[0]));
    await world.#wrote();
    world.#isSound = true;
    return world;
  }

  async step(): Promise<void> {
    try {
      await this.#step(this.#random.below(100));
    } catch (error) {
      if (!(error instanceof ForeignWriterError)) throw error;
      // Redis has lost that this writer had taken the view from another one.
      await this.#replaceWriter();
    }
  }

  async #step(choice: number): Promise<void> {
    // Several at a time: so many that the view is written as often as before a loss, or that a list is done.
    if (choice < 20) for (let left = this.#random.below(8); left >= 0; left -= 1) await this.#change();
    else if (choice < 30) await this.#begin();
    else if (choice < 75) await this.#read();
    else if (choice < 81) await this.#lose();
    else if (choice < 83) await this.#replaceWriter();
    else for (let left = this.#random.below(8); left >= 0; left -= 1) await this.#repairOneStep();
  }

  /** A repair that nothing interrupts makes all readable, for runs from before as well. */
  async finish(): Promise<void> {
    await this.#replaceWriter();
    const repair = this.#repairs();
    while (!(await repair.next()).done) await this.#wrote();
    await this.#begin();
    for (const run of this.#runs) expect(await this.#readBy(run), 'a run reads on after the repair').toBe(true);
    const { items } = (await this.#runs.at(-1)?.reader.list(pods)) ?? {};
    expect(items?.map(({ metadata }) => metadata)).toEqual(this.#server.now().map(({ metadata }) => metadata));
  }

  async #change(): Promise<void> {
    const event = this.#server.change(this.#nameOf(), this.#random.below(4) === 0);
    if (!event) return;
    // Before recovery knows of a loss, too: the watch goes on. Changes come after the list that is under way.
    if (this.#behindList) this.#behindList.push(event);
    else await this.#applier.apply([event]);
    await this.#wrote();
  }

  async #begin(): Promise<void> {
    if (!this.#isSound) return;
    const position = await this.#view.record.position();
    if (position === undefined) throw new Error('a view that was filled has no position');
    const location = { views: { 'v1/Pod': [{ ...this.#view.location, position }] } };
    const found = await Promise.all(NAMES.map((name) => this.#view.objects.get(`n/${name}`)));
    const seen = new Map<string, number>();
    // An object that is not there is not older than its last deletion; the first read tells.
    NAMES.forEach((name, at) => seen.set(name, this.#server.seen(name, 0, found[at]) ?? 0));
    this.#runs.push({ reader: new RedisReader(this.#functions, location, { syncWaitMs: 0 }), seen });
    if (this.#runs.length > 6) this.#runs.shift();
  }

  async #read(): Promise<void> {
    const run = this.#runs[this.#random.below(this.#runs.length)];
    if (run) await this.#readBy(run);
  }

  /** @returns whether the reader did not refuse. */
  async #readBy({ reader, seen }: Run): Promise<boolean> {
    const isList = this.#random.below(3) === 0;
    const names = isList ? NAMES : [this.#nameOf()];
    const [name = ''] = names;
    try {
      const objects = isList ? (await reader.list(pods)).items : [await reader.get(pods, { namespace: 'n', name })];
      for (const each of names) {
        const object = objects.find((found) => found && formatObjectKey(found.metadata) === `n/${each}`);
        const version = this.#server.seen(each, seen.get(each) ?? 0, object);
        const versions = { read: object?.metadata.resourceVersion, seen: seen.get(each) };
        expect(version, `a run reads an older state of ${each}: ${JSON.stringify(versions)}`).toBeDefined();
        seen.set(each, version ?? 0);
      }
      this.counts.reads += 1;
      return true;
    } catch (error) {
      if (!/lacks writes|not complete/.test(String(error))) throw error;
      this.counts.refused += 1;
      return false;
    }
  }

  async #lose(): Promise<void> {
    const at = this.#random.below(Math.min(7, this.#offsets.length));
    this.#offsets.splice(this.#offsets.length - at);
    await this.#forgetful.restart(this.#offsets.at(-1) ?? 0);
    await Promise.all([this.#redis.ping(), this.#functions.ping()]);
    this.#isSound = false;
    this.counts.losses += 1;
  }

  /** Another gateway leads, which remembers nothing. */
  async #replaceWriter(): Promise<void> {
    this.#repair = undefined;
    this.#behindList = undefined;
    this.#view = new View(this.#redis, pods, this.#view.location);
    await this.#view.writer.claim(`writer-${this.#random.below(1e9)}`);
    this.#applier = applierOf(this.#view);
    await this.#view.record.state();
    await this.#wrote();
  }

  async #repairOneStep(): Promise<void> {
    this.#repair ??= this.#repairs();
    const { done } = await this.#repair.next();
    if (done) this.#repair = undefined;
    await this.#wrote();
  }

  /** As recovery does it. A loss between the steps goes unnoticed until the next repair. */
  async *#repairs(): AsyncGenerator<void, void> {
    const runId = await redisRunId(this.#redis);
    await this.#view.writer.reclaim();
    yield;
    const later: WatchEvent[] = [];
    this.#behindList = later;
    const events = listOf(String(this.#server.version), this.#server.now());
    for (const event of events) {
      await this.#applier.apply([event]);
      yield;
    }
    await this.#applier.apply(later);
    this.#behindList = undefined;
    await this.#view.record.renew(runId);
    this.counts.repairs += 1;
    const { incarnation, runId: renewedOn } = await this.#view.record.state();
    this.#isSound = incarnation !== undefined && renewedOn === (await redisRunId(this.#redis));
  }

  async #wrote(): Promise<void> {
    this.#offsets.push(await this.#forgetful.written());
  }

  #nameOf(): string {
    return NAMES[this.#random.below(NAMES.length)] ?? '';
  }
}

const started = new Started();
let world: World;

beforeAll(async () => {
  world = await World.start(started, seededRandom('reads in a Redis that loses writes'));
});
afterAll(() => started.stop());

it('a run reads nothing older than it has seen, whatever Redis loses and whoever writes when', async () => {
  for (let step = 0; step < STEPS; step += 1) await world.step();
  await world.finish();
  const { counts } = world;
  process.stdout.write(`${JSON.stringify(counts)}\n`);
  for (const [name, least] of Object.entries(LEAST)) {
    expect(counts[name as keyof typeof LEAST], name).toBeGreaterThan(least);
  }
});
