import { type Clock, TokenBucket } from '../../../../core/index.ts';
import type { GatewayRuns } from '../records/own-runs.ts';

/**
 * Runs that one tenant may begin in this gateway, at once and each second. A run takes some 0.2 ms of the thread and
 * 0.05 ms of Redis.
 */
const TENANT = { burst: 2000, perSecond: 1000 };
/** The same of all tenants together. */
const TOGETHER = { burst: 4000, perSecond: 2000 };
/** Each tenant's reserved rate, for when all tenants together have used up theirs. */
const RESERVED = { burst: 50, perSecond: 50 };

/**
 * Runs in flight here: of one tenant, of all together, and reserved for each tenant when all have used up theirs. A run
 * that its function does not answer holds a connection and 15 KiB or more until its deadline, which may be after 15
 * minutes, and some machines give a process 20,000 connections in all.
 */
const IN_FLIGHT = { ofTenant: 2000, together: 6000, reserved: 50 };

/**
 * The same of runs that go on here without a connection: accepted runs, for up to a day, and runs of unknown outcome.
 * The gateway remembers each in some 260 bytes, and its queue has them in Redis.
 */
const GOING_ON = { ofTenant: 20_000, together: 100_000, reserved: 500 };

/** How many runs of one tenant may begin. */
export interface StartRate {
  /** At this moment; below 1: none. */
  readonly room: () => number;
  /** Counts runs that have begun. */
  readonly take: (count: number) => void;
  /** Counts runs that are in flight from now on, or that Redis is asked to start. */
  readonly begin: (count: number) => void;
  /** Counts runs that are in flight no longer. */
  readonly end: (count: number) => void;
  /** Why no run may begin until one has ended, for people; undefined: one may. */
  readonly fullReason: () => string | undefined;
}

/** For a controller whose runs may begin as fast as they come. */
export const ANY_RATE: StartRate = {
  room: () => Infinity,
  take: () => {},
  begin: () => {},
  end: () => {},
  fullReason: () => undefined,
};

interface Buckets {
  readonly own: TokenBucket;
  readonly reserved: TokenBucket;
}

/**
 * How many runs tenants may begin and have in flight in this process: one bound for each, whatever the number of its
 * controllers, and one for all of them. Keys beyond it wait in their queues, so a tenant whose keys run again and
 * again, or whose functions do not answer, slows down itself.
 */
export class StartRates {
  readonly #now: () => number;
  readonly #runs: GoingOn;
  readonly #together: TokenBucket;
  readonly #tenants = new Map<string, Buckets>();
  /** Runs in flight, by tenant. */
  readonly #inFlight = new Map<string, number>();
  #allInFlight = 0;

  constructor(clock: Pick<Clock, 'now'>, runs: GoingOn) {
    this.#now = () => clock.now();
    this.#runs = runs;
    this.#together = new TokenBucket(TOGETHER, this.#now);
  }

  of(tenant: string): StartRate {
    return {
      room: () => {
        const { own, reserved } = this.#bucketsOf(tenant);
        const startable = Math.min(own.tokens, Math.max(this.#together.tokens, reserved.tokens));
        return Math.min(startable, this.#inFlightRoom(tenant), this.#goingOnRoom(tenant));
      },
      take: (count) => {
        if (count === 0) return;
        const { own, reserved } = this.#bucketsOf(tenant);
        own.spend(count);
        (this.#together.tokens >= count ? this.#together : reserved).spend(count);
      },
      begin: (count) => {
        this.#allInFlight += count;
        this.#inFlight.set(tenant, (this.#inFlight.get(tenant) ?? 0) + count);
      },
      end: (count) => {
        this.#allInFlight -= count;
        const left = (this.#inFlight.get(tenant) ?? 0) - count;
        if (left > 0) this.#inFlight.set(tenant, left);
        else this.#inFlight.delete(tenant);
      },
      fullReason: () => {
        if (this.#inFlightRoom(tenant) < 1) return fullOf('in flight', IN_FLIGHT);
        return this.#goingOnRoom(tenant) < 1 ? fullOf('that go on after their answer', GOING_ON) : undefined;
      },
    };
  }

  #inFlightRoom(tenant: string): number {
    return roomOf(IN_FLIGHT, this.#inFlight.get(tenant) ?? 0, this.#allInFlight);
  }

  #goingOnRoom(tenant: string): number {
    return roomOf(GOING_ON, this.#runs.goingOn(tenant), this.#runs.goingOn());
  }

  #bucketsOf(tenant: string): Buckets {
    const known = this.#tenants.get(tenant);
    if (known) return known;
    // Full buckets equal new ones, so they are not kept.
    for (const [name, { own, reserved }] of this.#tenants) {
      if (own.isFull && reserved.isFull) this.#tenants.delete(name);
    }
    const buckets = { own: new TokenBucket(TENANT, this.#now), reserved: new TokenBucket(RESERVED, this.#now) };
    this.#tenants.set(tenant, buckets);
    return buckets;
  }
}

/** The runs of `GatewayRuns`. */
type GoingOn = Pick<GatewayRuns, 'goingOn'>;

type Bound = typeof IN_FLIGHT;

function roomOf({ ofTenant, together, reserved }: Bound, own: number, all: number): number {
  return Math.min(ofTenant - own, Math.max(together - all, reserved - own));
}

function fullOf(runs: string, { ofTenant, together }: Bound): string {
  return `this gateway has as many runs ${runs} as it may, ${ofTenant} of a namespace and ${together} in all: keys wait until some end`;
}
