import { type KubernetesObject, type Resource, resourcePath } from '../../src/core/index.ts';
import { lines } from '../../src/gateway/reflector/lines.ts';
import type { Cluster } from './cluster.ts';

export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED';

interface WatchLine<T> {
  type: ChangeType | 'BOOKMARK' | 'ERROR';
  object: T;
}

/** What the apiserver tells of a namespace's objects: each change, in order. Past our cache. */
export class ChangeWatch {
  readonly #stop = new AbortController();
  #reading: Promise<void> = Promise.resolve();
  #ended: { reason: unknown } | undefined;

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
    return watch;
  }

  /** @throws when the watch has ended by itself, so that something was not told. */
  check(): void {
    if (this.#ended) throw new Error('the watch has ended', { cause: this.#ended.reason });
  }

  /** @throws as `check` does. */
  async stop(): Promise<void> {
    this.check();
    this.#stop.abort();
    await this.#reading;
  }

  async #read(stream: Parameters<typeof lines>[0], tell: (line: string) => void): Promise<void> {
    try {
      for await (const batch of lines(stream)) {
        for (const line of batch) tell(line.toString('utf8'));
      }
      throw new Error('the apiserver closed it');
    } catch (reason) {
      if (!this.#stop.signal.aborted) this.#ended = { reason };
    }
  }
}
