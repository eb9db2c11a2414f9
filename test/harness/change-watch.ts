import { compareResourceVersions, type KubernetesObject, type Resource, resourcePath } from '../../src/core/index.ts';
import { lines } from '../../src/gateway/informer/reflector/lines.ts';
import type { Cluster, ListOf } from './cluster.ts';
import { eventually } from './eventually.ts';

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
  readonly #list: () => Promise<ListOf<KubernetesObject>>;
  /** Of each object what was told last, by name. */
  readonly #told = new Map<string, { readonly version: string; readonly isThere: boolean }>();
  #reading: Promise<void> = Promise.resolve();
  #failed: { reason: unknown } | undefined;

  /** Tells of the objects that there are as added, and then of what becomes of them. */
  static async start<T extends KubernetesObject>(
    cluster: Cluster,
    of: Resource<T>,
    namespace: string,
    tell: (type: ChangeType, object: T) => void,
  ): Promise<ChangeWatch> {
    const watch = new ChangeWatch(() => cluster.list(of, namespace));
    const { items, metadata } = await cluster.list(of, namespace);
    const change = (type: ChangeType, object: T): void => {
      const { name, resourceVersion: version } = object.metadata;
      watch.#told.set(name, { version, isThere: type !== 'DELETED' });
      tell(type, object);
    };
    for (const item of items) change('ADDED', item);
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
      if (type !== 'BOOKMARK') change(type, object);
    });
    return watch;
  }

  private constructor(list: () => Promise<ListOf<KubernetesObject>>) {
    this.#list = list;
  }

  /** Until all has been told that was written before: a watch may be seconds behind the server. */
  async untilCurrent(limitMs: number): Promise<void> {
    const { items, metadata } = await this.#list();
    const listed = new Map(items.map((item) => [item.metadata.name, item.metadata.resourceVersion]));
    const isBehind = (name: string): boolean => {
      const [has, told] = [listed.get(name), this.#told.get(name)];
      if (has === undefined) return told?.isThere === true && !isOlder(metadata.resourceVersion, told.version);
      return told === undefined || isOlder(told.version, has);
    };
    const behind = (): string[] => [...new Set([...listed.keys(), ...this.#told.keys()])].filter(isBehind);
    await eventually(
      async () => {
        this.check();
        if (behind().length > 0) throw new Error(`the watch has not told of the last versions of ${behind().join()}`);
      },
      limitMs,
      20,
    );
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

const isOlder = (a: string, b: string): boolean => compareResourceVersions(a, b) < 0;
