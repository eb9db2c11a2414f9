import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { matchesLabels, systemClock } from '../../src/core/index.ts';
import type { RelatedRule } from '../../src/contract/index.ts';
import type { RelatedChange } from '../../src/gateway/informer/cache/change.ts';
import { RelatedObjects } from '../../src/gateway/controller/dispatch/related-objects.ts';
import { done } from '../harness/recording-process.ts';
import type { BullMqWorkQueue } from '../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import type { Process } from '../../src/gateway/controller/workqueue/work-queue.ts';
import { eventually } from '../harness/eventually.ts';
import { newSeed, randomOf } from '../harness/random.ts';
import { RedisQueueFixture } from '../harness/redis-queue.ts';
import { ownBounds } from '../harness/own-bounds.ts';

const KINDS = ['ConfigMap', 'Lease'] as const;
const NAMESPACES = ['a', 'b'];
const NAMES = ['x', 'y', 'z'];
const VALUES = ['1', '2'];
const KEYS = Array.from({ length: 8 }, (_, at) => `a/key-${at}`);
const ROUNDS = Number(process.env['RELATED_ROUNDS'] ?? 10);

/** A related object, as the cache has it. */
interface Stored {
  readonly kind: (typeof KINDS)[number];
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly version: number;
}

/**
 * A queue with two gateways, a cache of related objects, and changes that a relay looks up some time after each is in
 * the cache. A run reads the cache at one moment and names its rules at a later one, as a function does.
 */
class World {
  readonly cache = new Map<string, Stored>();
  readonly wanted = new Map<string, readonly RelatedRule[]>();
  /** What the last run of each key has seen. */
  readonly seen = new Map<string, string>();
  runs = 0;
  readonly #random: () => number;
  readonly #queues: BullMqWorkQueue[] = [];
  readonly #namingMs: number;
  #version = 0;

  /** @param namingMs the most time between what a run has read and the rules that it names. */
  constructor(seed: number, namingMs: number) {
    this.#random = randomOf(seed);
    this.#namingMs = namingMs;
  }

  async addGateway(fixture: RedisQueueFixture) {
    const queue = await fixture.open();
    const related = new RelatedObjects({
      rules: queue.relatedRules,
      budget: ownBounds().budget,
      kinds: new Set(KINDS.map((kind) => `v1/${kind}`)),
      exists: async (key) => this.wanted.has(key),
    });
    const process: Process = {
      run: (runs) =>
        runs.map(async (run) => {
          this.runs += 1;
          const rules = this.wanted.get(run.key);
          this.seen.set(run.key, this.matching(run.key));
          await this.#pause(this.#namingMs);
          await related.record(run, rules);
          return done;
        }),
      lost: async () => ({ kind: 'ended', failures: 'forget' }),
      passed: async () => true,
      late() {},
    };
    await queue.start(process);
    this.#queues.push(queue);
  }

  /** The related objects of a key, by its rules of now, as text. */
  matching(key: string): string {
    const rules = this.wanted.get(key) ?? [];
    const found = [...this.cache.values()].filter((object) => rules.some((rule) => matches(rule, object)));
    return JSON.stringify(found.toSorted((a, b) => a.version - b.version));
  }

