import { ChangeWatch } from './change-watch.ts';
import { type Cluster, pods } from './cluster.ts';

/** Counts the pods with one value of the label `app`. The apiserver tells it of each, so it misses none. */
export class PodWatch {
  /** Pods that exist. */
  readonly names = new Set<string>();
  /** The most that there were at one moment. */
  most = 0;
  #changes: ChangeWatch | undefined;

  static async start(cluster: Cluster, namespace: string, app: string): Promise<PodWatch> {
    const watch = new PodWatch();
    watch.#changes = await ChangeWatch.start(cluster, pods, namespace, (type, { metadata }) => {
      if (metadata.labels?.['app'] !== app) return;
      if (type === 'DELETED') watch.names.delete(metadata.name);
      else watch.names.add(metadata.name);
      watch.most = Math.max(watch.most, watch.names.size);
    });
    return watch;
  }

  async stop(): Promise<void> {
    await this.#changes?.stop();
  }
}
