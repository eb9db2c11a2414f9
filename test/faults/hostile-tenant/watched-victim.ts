import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Cluster, configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import type { Listening, Setting } from '../../harness/levelhook.ts';
import { type Observer, startObserver } from '../../harness/observer.ts';
import type { Started } from '../../harness/started.ts';
import { Monitor, SEEN_WITHIN_MS } from './monitor.ts';
import { CONFIG_LABEL, createVictimObjects, newCanary, secrets } from './victim.ts';

/**
 * A function that a gateway is configured with, over the objects of one namespace, for tests that attack the gateway in
 * another way than a tenant of its cluster can.
 */
export class WatchedVictim {
  readonly namespace: string;
  readonly canary: string;
  /** Settings of its gateway: it has Secrets. */
  readonly variables = { LEVELHOOK_CACHE_KEYS: `test:${Buffer.alloc(32, 7).toString('base64')}` };
  readonly #kubeconfig: string;
  readonly #started: Started;
  readonly #observer: Observer;
  #monitor: Monitor | undefined;

  private constructor(of: {
    namespace: string;
    canary: string;
    kubeconfig: string;
    started: Started;
    observer: Observer;
  }) {
    this.namespace = of.namespace;
    this.canary = of.canary;
    this.#kubeconfig = of.kubeconfig;
    this.#started = of.started;
    this.#observer = of.observer;
  }

  /** Creates its objects, and starts its function: before the gateway. The namespace must be there. */
  static async start(
    started: Started,
    setting: Setting,
    { cluster, namespace }: { readonly cluster: Cluster; readonly namespace: string },
  ): Promise<WatchedVictim> {
    const canary = newCanary();
    await createVictimObjects(cluster, namespace, canary);
    const of = <T extends object>(source: T) => ({ ...source, namespaces: [namespace] });
    const observer = started.keep(
      await startObserver(setting, {
        name: 'victim',
        for: of({ resource: configMaps }),
        owns: [of({ resource: pods })],
        watches: [of({ resource: secrets, map: { by: 'label', label: CONFIG_LABEL } as const })],
        timeoutSeconds: 5,
      }),
    );
    return new WatchedVictim({ namespace, canary, kubeconfig: setting.kubeconfig, started, observer });
  }

  /** Of its function. */
  get url(): string {
    return this.#observer.url;
  }

  /** Changes its objects from now on, until the test ends. */
  async watch(gateway: Listening): Promise<void> {
    const monitor = Monitor.start(this.#kubeconfig, this, [this.#observer], gateway);
    this.#monitor = this.#started.keep(monitor);
    await eventually(async () => expect(monitor.findings().seen).toBeGreaterThan(5));
  }

  /**
   * Does the work, and waits until the victim's function must have seen the last change. Fails if the work slowed the
   * victim down.
   */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const monitor = this.#monitor;
    if (!monitor) throw new Error('the victim is not watched yet');
    const sinceMs = Date.now();
    const result = await work();
    await sleep(SEEN_WITHIN_MS);
    const { violations, seen, polls, slowestMs, slowestPollMs, slowdown } = monitor.findings(sinceMs);
    const figures =
      `victim: ${seen} changes seen within ${slowestMs} ms, ${polls} polls of /livez within ${slowestPollMs} ms, ` +
      `processors slower by ${slowdown.toFixed(1)} at most`;
    process.stdout.write(`${figures}\n`);
    expect(violations, figures).toEqual([]);
    expect(Math.min(seen, polls), figures).toBeGreaterThan(0);
    return result;
  }
}
