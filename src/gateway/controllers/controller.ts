import { createHash } from 'node:crypto';
import { type Clock, formatKind, type Logger, type Metrics, type Resource } from '../../core/index.ts';
import type { Description } from '../../contract/index.ts';
import type { Informer } from '../cache/informer.ts';
import { Dispatcher } from '../dispatch/dispatcher.ts';
import type { Endpoint } from '../dispatch/endpoint.ts';
import { enqueueControllerOwner, enqueueObject } from '../handlers/event-handler.ts';
import type { BullMqWorkQueue } from '../workqueue/bullmq-work-queue.ts';

export interface ControllerOptions {
  readonly description: Description;
  /** The kind `for`, as the cluster serves it. */
  readonly resource: Resource;
  /** Of every kind that the description names, the one of `for` first. */
  readonly informers: readonly Informer[];
  readonly queue: BullMqWorkQueue;
  readonly endpoint: Endpoint;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly logTriggers: boolean;
}

/** One controller in the gateway: from the events of its informers, through its queue, to its function. */
export class Controller {
  readonly name: string;
  readonly queue: BullMqWorkQueue;
  readonly timeoutMs: number;
  readonly #options: ControllerOptions;

  constructor(options: ControllerOptions) {
    const { description, metrics, queue } = options;
    this.#options = options;
    this.name = description.name;
    this.queue = queue;
    this.timeoutMs = description.timeoutSeconds * 1000;
    const labels = { controller: this.name };
    metrics.set('controller_runtime_max_concurrent_reconciles', labels, description.concurrency);
  }

  /** From now on the informers' events wake this controller's keys. */
  addHandlers(): void {
    const { description, informers, resource } = this.#options;
    const informerOf = new Map(informers.map((informer) => [informer.name, informer]));
    informerOf.get(formatKind(resource))?.addHandler(this.name, enqueueObject(this.name, resource));
    for (const kind of description.owns) {
      const handler = enqueueControllerOwner(this.name, kind, resource);
      informerOf.get(formatKind(kind))?.addHandler(`${this.name} owns`, handler);
    }
  }

  async waitForSync(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#options.informers.map((informer) => informer.waitForSync(signal)));
  }

  /** Starts to run keys. The queue may be paused; then it runs none yet. */
  async start(): Promise<void> {
    const { clock, endpoint, informers, logger, logTriggers, metrics } = this.#options;
    const views = informers.map((informer) => ({
      view: informer.view,
      currentVersion: () => informer.currentVersion(),
      requestProgress: () => informer.requestProgress(),
    }));
    await this.queue.start(
      new Dispatcher({ controller: this.name, endpoint, views, clock, logger, metrics, logTriggers }),
    );
  }

  async stop(drainMs: number): Promise<void> {
    await this.queue.stop(drainMs);
    await this.#options.endpoint.close();
  }

  /**
   * Queues all keys once, at low priority, unless that was done for the same declaration, the same filling of the views
   * and the same queue. A new controller, a changed one, a restored etcd and lost data in Redis all end up here.
   */
  async ensureInitial(): Promise<void> {
    const { informers, logger } = this.#options;
    const { incarnation, initial } = await this.queue.state();
    const views = await Promise.all(informers.map((informer) => informer.view.state()));
    const wanted = this.#initialHash([incarnation, ...views.map((view) => view.incarnation)]);
    if (wanted === undefined || wanted === initial) return;
    let count = 0;
    for await (const keys of informers[0]?.view.keys() ?? []) {
      await this.queue.addLow(keys);
      count += keys.length;
    }
    await this.queue.setInitial(wanted);
    logger.info({ controller: this.name, keys: count }, 'queued all keys');
  }

  /** Undefined while something it depends on has no incarnation yet. */
  #initialHash(incarnations: readonly (string | undefined)[]): string | undefined {
    if (incarnations.includes(undefined)) return undefined;
    const { name, for: reconciled, owns, reads } = this.#options.description;
    const text = JSON.stringify([name, reconciled, owns, reads, incarnations]);
    return createHash('sha256').update(text).digest('hex').slice(0, 32);
  }
}
