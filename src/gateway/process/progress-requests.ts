import { type Logger, messageOf } from '../../core/index.ts';
import type { Informers } from '../informer/cache/informers.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';

export interface ProgressRequestsOptions {
  readonly location: Pick<RedisLocation, 'redis' | 'registryKey'>;
  readonly informers: () => Pick<Informers, 'all'>;
  readonly logger: Logger;
}

/**
 * Lets followers, which have no watch, ask the leader for an event that shows how current a view is (ADR 0004). The
 * request is a Redis message, which may be lost; a follower repeats it while it waits.
 */
export class ProgressRequests {
  readonly #options: ProgressRequestsOptions;
  readonly #channel: string;

  constructor(options: ProgressRequestsOptions) {
    this.#options = options;
    this.#channel = `${options.location.registryKey}:progress`;
  }

  /** Sends the request to the leader. Returns at once. */
  send(viewPrefix: string): void {
    const { redis } = this.#options.location;
    // A message that waited for Redis to come back would be too late.
    if (redis.status === 'ready') redis.publish(this.#channel, viewPrefix).catch(() => {});
  }

  /**
   * Listens for the requests of other gateways, on a connection of its own. Messages reach all gateways; a follower
   * ignores them, because it has taken no view.
   * @returns a function that closes the connection.
   */
  listen(): () => Promise<void> {
    const { location, informers, logger } = this.#options;
    const subscriber = location.redis.duplicate();
    subscriber.on('error', () => {});
    subscriber.on('message', (_: string, prefix: string) => {
      const asked = informers()
        .all()
        .find(({ isTaken, view }) => isTaken && view.location.prefix === prefix);
      asked?.requestProgress();
    });
    subscriber.subscribe(this.#channel).catch((error: unknown) => {
      logger.warn({ error: messageOf(error) }, 'requests of other gateways cannot be heard');
    });
    return async () => subscriber.disconnect();
  }
}
