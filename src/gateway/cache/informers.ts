import { type Clock, formatKind, type Logger, type Metrics, type Resource } from '../../core/index.ts';
import { viewPrefix } from '../../contract/index.ts';
import type { ApiClient } from '../apiserver/api-client.ts';
import { Informer } from './informer.ts';
import type { Redis } from './redis.ts';
import type { Enqueue } from './relay.ts';
import { View } from './view.ts';

export interface InformersOptions {
  readonly client: ApiClient;
  readonly redis: Redis;
  readonly keyPrefix: string;
  readonly clusterId: string;
  readonly enqueue: Enqueue;
  readonly term: string;
  readonly onForeignTerm: (view: View) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** What of a resource a view holds; part of its keys. One setting so far: everything, without managedFields. */
const VIEW_SETTINGS = 'all';

/** The gateway's informers: one for each resource, started when the first controller needs it. */
export class Informers {
  readonly #options: InformersOptions;
  readonly #byName = new Map<string, Informer>();
  readonly #starting = new Map<string, Promise<Informer>>();

  constructor(options: InformersOptions) {
    this.#options = options;
  }

  all(): Informer[] {
    return [...this.#byName.values()];
  }

  /** The informer of this resource. Two that ask at the same time get the same one. */
  ensure(resource: Resource): Promise<Informer> {
    const name = formatKind(resource);
    let starting = this.#starting.get(name);
    if (!starting) {
      starting = this.#start(name, resource);
      this.#starting.set(name, starting);
    }
    return starting;
  }

  async stop(): Promise<void> {
    await Promise.all(this.all().map((informer) => informer.stop()));
  }

  /** Undefined when every view is complete, else which are not. */
  trouble(): string | undefined {
    const waiting = this.all().filter((informer) => !informer.synced);
    return waiting.length === 0 ? undefined : `not complete: ${waiting.map(({ name }) => name).join(', ')}`;
  }

  async #start(name: string, resource: Resource): Promise<Informer> {
    const { redis, keyPrefix, clusterId } = this.#options;
    const prefix = viewPrefix({ keyPrefix, clusterId, resource, settings: VIEW_SETTINGS });
    const informer = new Informer({ ...this.#options, resource, view: new View(redis, resource, prefix) });
    this.#byName.set(name, informer);
    await informer.start();
    return informer;
  }
}
