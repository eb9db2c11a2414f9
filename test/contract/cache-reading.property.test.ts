import { setImmediate as tick } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { compareResourceVersions, controllerOf, type KubernetesObject, resource } from '../../src/core/index.ts';
import { HttpReader, type ListOptions } from '../../src/function/index.ts';
import { RedisReader } from '../../src/function/node/redis-reader.ts';
import type { Applier } from '../../src/gateway/informer/cache/applier.ts';
import { connectRedis, type Redis } from '../../src/ground/redis/redis.ts';
import type { View } from '../../src/gateway/informer/cache/view.ts';
import { CacheApiServer } from '../harness/cache-api-server.ts';
import { applierOf } from '../harness/applier.ts';
import { type Random, seededRandom } from '../harness/seeded-random.ts';
import { createView } from '../harness/views.ts';

const pods = resource('v1', 'Pod');
const nodes = resource('v1', 'Node', { namespaced: false });
const LISTS = Number(process.env['CACHE_READING_LISTS'] ?? 100);
const NAMES = 90;
/** The declared index, by a list of some objects' that is too long for it. */
const REFS = 'field:spec.refs';
const refsOf = (object: KubernetesObject): readonly string[] =>
  (object as { spec?: { refs?: readonly string[] } }).spec?.refs ?? [];
const nameOf = ({ metadata }: KubernetesObject): string => `${metadata.namespace}/${metadata.name}`;

/** Everything that happened to each key: the state from a version on, undefined when it is gone. */
class History {
  version = 0;
  readonly #states = new Map<string, { version: number; object: KubernetesObject | undefined }[]>();
  #uids = 0;

  write(key: string, rest: object, fields: object): KubernetesObject {
    const [namespace = '', name = ''] = key.split('/');
    this.version += 1;
    const uid = this.at(key, this.version)?.metadata.uid ?? `uid-${(this.#uids += 1)}`;
    const object = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace, name, uid, resourceVersion: String(this.version), ...rest },
      ...fields,
    };
    this.#push(key, object);
    return object;
  }

  delete(key: string): KubernetesObject | undefined {
    const old = this.at(key, this.version);
    if (!old) return undefined;
    this.version += 1;
    this.#push(key, undefined);
    return { ...old, metadata: { ...old.metadata, resourceVersion: String(this.version) } };
  }

  at(key: string, version: number): KubernetesObject | undefined {
    return this.#states.get(key)?.findLast((state) => state.version <= version)?.object;
  }

  keys(): string[] {
    return [...this.#states.keys()].toSorted();
  }

  /** All states of a key from `from` to now, the one at `from` first. */
  since(key: string, from: number): (KubernetesObject | undefined)[] {
    const later = this.#states.get(key)?.filter(({ version }) => version > from) ?? [];
    return [this.at(key, from), ...later.map(({ object }) => object)];
  }

  #push(key: string, object: KubernetesObject | undefined): void {
    const states = this.#states.get(key) ?? [];
    states.push({ version: this.version, object });
    this.#states.set(key, states);
  }
}

/** Each way of reading: what it asks for, and what belongs to it. Those by the declared index are several. */
const WAYS: readonly { options: ListOptions; belongs: (object: KubernetesObject) => boolean }[] = [
  { options: {}, belongs: () => true },
  { options: { namespace: 'a' }, belongs: ({ metadata }) => metadata.namespace === 'a' },
  {
    options: { controlledBy: { metadata: { uid: 'o1' } } },
    belongs: (object) => controllerOf(object)?.uid === 'o1' && controllerOf(object)?.kind === 'Node',
  },
  {
    options: { controlledBy: { metadata: { uid: 'o2', namespace: 'a' } } },
    belongs: (object) => controllerOf(object)?.uid === 'o2' && object.metadata.namespace === 'a',
  },
  { options: { fieldSelector: 'metadata.name!=p1' }, belongs: ({ metadata }) => metadata.name !== 'p1' },
  { options: { orphansIn: 'b' }, belongs: (object) => object.metadata.namespace === 'b' && !controllerOf(object) },
  { options: { labelSelector: 'app=x' }, belongs: ({ metadata }) => metadata.labels?.['app'] === 'x' },
  {
    options: { namespace: 'a', labelSelector: 'app notin (x)' },
    belongs: ({ metadata }) => metadata.namespace === 'a' && metadata.labels?.['app'] !== 'x',
  },
  ...['r0', 'r1', 'r39'].map((value) => ({
    options: { index: { spec: REFS, value } } as const,
    belongs: (object: KubernetesObject) => refsOf(object).includes(value),
  })),
  {
    options: { index: { spec: REFS, value: 'r2' }, namespace: 'b' },
    belongs: (object) => object.metadata.namespace === 'b' && refsOf(object).includes('r2'),
  },
];

