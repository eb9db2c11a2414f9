import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, compareResourceVersions } from '../../src/core/index.ts';
import { type Cluster, configMaps } from './cluster.ts';
import { machineMs } from './machine-clock.ts';
import type { Random } from './seeded-random.ts';
import type { Observation, Observer } from './observer.ts';

export interface ConfigMapChangesOptions {
  readonly count: number;
  readonly random: Random;
  /** Whether one change in eight deletes. Default true. */
  readonly deletions?: boolean;
}

/**
 * A number of ConfigMaps in one namespace that change at random: most are updated, some deleted and made again. Writes
 * that fail while the apiserver is away are tried until it acknowledges them. One write at a time for each name.
 */
export class ConfigMapChanges {
  /** Changes acknowledged. */
  acknowledged = 0;
  /** Requests that got no answer, or one that said no. */
  failed = 0;
  readonly #cluster: Cluster;
  readonly #namespace: string;
  readonly #random: Random;
  readonly #deletions: boolean;
  readonly #names: readonly string[];
  readonly #present = new Set<string>();
  readonly #busy = new Set<string>();
  /** When the last delete of a name was first sent, on `machineMs`' clock. */
  readonly #deletedAtMs = new Map<string, number>();
  /** When the last create of a name was first sent. */
  readonly #createdAtMs = new Map<string, number>();
  readonly #unwatched: { readonly fromMs: number; readonly toMs: number }[] = [];
  #count = 0;

  constructor(cluster: Cluster, namespace: string, options: ConfigMapChangesOptions) {
    this.#cluster = cluster;
    this.#namespace = namespace;
    this.#random = options.random;
    this.#deletions = options.deletions ?? true;
    this.#names = Array.from({ length: options.count }, (_, at) => `cm-${at}`);
  }

  async createAll(): Promise<void> {
    await Promise.all(this.#names.map((name) => this.#create(name)));
  }

  /** Updates each once. */
  async updateAll(): Promise<void> {
    await Promise.all(this.#names.map((name) => this.#update(name)));
    this.acknowledged += this.#names.length;
  }

  /** Makes about `perSecond` changes a second while `during` goes on; returns when all of them are acknowledged. */
  async keepChanging(perSecond: number, during: () => Promise<void>): Promise<void> {
    const stop = new AbortController();
    // `unwatched` takes its time before the first change is made.
    const done = during();
    const changing = this.#change(perSecond, stop.signal);
    try {
      await done;
    } finally {
      stop.abort();
      await changing;
    }
  }

  /**
   * While `during` goes on, the watch may be lost for good, and a list shows what there is after it: an object that was
   * made and deleted meanwhile was never seen, and needs no run.
   */
  async unwatched(during: () => Promise<void>): Promise<void> {
    const fromMs = machineMs();
    await during();
    this.#unwatched.push({ fromMs, toMs: machineMs() });
  }

  /**
   * The names whose last change no run of these observers has seen, each with the reason. A run has seen it that read
   * the final version or a later one, or, for a deletion, one that began after the delete was sent and read nothing.
   */
  async unreconciled(...observers: readonly Observer[]): Promise<string[]> {
    const list = await this.#cluster.list(configMaps, this.#namespace);
    const final = new Map(list.items.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
    const runsOf = Map.groupBy(
      observers.flatMap((observer) => observer.seen()),
      ({ key }) => key,
    );
    const missed: string[] = [];
    for (const name of this.#names) {
      const version = final.get(name);
      const runs = runsOf.get(`${this.#namespace}/${name}`) ?? [];
      const seen = runs.some((run) =>
        version === undefined
          ? run.resourceVersion === null && run.startedAtMachineMs >= (this.#deletedAtMs.get(name) ?? Infinity)
          : run.resourceVersion !== null && compareResourceVersions(run.resourceVersion, version) >= 0,
      );
      if (!seen && !(version === undefined && this.#needsNoRun(name, runs)))
        missed.push(`${name} ${version === undefined ? 'deleted' : `at ${version}`}`);
    }
    return missed;
  }

  /** Whether an object came and went while nobody watched, and no run has read it. */
  #needsNoRun(name: string, runs: readonly Observation[]): boolean {
    const createdAtMs = this.#createdAtMs.get(name) ?? -Infinity;
    const deletedAtMs = this.#deletedAtMs.get(name) ?? Infinity;
    const isUnwatched = this.#unwatched.some(({ fromMs, toMs }) => createdAtMs >= fromMs && deletedAtMs <= toMs);
    return isUnwatched && runs.every((run) => run.resourceVersion === null || run.startedAtMachineMs < createdAtMs);
  }

  async #change(perSecond: number, stop: AbortSignal): Promise<void> {
    const startedAtMs = machineMs();
    const running = new Set<Promise<void>>();
    for (let at = 1; !stop.aborted; at += 1) {
      const name = this.#names[this.#random.below(this.#names.length)] ?? '';
      if (!this.#busy.has(name)) {
        const changed = this.#changeOne(name).finally(() => running.delete(changed));
        running.add(changed);
      }
      const wait = startedAtMs + (at * 1000) / perSecond - machineMs();
      if (wait > 0) await sleep(wait);
    }
    await Promise.all(running);
  }

  async #changeOne(name: string): Promise<void> {
    this.#busy.add(name);
    if (!this.#present.has(name)) await this.#create(name);
    else if (this.#deletions && this.#random.below(8) === 0) await this.#delete(name);
    else await this.#update(name);
    this.acknowledged += 1;
    this.#busy.delete(name);
  }

  async #create(name: string): Promise<void> {
    this.#createdAtMs.set(name, machineMs());
    const metadata = { namespace: this.#namespace, name };
    // 409: an attempt that got no answer was made all the same.
    await this.#untilAcknowledged(409, () => this.#cluster.create(configMaps, { metadata, data: this.#data() }));
    this.#present.add(name);
  }

  async #update(name: string): Promise<void> {
    const [key, data] = [{ namespace: this.#namespace, name }, this.#data()];
    await this.#untilAcknowledged(undefined, () => this.#cluster.patch(configMaps, key, { data }));
  }

  async #delete(name: string): Promise<void> {
    this.#deletedAtMs.set(name, machineMs());
    const key = { namespace: this.#namespace, name };
    await this.#untilAcknowledged(404, () => this.#cluster.delete(configMaps, key));
    this.#present.delete(name);
  }

  #data(): { count: string } {
    this.#count += 1;
    return { count: String(this.#count) };
  }

  async #untilAcknowledged(alreadyDone: number | undefined, write: () => Promise<unknown>): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await write();
        return;
      } catch (error) {
        if (attempt > 1 && error instanceof ApiError && error.code === alreadyDone) return;
        this.failed += 1;
        // A cluster that is away for good is the test's time limit's business, a wrong request is not.
        if (error instanceof ApiError && error.code < 429 && error.code !== 408 && error.code !== 403) throw error;
      }
      await sleep(100);
    }
  }
}
