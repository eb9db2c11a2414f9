import { resourcePath } from '../../src/core/index.ts';
import { lines } from '../../src/gateway/reflector/lines.ts';
import { type Cluster, pods } from './cluster.ts';

/** Counts the pods of one label value as the apiserver's watch tells of them: none comes and goes unseen. */
export class PodWatch {
  /** Pods that exist. */
  readonly names = new Set<string>();
  /** The most that there were at one moment. */
  most = 0;
  readonly #stop = new AbortController();
  #reading: Promise<void> = Promise.resolve();

  static async start(cluster: Cluster, namespace: string, app: string): Promise<PodWatch> {
    const watch = new PodWatch();
    const { metadata } = await cluster.list(pods, namespace, `app=${app}`);
    const query = { labelSelector: `app=${app}`, watch: true, resourceVersion: metadata.resourceVersion };
    const stream = await cluster.client.stream({
      path: resourcePath(pods, { namespace }),
      query,
      signal: watch.#stop.signal,
    });
    watch.#reading = watch.#read(stream);
    return watch;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#reading;
  }

  async #read(stream: Parameters<typeof lines>[0]): Promise<void> {
    try {
      for await (const batch of lines(stream)) {
        for (const line of batch) {
          const { type, object } = JSON.parse(line.toString('utf8')) as {
            type: string;
            object: { metadata: { name: string } };
          };
          if (type === 'ADDED') this.names.add(object.metadata.name);
          else if (type === 'DELETED') this.names.delete(object.metadata.name);
          else if (type === 'ERROR') throw new Error(`the watch ended: ${line.toString('utf8')}`);
          this.most = Math.max(this.most, this.names.size);
        }
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
  }
}
