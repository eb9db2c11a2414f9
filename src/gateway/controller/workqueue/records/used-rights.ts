import type { Clock } from '../../../../core/index.ts';
import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import type { QueueKeys } from '../queue-keys.ts';

/** A right as RBAC names it, and when it was used last. */
export interface UsedRight {
  readonly verb: string;
  /** `apps/deployments/status`; without a slash in front for the core group: `configmaps`. */
  readonly resource: string;
  readonly atMs: number;
}

/** A right in use is recorded again after this time. */
const AGAIN_MS = 600_000;
/** Of one controller, some 60 bytes each. */
const MOST_RIGHTS = 500;

/** The rights that a function has used, of which the gateway passes on all requests to the apiserver. */
export class UsedRights {
  readonly #redis: Redis;
  readonly #keys: Pick<QueueKeys, 'queue' | 'rights'>;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #use: Script;
  readonly #noted = new Map<string, number>();

  constructor(redis: Redis, keys: Pick<QueueKeys, 'queue' | 'rights'>, clock: Pick<Clock, 'now'>) {
    this.#redis = redis;
    this.#keys = keys;
    this.#clock = clock;
    this.#use = loadScript(redis, import.meta.url, 'use-right');
  }

  /** Records a use, some minutes later at most. Never waits, and never fails. */
  note(verb: string, resource: string): void {
    const right = `${verb} ${resource}`;
    const nowMs = this.#clock.now();
    const noted = this.#noted.get(right);
    if (noted !== undefined && nowMs - noted < AGAIN_MS) return;
    if (noted === undefined && this.#noted.size >= MOST_RIGHTS) return;
    this.#noted.set(right, nowMs);
    // A use that was not recorded is recorded with the next one.
    this.#use([this.#keys.queue, this.#keys.rights], [right, nowMs, MOST_RIGHTS]).catch(() =>
      this.#noted.delete(right),
    );
  }

  /** In no order. */
  async all(): Promise<UsedRight[]> {
    return Object.entries(await this.#redis.hgetall(this.#keys.rights)).map(([right, at]) => {
      const [verb = '', resource = ''] = right.split(' ');
      return { verb, resource, atMs: Number(at) };
    });
  }
}