interface Read {
  readonly items: readonly KubernetesObject[];
  readonly version: string;
}
type Reader = (options: ListOptions) => Promise<Read>;

let redis: Redis;
beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
});
afterAll(() => redis.disconnect());

class World {
  readonly history = new History();
  readonly view: View;
  readonly #applier: Applier;
  readonly #random: Random;
  readonly #ownerKinds: readonly string[];
  relists = 0;
  changes = 0;

  constructor(random: Random, ownerKinds: readonly string[]) {
    this.#random = random;
    this.#ownerKinds = ownerKinds;
    this.view = createView(redis, pods);
    this.#applier = applierOf(this.view);
  }

  async fill(): Promise<void> {
    await this.view.writer.claim('writer');
    this.view.indexer.maintain([REFS]);
    await this.view.indexer.record([REFS]);
    for (let at = 0; at < NAMES; at += 1) this.#change();
    await this.#relist();
  }

  /** Changes, and now and then everything is listed again, until `done`. */
  async churn(done: () => boolean): Promise<void> {
    while (!done()) {
      if (this.#random.below(20) === 0) await this.#relist();
      else {
        const events = Array.from({ length: 1 + this.#random.below(8) }, () => this.#change()).flatMap(
          (event) => event ?? [],
        );
        await this.#applier.apply(events);
        this.changes += events.length;
      }
      await tick();
    }
  }

  #change() {
    const key = `${'ab'[this.#random.below(2)]}/p${this.#random.below(NAMES / 2)}`;
    if (this.#random.below(4) === 0) {
      const object = this.history.delete(key);
      return object && { kind: 'deleted' as const, object };
    }
    const labels = [{ app: 'x' }, { app: 'y' }, {}][this.#random.below(3)];
    const uid = ['o1', 'o2', undefined][this.#random.below(3)];
    const kind = this.#ownerKinds[this.#random.below(this.#ownerKinds.length)];
    const owner = { apiVersion: 'v1', kind, name: 'x', uid, controller: true };
    const refs = Array.from({ length: [0, 1, 3, 40][this.#random.below(4)] ?? 0 }, (_, at) => `r${at}`);
    const metadata = { labels, ...(uid ? { ownerReferences: [owner] } : {}) };
    const object = this.history.write(key, metadata, refs.length > 0 ? { spec: { refs } } : {});
    return { kind: 'changed' as const, object };
  }

  /** A list at the newest version, in parts between which there are reads. What it lost in between it never tells. */
  async #relist(): Promise<void> {
    for (let at = 0; at < this.#random.below(20); at += 1) this.#change();
    const { version } = this.history;
    const objects = this.history.keys().flatMap((key) => this.history.at(key, version) ?? []);
    await this.#applier.apply([{ kind: 'init', rewound: false }]);
    for (let from = 0; from < objects.length; from += 25) {
      const part = objects.slice(from, from + 25);
      await this.#applier.apply(part.map((object) => ({ kind: 'listed' as const, object })));
      await tick();
    }
    await this.#applier.apply([{ kind: 'init-done', version: String(version), list: this.relists }]);
    this.relists += 1;
  }

  /** One list, compared with everything that happened since before it began. */
  async check(read: Reader): Promise<number> {
    const { options, belongs } = WAYS[this.#random.below(WAYS.length)] ?? { options: {}, belongs: () => true };
    const { version: before = '0' } = await this.view.record.state();
    const { items, version } = await read(options);
    const names = items.map(nameOf);
    const said = JSON.stringify({ options, before, version });
    expect(compareResourceVersions(version, before), said).toBeGreaterThanOrEqual(0);
    expect(new Set(names).size, `${said}: one is there twice`).toBe(names.length);
    expect(names, `${said}: in order`).toEqual(names.toSorted());
    for (const item of items) {
      const at = this.history.at(nameOf(item), Number(version));
      const text = `${said}: ${JSON.stringify(item)} against ${JSON.stringify(at)}`;
      expect(belongs(item), `${text}: does not belong`).toBe(true);
      if (at) {
        const newer = compareResourceVersions(item.metadata.resourceVersion, at.metadata.resourceVersion);
        expect(newer, `${text}: too old`).toBeGreaterThanOrEqual(0);
      } else {
        // Made after that version: an older one with that name was gone by then.
        expect(Number(item.metadata.resourceVersion), `${text}: was gone`).toBeGreaterThan(Number(version));
      }
      expect(this.history.at(nameOf(item), Number(item.metadata.resourceVersion)), text).toEqual(item);
    }
    for (const key of this.history.keys()) {
      const states = this.history.since(key, Number(before));
      const throughout = states.every((state) => state !== undefined && belongs(state));
      if (throughout) expect(names, `${said}: ${key} was there throughout`).toContain(key);
    }
    return items.length;
  }
}

async function run(
  name: string,
  open: (world: World) => Promise<{ read: Reader; close: () => Promise<unknown> }>,
  ownerKinds = ['Node', 'ReplicationController'],
): Promise<void> {
  const random = seededRandom(`${name} under churn`);
  const world = new World(random, ownerKinds);
  await world.fill();
  const { read, close } = await open(world);
  let done = false;
  let found = 0;
  const churning = world.churn(() => done);
  try {
    // On a slow machine few lists meet few changes.
    const enough = (): boolean => world.relists > 2 && world.changes > 50;
    for (let at = 0; at < LISTS || !enough(); at += 1) found += await world.check(read);
  } finally {
    done = true;
    await churning;
    await close();
  }
  expect(found).toBeGreaterThan(LISTS);
}

/** Its token reads a cluster-scoped kind too, so it may ask for the objects of a cluster-scoped owner. */
function httpReader(server: CacheApiServer, { location }: View): { read: Reader; close: () => Promise<unknown> } {
  const token = server.token({ 'v1/Pod': '*', 'v1/Node': '*' }, 'x', 600);
  const reader = new HttpReader({ views: { 'v1/Pod': [location] }, url: server.url, token });
  return { read: (options) => reader.list(pods, options), close: () => server.close() };
}

describe('lists during churn and while the view is listed again: all at least as new as stated, none that does not belong, each that was there throughout exactly once', () => {
  it('by RedisReader', () =>
    run(
      'RedisReader',
      async ({ view }) => {
        const reader = new RedisReader(redis, { views: { 'v1/Pod': [view.location] } });
        return { read: (options) => reader.list(pods, options), close: async () => {} };
      },
      // Without a cache API the reader does not know which kinds are cluster-scoped.
      ['Node'],
    ));

  it('by HttpReader', () =>
    run('HttpReader', async ({ view }) => {
      return httpReader(await CacheApiServer.start({ views: () => [view, createView(redis, nodes)] }), view);
    }));

  it('by HTTP, page by page', () =>
    run('pages', async ({ view }) => {
      // A page of seven: many changes lie between the first and the last.
      return httpReader(
        await CacheApiServer.start({ views: () => [view, createView(redis, nodes)], listLimit: 7 }),
        view,
      );
    }));
});
