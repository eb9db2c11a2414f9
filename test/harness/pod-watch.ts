import { ChangeWatch } from './change-watch.ts';
import { type Cluster, pods } from './cluster.ts';

/** Counts the pods of one label value as the apiserver tells of them: none comes and goes unseen. */
export class PodWatch {
  /** Pods that exist. */
  readonly names = new Set<string>();
  /** The most that there were at one moment. */
  most = 0;
  readonly #changes: ChangeWatch;

  private constructor(changes: ChangeWatch) {
    this.#changes = changes;
  }

  static async start(cluster: Cluster, namespace: string, app: string): Promise<PodWatch> {
    const watch: PodWatch = new PodWatch(
      await ChangeWatch.start(cluster, pods, namespace, (type, { metadata }) => {
        if (metadata.labels?.['app'] !== app) return;
        if (type === 'DELETED') watch.names.delete(metadata.name);
        else watch.names.add(metadata.name);
        watch.most = Math.max(watch.most, watch.names.size);
      }),
    );
    return watch;
  }

  stop(): Promise<void> {
    return this.#changes.stop();
  }
}
