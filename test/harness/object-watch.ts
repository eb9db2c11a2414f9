import { type KubernetesObject, type Resource, resourcePath } from '../../src/core/index.ts';
import { lines } from '../../src/gateway/reflector/lines.ts';
import type { Cluster } from './cluster.ts';

interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'ERROR';
  readonly object: T;
}

/** The objects of a namespace as the apiserver's watch tells of them: no moment between two writes goes unseen. */
export class ObjectWatch<T extends KubernetesObject> {
  readonly #stop = new AbortController();
  readonly #objects = new Map<string, T>();
  #reading: Promise<void> = Promise.resolve();

  /** Calls `look` with all objects that there are after each event. What it throws, `stop` rejects with. */
  static async start<T extends KubernetesObject>(
    cluster: Cluster,
    resource: Resource<T>,
    namespace: string,
    look: (objects: readonly T[]) => void,
  ): Promise<ObjectWatch<T>> {
    const watch = new ObjectWatch<T>();
    const { items, metadata } = await cluster.list(resource, namespace);
    for (const item of items) watch.#objects.set(item.metadata.name, item);
    const stream = await cluster.client.stream({
      path: resourcePath(resource, { namespace }),
      query: { watch: true, resourceVersion: metadata.resourceVersion },
      signal: watch.#stop.signal,
    });
    watch.#reading = watch.#read(stream, look);
    // Looked at when it is stopped; until then it is no unhandled rejection.
    watch.#reading.catch(() => {});
    return watch;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#reading;
  }

  async #read(stream: Parameters<typeof lines>[0], look: (objects: readonly T[]) => void): Promise<void> {
    try {
      for await (const batch of lines(stream)) {
        for (const line of batch) {
          const { type, object } = JSON.parse(line.toString('utf8')) as WatchEvent<T>;
          if (type === 'ERROR') throw new Error(`the watch ended: ${line.toString('utf8')}`);
          if (type === 'DELETED') this.#objects.delete(object.metadata.name);
          else this.#objects.set(object.metadata.name, object);
          look([...this.#objects.values()]);
        }
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
  }
}
