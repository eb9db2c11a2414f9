import { type KubernetesObject, type Resource, resourcePath } from '../../src/core/index.ts';
import { lines } from '../../src/gateway/reflector/lines.ts';
import type { Cluster } from './cluster.ts';

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED';

interface WatchLine<T> {
  type: ChangeType | 'BOOKMARK' | 'ERROR';
  object: T;
}

/**
 * What the apiserver tells of a namespace's objects: each change, in order, past our cache. The apiserver closes a
 * watch that it finds slow, under load all of a resource at once; it is then opened again where it ended, so that none
 * is missed.
 */
export class ChangeWatch {
  readonly #stop = new AbortController();
  #reading: Promise<void> = Promise.resolve();
  #failed: { reason: unknown } | undefined;

  /** Tells of the objects that there are as added, and then of what becomes of them. */
  static async start<T extends KubernetesObject>(
    cluster: Cluster,
    of: Resource<T>,
    namespace: string,
    tell: (type: ChangeType, object: T) => void,
  ): Promise<ChangeWatch> {
    const watch = new ChangeWatch();
    const { items, metadata } = await cluster.list(of, namespace);
    for (const item of items) tell('ADDED', item);
    let { resourceVersion } = metadata;
    const { signal } = watch.#stop;
    const open = () =>
      cluster.client.stream({
        path: resourcePath(of, { namespace }),
        query: { watch: true, resourceVersion, allowWatchBookmarks: true },
        signal,
      });
    watch.#reading = watch.#read(open, (line) => {
      const { type, object } = JSON.parse(line) as WatchLine<T>;
      // 410 among them: what came between is lost.
      if (type === 'ERROR') throw new Error(`the watch ended: ${line}`);
      resourceVersion = object.metadata.resourceVersion;
      if (type !== 'BOOKMARK') tell(type, object);
    });
    return watch;
  }

  /** @throws when the watch could not go on, so that something was not told. */
  check(): void {
    if (this.#failed) throw new Error('the watch has failed', { cause: this.#failed.reason });
  }

  /** @throws as `check` does. */
  async stop(): Promise<void> {
    this.check();
    this.#stop.abort();
    await this.#reading;
  }

  async #read(open: () => Promise<Parameters<typeof lines>[0]>, tell: (line: string) => void): Promise<void> {
    try {
      while (!this.#stop.signal.aborted) {
        for await (const batch of lines(await open())) {
          for (const line of batch) tell(line.toString('utf8'));
        }
      }
    } catch (reason) {
      if (!this.#stop.signal.aborted) this.#failed = { reason };
    }
  }
}
