import type { ServerResponse } from 'node:http';
import { expect } from 'vitest';
import type { Trigger } from '../../src/contract/index.ts';
import { type Cluster, configMaps } from './cluster.ts';
import { eventually } from './eventually.ts';
import { machineMs } from './machine-clock.ts';
import { done, RawFunction } from './raw-function.ts';

/** How a held run ends. */
export interface HeldRun {
  /** Its own time, in milliseconds. Default: until `release`. */
  readonly forMs?: number;
  /** Whether its caller's connection is broken off at its begin, so that it hears of no end. Default false. */
  readonly isCutOff?: boolean;
}

/**
 * A function over the ConfigMaps of one namespace that answers at once, but for runs that the test holds: so a run is
 * in flight for as long as a fault needs it.
 */
export class HeldRuns {
  readonly name: string;
  /** The keys whose runs began, in order. */
  readonly begun: string[] = [];
  /** When each began, on the wall clock of this machine, which the logs of its gateways have as well. */
  readonly begunAtMs: number[] = [];
  /** The most runs of one key at a time so far. */
  most = 0;
  readonly #function: RawFunction;
  readonly #cluster: Cluster;
  readonly #namespace: string;
  readonly #held = new Map<string, HeldRun>();
  /** Held runs at work: how to end each. */
  readonly #working = new Map<string, () => void>();

  constructor(name: string, cluster: Cluster, namespace: string, timeoutSeconds: number) {
    this.name = name;
    this.#cluster = cluster;
    this.#namespace = namespace;
    const { apiVersion, kind } = configMaps;
    const source = { apiVersion, kind, namespaces: [namespace] };
    this.#function = new RawFunction({ name, for: source, concurrency: 10, timeoutSeconds });
    this.#function.onTrigger = (trigger, response) => this.#run(trigger, response);
  }

  get url(): string {
    return this.#function.url;
  }

  open(): Promise<void> {
    return this.#function.open();
  }

  async close(): Promise<void> {
    for (const end of this.#working.values()) end();
    await this.#function.close();
  }

  /** Changes an object, and holds its next run; resolves once that has begun. */
  async hold(name: string, run: HeldRun = {}): Promise<void> {
    this.#held.set(name, run);
    await this.change(name);
    await eventually(async () => expect(this.isWorking(name)).toBe(true));
  }

  /** Ends a held run. */
  release(name: string): void {
    this.#working.get(name)?.();
  }

  isWorking(name: string): boolean {
    return this.#working.has(name);
  }

  async change(name: string): Promise<void> {
    await this.#cluster.patch(configMaps, { namespace: this.#namespace, name }, { data: { at: String(machineMs()) } });
  }

  /** Until each of these keys has begun to run, since the `from`th run of all. */
  async untilBegun(from: number, names: readonly string[]): Promise<void> {
    await eventually(
      async () => expect(names.filter((name) => !this.begun.includes(name, from))).toEqual([]),
      60_000,
      10,
    );
  }

  #run({ requests }: Trigger, response: ServerResponse): void {
    const { name = '' } = requests[0] ?? {};
    this.begun.push(name);
    this.begunAtMs.push(Date.now());
    this.most = Math.max(this.most, this.#working.has(name) ? 2 : 1);
    const held = this.#held.get(name);
    if (!held) return done(response, response.req);
    this.#held.delete(name);
    if (held.isCutOff) response.destroy();
    const timer = held.forMs === undefined ? undefined : setTimeout(() => this.release(name), held.forMs);
    this.#working.set(name, () => {
      clearTimeout(timer);
      this.#working.delete(name);
      if (!response.destroyed) done(response, response.req);
    });
  }
}
