import { type KubernetesObject, type Resource, resourcePath } from '../../src/core/index.ts';
import { lines } from '../../src/gateway/reflector/lines.ts';
import type { Cluster } from './cluster.ts';

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED';

interface WatchLine<T> {
  type: ChangeType | 'BOOKMARK' | 'ERROR';
  object: T;
}

/** What the apiserver tells of a namespace's objects: each change, in order. Past our cache. */
export class ObjectWatch {
  readonly #stop = new AbortController();
  #reading: Promise<void> = Promise.resolve();

  /** Tells of the objects that there are as added, and then of what becomes of them. */
  static async start<T extends KubernetesObject>(
    cluster: Cluster,
    of: Resource<T>,
    namespace: string,
    tell: (type: ChangeType, object: T) => void,
  ): Promise<ObjectWatch> {
    const watch = new ObjectWatch();
    const { items, metadata } = await cluster.list(of, namespace);
    for (const item of items) tell('ADDED', item);
    const stream = await cluster.client.stream({
      path: resourcePath(of, { namespace }),
      query: { watch: true, resourceVersion: metadata.resourceVersion },
      signal: watch.#stop.signal,
    });
    watch.#reading = watch.#read(stream, (line) => {
      const { type, object } = JSON.parse(line) as WatchLine<T>;
      if (type === 'ERROR') throw new Error(`the watch ended: ${line}`);
      if (type !== 'BOOKMARK') tell(type, object);
    });
    // Whoever stops it hears of the failure; until then nobody waits for it.
    watch.#reading.catch(() => {});
    return watch;
  }

  /** @throws what ended the watch before: then something was not told. */
  async stop(): Promise<void> {
    const endedBefore = await Promise.race([this.#reading.then(() => true), Promise.resolve(false)]);
    this.#stop.abort();
    await this.#reading;
    if (endedBefore) throw new Error('the apiserver ended the watch');
  }

  async #read(stream: Parameters<typeof lines>[0], tell: (line: string) => void): Promise<void> {
    try {
      for await (const batch of lines(stream)) {
        for (const line of batch) tell(line.toString('utf8'));
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
  }
}