  async changeObject(): Promise<void> {
    const [kind, namespace, name] = [this.#one(KINDS), this.#one(NAMESPACES), this.#one(NAMES)];
    const id = `${kind} ${namespace}/${name}`;
    const old = this.cache.get(id);
    const labels: Record<string, string> = this.#random() < 0.2 ? {} : { part: this.#one(VALUES) };
    if (old && this.#random() < 0.2) this.cache.delete(id);
    else this.cache.set(id, { kind, namespace, name, labels, version: (this.#version += 1) });
    const now = this.cache.get(id);
    await this.#pause();
    const queue = this.#one(this.#queues);
    for (const state of [old, now]) {
      if (!state) continue;
      const change: RelatedChange = { kind: `v1/${kind}`, namespace, name, labels: state.labels };
      const keys = await queue.relatedRules.keysOf(change);
      await queue.add(keys.map((key) => ({ key, reasons: [] })));
    }
  }

  async changeRules(): Promise<void> {
    const key = this.#one(KEYS);
    if (this.#random() < 0.15) this.wanted.delete(key);
    else
      this.wanted.set(
        key,
        Array.from({ length: Math.floor(this.#random() * 3) }, () => this.#rule()),
      );
    await this.#one(this.#queues).add([{ key, reasons: [] }]);
  }

  #rule(): RelatedRule {
    const place = this.#random() < 0.5 ? {} : { namespace: this.#one(NAMESPACES) };
    const kind = { apiVersion: 'v1', kind: this.#one(KINDS), ...place };
    const choice = this.#random();
    if (choice < 0.45) return { ...kind, names: [this.#one(NAMES), this.#one(NAMES)] };
    if (choice < 0.9) return { ...kind, labelSelector: { matchLabels: { part: this.#one(VALUES) } } };
    return kind;
  }

  #one<T>(of: readonly T[]): T {
    return of[Math.floor(this.#random() * of.length)] as T;
  }

  async #pause(mostMs = 4): Promise<void> {
    await sleep(Math.floor(this.#random() * mostMs));
  }
}

function matches({ kind, namespace, names, labelSelector }: RelatedRule, object: Stored): boolean {
  if (kind !== object.kind || (namespace ?? object.namespace) !== object.namespace) return false;
  return (names?.includes(object.name) ?? true) && matchesLabels(labelSelector ?? {}, object.labels);
}

const SCRIPTS = new URL('../../src/gateway/controller/workqueue/records/lua/', import.meta.url);
const luaOf = (name: string): string => readFileSync(new URL(`${name}.lua`, SCRIPTS), 'utf8');

describe('related objects', () => {
  const seed = newSeed();
  let fixture: RedisQueueFixture;
  afterEach(() => fixture.close());

  const worldOf = async (namingMs: number, scripts: Readonly<Record<string, string>> = {}): Promise<World> => {
    fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock, scripts);
    const world = new World(seed, namingMs);
    await world.addGateway(fixture);
    await world.addGateway(fixture);
    return world;
  };

  /** Random changes of objects and rules, until nothing is left to run. @returns keys that have missed a change. */
  const playRound = async (world: World): Promise<string[]> => {
    const changes: Promise<void>[] = [];
    for (let at = 0; at < 20; at += 1) {
      changes.push(at % 4 === 0 ? world.changeRules() : world.changeObject());
      if (at % 3 === 0) await sleep(1);
    }
    await Promise.all(changes);
    await eventually(async () => expect(await fixture.pending()).toBe(0));
    return KEYS.filter((key) => world.seen.has(key) && world.seen.get(key) !== world.matching(key));
  };

  it(`wake each key for each change that its rules match (TEST_SEED=${seed})`, async () => {
    const world = await worldOf(12);
    let compared = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      expect(await playRound(world), `round ${round}`).toEqual([]);
      compared += world.seen.size;
    }
    expect(compared).toBeGreaterThan(ROUNDS * 4);
    expect(world.runs).toBeGreaterThan(ROUNDS * 4);
    // Of keys without an object, and without rules, nothing is left.
    for (const key of KEYS) world.wanted.delete(key);
    const queue = await fixture.open();
    await queue.add(KEYS.map((key) => ({ key, reasons: [] })));
    await eventually(async () => {
      expect(await fixture.pending()).toBe(0);
      expect((await fixture.names()).filter((name) => name.startsWith('related'))).toEqual([]);
    });
  });

  it(`miss changes where a key with a new rule does not run again (TEST_SEED=${seed})`, async () => {
    const relate = luaOf('relate').replace('-- include distinct-kinds', luaOf('distinct-kinds'));
    const forgetful = relate.replace("'dirty', '1'", "'clean', '1'");
    expect(forgetful).not.toBe(relate);
    const world = await worldOf(100, { relate: forgetful });
    let missed = 0;
    for (let round = 0; round < 200 && missed === 0; round += 1) missed += (await playRound(world)).length;
    expect(missed).toBeGreaterThan(0);
  });
});
