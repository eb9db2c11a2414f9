import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { type CheckpointName, type KubernetesObject, type Logger, type Resource } from '../../../src/core/index.ts';
import { encodeEntry, indexEntriesOf, viewKeys } from '../../../src/contract/cache-layout.ts';
import type { IndexSpec } from '../../../src/contract/index.ts';
import { unlinkAll } from '../../../src/ground/redis/redis.ts';
import { PAUSED_INDEX } from '../../../src/gateway/controller/handlers/paused.ts';
import { ModelApiserver } from '../../harness/model-apiserver.ts';
import { randomOf } from '../../harness/random.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { storedTexts } from '../../harness/stored-objects.ts';
import { GatewayUnderTest, type MakeView, prefixOf } from './gateway-under-test.ts';
import type { History, Step } from './history.ts';
import { kinds, NAMES, NAMESPACES, objectOf, SET_INDEXES, sets, sightOf, type Snapshot } from './kinds.ts';
import { RecordingQueue } from './recording-queue.ts';

export interface RunOptions {
  readonly redis: Redis;
  readonly redisUrl: string;
  /** For the kubeconfigs. */
  readonly directory: string;
  readonly makeView?: MakeView;
  readonly logger?: Logger;
  /** Told of each point that a gateway was ended at. */
  readonly onEnd?: (point: CheckpointName) => void;
  readonly settleMs?: number;
}

interface Armed {
  readonly point: CheckpointName;
  left: number;
  readonly zombie: boolean;
}

/** Plays a history against the real parts, and throws with the differences that are left at its end. */
export async function runHistory(history: History, options: RunOptions): Promise<void> {
  const play = await Play.begin(history, options);
  try {
    for (const step of history.steps) {
      await play.step(step);
    }
    await play.settle();
  } finally {
    await play.end();
  }
}

class Play {
  readonly #options: RunOptions;
  readonly #random: () => number;
  readonly #keyPrefix = uniqueName('history');
  /** Has what Redis says it is. No loss takes it away. */
  readonly #runIdKey = `run-id:${this.#keyPrefix}`;
  readonly #server: ModelApiserver;
  readonly #kubeconfig: string;
  readonly #queue: RecordingQueue;
  #gateway: GatewayUnderTest | undefined;
  #zombies: { gateway: GatewayUnderTest; thaw: () => void }[] = [];
  #armed: Armed[] = [];
  #runs = 0;
  #snapshotOfRedis: { dumps: Buffer[]; queue: () => void } | undefined;

  private constructor(options: RunOptions, server: ModelApiserver, kubeconfig: string, random: () => number) {
    this.#options = options;
    this.#server = server;
    this.#kubeconfig = kubeconfig;
    this.#random = random;
    this.#queue = new RecordingQueue(() => this.#cached());
  }

