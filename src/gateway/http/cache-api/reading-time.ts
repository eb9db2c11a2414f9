import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, tenantOf, TenantTurns, TokenBucket } from '../../../core/index.ts';
import { SLICE_MS, threadMs, TimeSlice } from '../../../ground/time-slice.ts';
import { tooManyRequests } from './kubernetes-status.ts';

/**
 * Milliseconds of the thread that the readers of a tenant may take, by the second and at once. To parse 1,000 pods of
 * 2.6 KB takes some 20 ms, so a function may select its pods among them many times a second.
 */
const RATE = { perSecond: 500, burst: 2000 };
/**
 * The same for all readers together: many tenants that read all the time leave the thread to events and runs. It never
 * slows a tenant that reads alone.
 */
const RATE_OF_ALL = { perSecond: 700, burst: 2 * RATE.burst };
/**
 * For a body that is sent or received: measured 2.0 to 2.1 for an answer that is streamed, by https from the apiserver
 * and by http or https to the caller.
 */
const MS_PER_MIB = 2;
/** Reads of a tenant that are under way together, because each has objects in memory while it waits. */
const AT_ONCE = 8;
/** Readers that are remembered before those that have all of their time are forgotten. */
const MOST_BUCKETS = 1000;

/**
 * Shares the thread's time among the readers of the cache API, the dashboard and the write proxy. A read costs the
 * objects that it has to look at and their bytes, also where it selects none of them, so neither its answer nor the
 * number of requests bounds it. Each gateway process counts for itself.
 */
export class ReadingTimes {
  readonly clock: Clock;
  readonly places = new TenantTurns(Infinity, AT_ONCE);
  readonly #turns = new TenantTurns(1);
  readonly #buckets = new Map<string, TokenBucket>();
  readonly #all: TokenBucket;
  /** Of all readers in the present turn of the event loop. */
  #inTurnMs = 0;
  /** Processor time of the thread when the first of them began. */
  #fromMs = 0;

  constructor(clock: Clock) {
    this.clock = clock;
    this.#all = new TokenBucket(RATE_OF_ALL, () => clock.now());
  }

  /** For one request. @param reader a controller's id, or the name of a person. */
  for(reader: string): ReadingTime {
    return this.#of(tenantOf(reader));
  }

  /** For one request of a visitor of the dashboard. @param client who pays: see `Identity`. */
  ofVisitor(client: string): ReadingTime {
    // No tenant has a space in its name.
    return this.#of(`visitor ${client}`);
  }

  #of(tenant: string): ReadingTime {
    let bucket = this.#buckets.get(tenant);
    if (!bucket) {
      // A bucket that is full is as good as a new one.
      if (this.#buckets.size >= MOST_BUCKETS)
        for (const [name, each] of this.#buckets) if (each.tokens >= RATE.burst) this.#buckets.delete(name);
      bucket = new TokenBucket(RATE, () => this.clock.now());
      this.#buckets.set(tenant, bucket);
    }
    return new ReadingTime(this, tenant, bucket);
  }

  /** Whether readers must wait for another turn of the event loop. */
  get isTurnOver(): boolean {
    return this.#inTurnMs > SLICE_MS || this.#all.tokens < -SLICE_MS;
  }

  /**
   * Resolves in a turn of the event loop that no other reader has yet, and when all readers together have time. The
   * tenants follow one another.
   */
  nextTurn(tenant: string): Promise<void> {
    return this.#turns.run(tenant, async () => {
      const { waitMs } = this.#all;
      if (waitMs > 0) await this.clock.sleep(waitMs);
      // The turn after the last reader's may begin before its time is set back.
      do await nextTurn();
      while (this.#inTurnMs > SLICE_MS);
    });
  }

  /** Runs synchronous work. @param onEnd is given the time that it took, and the time that was spent for it before. */
  measure<T>(work: () => T, spentMs: number, onEnd: (ms: number) => void): T {
    if (this.#inTurnMs === 0) {
      this.#fromMs = threadMs();
      setImmediate(() => (this.#inTurnMs = 0));
    }
    const from = performance.now();
    try {
      return work();
    } finally {
      const byClockMs = performance.now() - from;
      // Others may have had the processor. To ask for processor time costs more than to read most objects.
      const ownMs = byClockMs > SLICE_MS ? Math.min(byClockMs, threadMs() - this.#fromMs) : byClockMs;
      const ms = ownMs + spentMs;
      this.#inTurnMs += ms;
      this.#all.spend(ms);
      onEnd(ms);
    }
  }
}

/** The thread's time of one request. Its tenant pays for it. */
export class ReadingTime {
  readonly #times: ReadingTimes;
  readonly tenant: string;
  readonly #bucket: TokenBucket;
  readonly #slice: TimeSlice;
  /** Of the last object, which cannot be divided. */
  #longMs = 0;

  constructor(times: ReadingTimes, tenant: string, bucket: TokenBucket) {
    this.#times = times;
    this.tenant = tenant;
    this.#bucket = bucket;
    this.#slice = new TimeSlice(tenant);
  }

  /** @throws StatusError 429 while the tenant has used up its time. */
  check(): void {
    if (this.#bucket.waitMs === 0) return;
    throw tooManyRequests(
      'The reads of this namespace take too much of the processor: select by namespace, name or index, then ask again.',
    );
  }

  /** Runs work when few others of the tenant are under way, because each has objects in memory while it waits. */
  inPlace<T>(work: () => Promise<T>): Promise<T> {
    return this.#times.places.run(this.tenant, work);
  }

  /** Runs a read `inPlace`. @throws StatusError 429, and errors of the read */
  read<T>(work: () => Promise<T>): Promise<T> {
    return this.inPlace(async () => {
      this.check();
      return work();
    });
  }

  /** Waits as `pace` does, and pays for sending or receiving bytes. */
  async paceBytes(bytes: number): Promise<void> {
    await this.pace(() => {}, (bytes / 2 ** 20) * MS_PER_MIB);
  }

  /**
   * Runs synchronous work. It waits until its tenant has time, and when this turn of the event loop
   * has had enough of such work. After a large object it rests as `TimeSlice` does.
   */
  readonly pace = async <T>(work: () => T, spentMs = 0): Promise<T> => {
    if (this.#longMs > 0) {
      const ms = this.#longMs;
      this.#longMs = 0;
      await this.#slice.rest(ms);
    }
    // A little debt, so that a tenant that waits has a whole slice after it.
    if (this.#times.isTurnOver || this.#bucket.tokens < -SLICE_MS) {
      const { waitMs } = this.#bucket;
      if (waitMs > 0) await this.#times.clock.sleep(waitMs);
      await this.#times.nextTurn(this.tenant);
    }
    return this.#times.measure(work, spentMs, (ms) => {
      this.#bucket.spend(ms);
      if (ms > SLICE_MS) this.#longMs = ms;
    });
  };
}
