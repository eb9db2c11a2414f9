import { expect } from 'vitest';
import { type Cluster, configMaps } from './cluster.ts';
import { eventually } from './eventually.ts';
import type { Observer } from './observer.ts';

/** The ConfigMaps of one namespace, with what observers have seen of them. */
export class ObservedConfigMaps {
  readonly #cluster: Cluster;
  readonly #namespace: string;

  constructor(cluster: Cluster, namespace: string) {
    this.#cluster = cluster;
    this.#namespace = namespace;
  }

  create(name: string, group: string) {
    return this.#cluster.create(configMaps, { metadata: { namespace: this.#namespace, name }, data: { group } });
  }

  change(name: string, group: string) {
    return this.#cluster.patch(configMaps, { namespace: this.#namespace, name }, { data: { group } });
  }

  delete(name: string) {
    return this.#cluster.delete(configMaps, { namespace: this.#namespace, name });
  }

  /** Until each one has been reconciled, since the observer's `from`th run, at the version that the server has. */
  async untilSeen(observers: readonly Observer[], from = 0): Promise<void> {
    await eventually(async () => {
      const { items } = await this.#cluster.list(configMaps, this.#namespace);
      for (const observer of observers) {
        const seen = observer.seen({ from });
        for (const { metadata } of items) {
          const last = seen.findLast(({ key }) => key === `${this.#namespace}/${metadata.name}`);
          expect(last, metadata.name).toMatchObject({ uid: metadata.uid, resourceVersion: metadata.resourceVersion });
        }
      }
    });
  }

  /** Until the last run for it, since the observer's `from`th, has found it gone. */
  async untilSeenGone(observer: Observer, name: string, from = 0): Promise<void> {
    await eventually(async () => {
      const last = observer.seen({ from, key: `${this.#namespace}/${name}` }).at(-1);
      expect(last, name).toMatchObject({ resourceVersion: null });
    });
  }
}