  static async begin({ seed }: History, options: RunOptions): Promise<Play> {
    const random = randomOf(seed);
    const server = await ModelApiserver.start(kinds, random);
    const kubeconfig = `${options.directory}/${uniqueName('kubeconfig')}`;
    await writeFile(kubeconfig, kubeconfigFor(server.url));
    const play = new Play(options, server, kubeconfig, random);
    play.#write(0, 'a/x', 5);
    play.#write(1, 'a/y', 5);
    play.#write(2, 'b/x', 5);
    await options.redis.set(play.#runIdKey, runIdOf(0));
    await play.#start();
    return play;
  }

  async end(): Promise<void> {
    for (const { gateway } of this.#zombies) gateway.kill();
    this.#gateway?.kill();
    await this.#server.close();
    await unlinkAll(this.#options.redis, `{${this.#keyPrefix}:`);
    await this.#options.redis.del(this.#runIdKey);
  }

  async step(step: Step): Promise<void> {
    const server = this.#server;
    switch (step.do) {
      case 'write':
        server.write(this.#kind(step.kind), objectOf(step.kind, step.key, step.variant));
        break;
      case 'delete':
        server.delete(this.#kind(step.kind), step.key);
        break;
      case 'replace':
        server.delete(this.#kind(step.kind), step.key);
        server.write(this.#kind(step.kind), objectOf(step.kind, step.key, step.variant));
        break;
      case 'pause':
        server.pause(this.#kind(step.kind));
        break;
      case 'resume':
        server.resume(this.#kind(step.kind));
        break;
      case 'bookmark':
        server.bookmark(this.#kind(step.kind));
        break;
      case 'compact':
        server.compact(this.#kind(step.kind));
        break;
      case 'cut':
        server.cutWatches(this.#kind(step.kind), step.how);
        break;
      case 'fail-list':
        server.failNextList(this.#kind(step.kind), step.fault);
        break;
      case 'repeat':
        server.repeat(this.#kind(step.kind), step.count);
        break;
      case 'relist': {
        const gateway = this.#gateway;
        gateway?.informers[step.kind]?.relist(gateway.signal).catch(() => {});
        break;
      }
      case 'wait':
        await sleep(step.ms);
        break;
      case 'settle':
        await this.settle();
        break;
      case 'until-stopped':
        for (let left = 1000; this.#armed.length > 0 && left > 0; left -= 1) await sleep(2);
        break;
      case 'kill':
        this.#gateway?.kill();
        await this.#start();
        break;
      case 'restart':
        // Delayed on the way, it never ends.
        this.#armed = this.#armed.filter(({ zombie }) => !zombie);
        await this.#gateway?.stop();
        await this.#start();
        break;
      case 'flush':
        await this.#lose();
        break;
      case 'snapshot':
        await this.#snapshot();
        break;
      case 'rollback':
        if (this.#snapshotOfRedis) await this.#lose(this.#snapshotOfRedis);
        break;
      case 'restore':
        await this.#restoreServer(step.back);
        break;
      case 'stop-at':
        this.#armed.push({ point: step.point, left: step.nth, zombie: step.zombie });
        break;
    }
    // Now and then things get time to happen, now and then they pile up.
    if (this.#random() < 0.3) await sleep(this.#random() * 3);
  }

  /** Everything works again and nothing changes: what is left after a while must be right. */
  async settle(): Promise<void> {
    this.#armed = [];
    this.#server.heal();
    const end = Date.now() + (this.#options.settleMs ?? 5000);
    for (;;) {
      await this.#thaw();
      if (!this.#gateway?.alive) await this.#start();
      for (const kind of kinds) this.#server.bookmark(kind);
      const found = await this.#differences();
      if (found.length === 0) return;
      if (Date.now() > end) throw new Error(`not settled:\n${found.join('\n')}`);
      await sleep(2);
    }
  }

  #kind(at: number): Resource {
    return kinds[at] ?? sets;
  }

  #write(kind: number, key: string, variant: number): void {
    const [namespace = '', name = ''] = key.split('/');
    this.#server.write(this.#kind(kind), objectOf(kind, { namespace, name }, variant));
  }

  async #start(): Promise<void> {
    const { redisUrl, makeView, logger } = this.#options;
    const gateway: GatewayUnderTest = await GatewayUnderTest.start({
      redisUrl,
      kubeconfig: this.#kubeconfig,
      keyPrefix: this.#keyPrefix,
      queue: this.#queue,
      runIdKey: this.#runIdKey,
      checkpoint: (point) => this.#reached(point, gateway),
      ...(makeView ? { makeView } : {}),
      ...(logger ? { logger } : {}),
    });
    this.#gateway = gateway;
  }

  /** A gateway is at a named point: it may end here, be delayed for long, or for a moment. */
  async #reached(point: CheckpointName, gateway: GatewayUnderTest): Promise<void> {
    if (gateway === this.#gateway) {
      const armed = this.#armed.find((each) => each.point === point);
      if (armed && (armed.left -= 1) === 0) {
        this.#armed = this.#armed.filter((each) => each !== armed);
        this.#options.onEnd?.(point);
        if (!armed.zombie) return gateway.kill();
        // It does not know that it is over, and goes on when another has taken its place.
        return new Promise((thaw) => {
          this.#gateway = undefined;
          this.#zombies.push({ gateway, thaw });
        });
      }
    }
    if (this.#random() < 0.2) await sleep(this.#random() * 4);
  }

  /** Another gateway takes over; then those that were delayed go on, for a moment. */
  async #thaw(): Promise<void> {
    if (this.#zombies.length === 0) return;
    if (!this.#gateway?.alive) await this.#start();
    await sleep(10);
    const zombies = this.#zombies;
    this.#zombies = [];
    for (const { thaw } of zombies) thaw();
    await sleep(10);
    for (const { gateway } of zombies) gateway.kill();
  }

  /** Redis comes back as another process, with the keys and dumps of `kept` in it. */
  async #lose(kept?: { dumps: Buffer[]; queue: () => void }): Promise<void> {
    for (const { gateway } of this.#zombies) gateway.kill();
    this.#zombies = [];
    // Emptied, or restarted: then its connections are gone, too.
    const restarted = kept !== undefined || this.#random() < 0.5;
    if (restarted) this.#runs += 1;
    if (restarted) this.#gateway?.loseConnection();
    this.#queue.clear();
    kept?.queue();
    const replaced = [`{${this.#keyPrefix}:*`, this.#runIdKey, runIdOf(this.#runs)];
    await this.#options.redis.eval(REPLACE, 0, ...replaced, ...(kept?.dumps ?? []));
  }

  async #snapshot(): Promise<void> {
    const dumps = (await this.#options.redis.callBuffer('EVAL', DUMP, 0, `{${this.#keyPrefix}:*`)) as Buffer[];
    // Later than the rest: what is gone from the outbox has been added.
    const queue = this.#queue.copy();
    this.#snapshotOfRedis = { dumps, queue };
  }

  /** etcd is restored while everything is quiet, and nobody writes until the gateway has looked. */
  async #restoreServer(back: number): Promise<void> {
    await this.settle();
    const version = Math.max(100, this.#server.version - back);
    this.#server.restore(version);
    const end = Date.now() + 5000;
    while (!((await this.#hasSeen(version)) && this.#server.lookedAt) && Date.now() < end) {
      await this.#thaw();
      if (!this.#gateway?.alive) await this.#start();
      await sleep(2);
    }
  }

  /** Each view has come to the version, or is on its way back to it. */
  async #hasSeen(version: number): Promise<boolean> {
    for (const kind of kinds) {
      const { view } = viewKeys(prefixOf(this.#keyPrefix, kind));
      const [cached, rewound] = await this.#options.redis.hmget(view, 'version', 'rewound');
      if (Number(cached) > version && rewound !== '1') return false;
    }
    return true;
  }

  async #cached(): Promise<Snapshot> {
    const found = await Promise.all(
      kinds.map((kind) => storedTexts(this.#options.redis, viewKeys(prefixOf(this.#keyPrefix, kind)).objects)),
    );
    return found.map(
      (objects) => new Map(Object.entries(objects).map(([key, text]) => [key, JSON.parse(text) as KubernetesObject])),
    );
  }

  async #differences(): Promise<string[]> {
    const gateway = this.#gateway;
    if (!gateway?.ready) return ['the gateway is not ready'];
    // It may die, or be delayed, in the middle.
    await Promise.race([gateway.recovery.check(gateway.signal), sleep(100)]);
    if (!gateway.recovery.healthy) return ['the gateway is not healthy'];
    const waitsFor = gateway.recovery.waitsFor(gateway.controller);
    if (waitsFor !== undefined) return [waitsFor];
    const { missesEvents } = gateway.controller.failures;
    if (missesEvents !== undefined) return [missesEvents];
    if (gateway.failures.length > 0) return gateway.failures;
    const found: string[] = [];
    for (const kind of kinds) found.push(...(await this.#viewDifferences(kind)));
    const world = kinds.map((kind) => this.#server.objects(kind));
    for (const namespace of NAMESPACES) {
      for (const name of NAMES) {
        const key = `${namespace}/${name}`;
        const [now, seen] = [sightOf(key, world), this.#queue.seen(key) ?? 'absent'];
        if (now !== seen) found.push(`${key} was queued last when it saw\n    ${seen}\n  and now there is\n    ${now}`);
      }
    }
    return found;
  }

  async #viewDifferences(kind: Resource): Promise<string[]> {
    const { redis } = this.#options;
    const keys = viewKeys(prefixOf(this.#keyPrefix, kind));
    const [state, objects, entries, order, outbox, sets] = await Promise.all([
      redis.hgetall(keys.view),
      storedTexts(redis, keys.objects),
      redis.hgetall(keys.entries),
      redis.zrangebylex(keys.order, '-', '+'),
      redis.xlen(keys.outbox),
      this.#indexSets(keys.indexPrefix),
    ]);
    // What is reconciled also has the gateway's own index.
    const specs = kind === kinds[0] ? [PAUSED_INDEX, ...SET_INDEXES].toSorted() : [];
    const wanted = expected(this.#server.objects(kind), specs);
    const found: string[] = [];
    const same = (what: string, is: unknown, should: unknown): void => {
      const [a, b] = [JSON.stringify(is), JSON.stringify(should)];
      if (a !== b) found.push(`${kind.kind} ${what}: is ${a}, should be ${b}`);
    };
    same('version', state['version'], String(this.#server.version));
    same('complete indexes', (JSON.parse(state['indexes'] ?? '[]') as string[]).toSorted(), specs);
    same('outbox', outbox, 0);
    same('objects', sorted(objects), wanted.objects);
    same('entries', sorted(entries), wanted.entries);
    same('order', order, Object.keys(wanted.objects));
    same('indexes', sets, wanted.indexes);
    return found;
  }

  async #indexSets(prefix: string): Promise<Record<string, string[]>> {
    const { redis } = this.#options;
    const names: string[] = [];
    for await (const some of redis.scanStream({ match: `${prefix}*`, count: 1000 })) names.push(...(some as string[]));
    const members = await Promise.all(names.map(async (name) => (await redis.smembers(name)).toSorted()));
    return sorted(Object.fromEntries(names.map((name, at) => [name.slice(prefix.length), members[at] ?? []])));
  }
}

/** Both at one moment, as a snapshot and a crash are. */
const DUMP = `
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  found[#found + 1] = key
  found[#found + 1] = redis.call('DUMP', key)
end
return found`;
const REPLACE = `
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('UNLINK', key) end
redis.call('SET', ARGV[2], ARGV[3])
for at = 4, #ARGV, 2 do redis.call('RESTORE', ARGV[at], 0, ARGV[at + 1]) end`;

/** As INFO gives it. */
const runIdOf = (run: number): string => `run_id:${(0xa0 + run).toString(16)}\r\n`;

/** What the cache must hold of these objects, and nothing else. */
function expected(server: ReadonlyMap<string, KubernetesObject>, specs: readonly IndexSpec[]) {
  const objects: Record<string, string> = {};
  const entries: Record<string, string> = {};
  const indexes: Record<string, string[]> = {};
  for (const [key, original] of [...server].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const object = structuredClone(original);
    delete object.metadata.managedFields;
    objects[key] = JSON.stringify(object);
    const indexEntries = indexEntriesOf(object, specs);
    const { resourceVersion, uid } = object.metadata;
    entries[key] = encodeEntry({ resourceVersion, uid, terminating: false, indexEntries });
    for (const entry of indexEntries) (indexes[entry] ??= []).push(key);
  }
  return { objects, entries, indexes: sorted(indexes) };
}

function sorted<T>(record: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function kubeconfigFor(server: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'model', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'model', user: {} }],
    contexts: [{ name: 'model', context: { cluster: 'model', user: 'model' } }],
    'current-context': 'model',
  });
}
