import type { ServerResponse } from 'node:http';
import { expect } from 'vitest';
import type { Trigger } from '../../src/contract/index.ts';
import { type Cluster, configMaps } from './cluster.ts';
import { eventually } from './eventually.ts';
import { machineMs } from './machine-clock.ts';
import { done, RawFunction } from './raw-function.ts';

/** How a held run ends. */
export interface HeldRun {
  /** Whether it ends at its deadline, as a function's runs do at the latest. Default: at `release` alone. */
  readonly untilDeadline?: boolean;
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
  /** The most runs of one key at a time so far. A run that lasts until its deadline is over then, on any machine. */
  most = 0;
  readonly #function: RawFunction;
  readonly #cluster: Cluster;
  readonly #namespace: string;
  readonly #held = new Map<string, HeldRun>();
  /** Held runs at work: how to end each, and when it is over by itself. */
  readonly #working = new Map<string, { readonly end: () => void; readonly endsAtMs: number }>();

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
    for (const { end } of this.#working.values()) end();
    await this.#function.close();
  }

  /** Changes an object, and holds its next run; resolves once that has begun. */
  async hold(name: string, run: HeldRun = {}): Promise<void> {
    this.#held.set(name, run);
    await this.change(name);
    await eventually(async () => expect(this.#held.has(name)).toBe(false));
  }

  /** Ends a held run. */
  release(name: string): void {
    this.#working.get(name)?.end();
  }

  isWorking(name: string): boolean {
    return Date.now() < (this.#working.get(name)?.endsAtMs ?? 0);
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

  #run({ requests, deadline }: Trigger, response: ServerResponse): void {
    const { name = '' } = requests[0] ?? {};
    this.begun.push(name);
    this.begunAtMs.push(Date.now());
    this.most = Math.max(this.most, this.isWorking(name) ? 2 : 1);
    const held = this.#held.get(name);
    if (!held) return done(response, response.req);
    this.#held.delete(name);
    if (held.isCutOff) response.destroy();
    const endsAtMs = held.untilDeadline ? Date.parse(deadline) : Infinity;
    this.#working.set(name, {
      endsAtMs,
      end: () => {
        this.#working.delete(name);
        if (!response.destroyed) done(response, response.req);
      },
    });
  }
}
