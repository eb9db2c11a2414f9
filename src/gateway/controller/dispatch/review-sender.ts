import { randomUUID } from 'node:crypto';
import { type Clock, SharedRoom, type RequestSource } from '../../../core/index.ts';
import { type CacheLocation, CONTRACT_VERSION, type ReviewRequest } from '../../../contract/index.ts';
import { ColdStart } from '../endpoint/cold-start.ts';
import type { Answer, Endpoint, EndpointRequest } from '../endpoint/endpoint.ts';
import type { Hold } from '../endpoint/held-bytes.ts';

export interface ReviewSenderOptions {
  /** The function's own name for the controller. */
  readonly functionName: string;
  /** Opens connections for reviews alone, so that reviews do not wait for runs. */
  readonly endpoint: () => Pick<Endpoint, 'send' | 'close'>;
  /** Where the function reads the cache for a review that begins now. */
  readonly cache: () => CacheLocation;
  /** By `apiVersion/Kind`, in milliseconds: see `Informer.ageMs`. */
  readonly ages: () => Promise<ReadonlyMap<string, number>>;
  readonly clock: Clock;
  /** How long a function may take to start; 0: a refused connection is not tried again. */
  readonly startWindowMs: number;
}

/** One review for the function. */
export interface OutgoingReview {
  /** The name of the webhook in the description. */
  readonly webhook: string;
  /** The review as JSON, as the apiserver has sent it. */
  readonly json: string;
  /** The sender. The function gets access to the cache only for reviews of a known source. */
  readonly source: RequestSource;
  /** By the sender's clock. */
  readonly deadlineMs: number;
  readonly maxAnswerBytes: number;
  /** Counts the bytes of the answer that are held. */
  readonly hold?: Hold | undefined;
  /** Charges processor time for signing the review and for reading the answer. */
  readonly charge?: EndpointRequest['charge'];
  /** Waits, before the review is signed again, until its processor time is not used up. Default: there is no wait. */
  readonly turn?: () => Promise<void>;
}

/** The cache as a review finds it. Reviews that begin at the same time share it. */
export interface CacheNow {
  readonly location: CacheLocation;
  /** Of the kinds whose age is known, in milliseconds at `atMs`. */
  readonly ages: ReadonlyMap<string, number>;
  /** By the sender's clock. */
  readonly atMs: number;
}

interface Connected {
  readonly endpoint: ReturnType<ReviewSenderOptions['endpoint']>;
  readonly coldStart: ColdStart;
}

/** The reviews of one webhook that this gateway has seen. */
export interface SeenReviews {
  readonly count: number;
  /** By the gateways' clock. */
  readonly atMs: number;
  /** Why the last one had no answer; undefined when it had one. */
  readonly failure: string | undefined;
  /** Whether the gateway knew that an apiserver had sent the last one, and sent the cache with it. */
  readonly isSenderKnown: boolean;
}

/** A review that waits for a connection. */
interface Waiting {
  readonly source: RequestSource;
  readonly take: () => void;
}

/**
 * Reviews of one controller at a time: as many as there are connections for them. Each source has its share, see
 * `SharedRoom`: one source that is not known has half of them.
 */
export const REVIEW_CONNECTIONS = 64;

/** For a review that may not come from an apiserver. */
const NO_CACHE: Pick<CacheNow, 'location' | 'ages'> = { location: { views: {} }, ages: new Map() };

const NO_CONNECTION: Answer = { kind: 'refused', reason: 'timeout', message: 'no connection before the deadline' };

/** How long a review waits for the ages, which come from Redis. Then it goes on without them. */
const CACHE_MS = 500;
/** How soon an absent function is asked again: to ask costs little, and a function that starts is ready soon. */
const AGAIN_MS = 100;

/**
 * Sends reviews to one function as signed requests. A review whose connection was refused was not delivered. As long as
 * the function may be starting (see `ColdStart`), it is asked for its description until the deadline of the review, and
 * gets the review when it is there; after that one attempt is made for each review. To sign a large review takes up to
 * 285 ms, so it is not signed for each question.
 */
export class ReviewSender {
  readonly #options: ReviewSenderOptions;
  /** From the first review on. */
  #connected: Connected | undefined;
  #cache: Promise<CacheNow> | undefined;
  readonly #seen = new Map<string, SeenReviews>();
  #inFlight = 0;
  readonly #places = new SharedRoom(REVIEW_CONNECTIONS);
  readonly #waiting = new Set<Waiting>();
  #isClosed = false;
  readonly #idle = Promise.withResolvers<void>();

  constructor(options: ReviewSenderOptions) {
    this.#options = options;
  }

  /** Whether it takes no more reviews. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The reviews of a webhook so far; undefined before the first. */
  seen(webhook: string): SeenReviews | undefined {
    return this.#seen.get(webhook);
  }

  /** Records the end of a review. @param failure why it had no answer; undefined: it had one. */
  record(webhook: string, failure: string | undefined, { isKnown }: RequestSource): void {
    const count = (this.#seen.get(webhook)?.count ?? 0) + 1;
    this.#seen.set(webhook, { count, atMs: this.#options.clock.now(), failure, isSenderKnown: isKnown });
  }

  /** The cache now, as far as Redis answers at once. */
  cache(): Promise<CacheNow> {
    this.#cache ??= this.#cacheNow().finally(() => (this.#cache = undefined));
    return this.#cache;
  }

  /** Sends one review. @throws errors of its `turn`. */
  async send(review: OutgoingReview, cache: CacheNow): Promise<Answer> {
    const { clock, functionName } = this.#options;
    const { charge, hold, maxAnswerBytes, source } = review;
    const { location, ages } = source.isKnown ? cache : NO_CACHE;
    if (this.#isClosed) return { kind: 'refused', reason: 'connection', message: 'the controller is being stopped' };
    const { coldStart } = this.#connect();
    this.#inFlight += 1;
    // Reviews wait for a connection here: undici would keep the body of a waiting request beyond its deadline.
    const hasPlace = await this.#place(source, review.deadlineMs);
    try {
      if (!hasPlace) return NO_CONNECTION;
      for (;;) {
        const leftMs = review.deadlineMs - clock.now();
        if (leftMs <= 0) return NO_CONNECTION;
        const head: Omit<ReviewRequest, 'review'> = {
          version: CONTRACT_VERSION,
          controller: functionName,
          webhook: review.webhook,
          authenticated: source.isKnown,
          deadline: new Date(clock.wallNow() + leftMs).toISOString(),
          remainingSeconds: leftMs / 1000,
          cache: location,
          // The time since `cache.atMs` is added, because the cache may not have become newer while the function
          // started.
          cacheAgeSeconds: Object.fromEntries(
            [...ages].map(([kind, ms]) => [kind, (ms + clock.now() - cache.atMs) / 1000]),
          ),
        };
        // The review's JSON is inserted as text, because encoding it again could change its numbers.
        const body = `${JSON.stringify(head).slice(0, -1)},"review":${review.json}}`;
        const answer = await coldStart.send({
          id: randomUUID(),
          body,
          timeoutMs: leftMs,
          maxAnswerBytes,
          hold,
          charge,
        });
        const mayStart = answer.kind === 'refused' && answer.reason !== 'timeout' && coldStart.isStarting;
        if (!mayStart) return answer;
        let absence: string | undefined;
        do {
          if (review.deadlineMs - clock.now() <= AGAIN_MS) return answer;
          await clock.sleep(AGAIN_MS);
          absence = await coldStart.absence(review.deadlineMs - clock.now(), charge);
        } while (absence !== undefined);
        await review.turn?.();
      }
    } finally {
      if (hasPlace) this.#release(source);
      this.#inFlight -= 1;
      if (this.#isClosed && this.#inFlight === 0) this.#idle.resolve();
    }
  }

  /** Waits for one of the connections. @returns whether one was free before the deadline. */
  async #place(source: RequestSource, deadlineMs: number): Promise<boolean> {
    if (this.#places.take(source)) return true;
    const { clock } = this.#options;
    const over = new AbortController();
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiting: Waiting = { source, take: () => resolve(true) };
    this.#waiting.add(waiting);
    const expire = async (): Promise<void> => {
      await clock.sleep(Math.max(0, deadlineMs - clock.now()), over.signal);
      // A place that was given in the same moment is taken.
      if (this.#waiting.delete(waiting)) resolve(false);
    };
    const late = expire();
    const hasPlace = await promise;
    over.abort();
    await late;
    return hasPlace;
  }

  /** Gives the connection to a waiting review: the first of the source that has the fewest connections. */
  #release(source: RequestSource): void {
    this.#places.giveBack(source);
    for (;;) {
      let next: Waiting | undefined;
      for (const each of this.#waiting) {
        if (next && this.#places.takenBy(each.source) >= this.#places.takenBy(next.source)) continue;
        if (this.#places.hasFor(each.source)) next = each;
      }
      if (!next) return;
      this.#places.take(next.source);
      this.#waiting.delete(next);
      next.take();
    }
  }

  /** Takes no more reviews from now on. */
  refuse(): void {
    this.#isClosed = true;
  }

  /** Takes no more reviews. Resolves when the reviews in flight have ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#inFlight > 0) await this.#idle.promise;
    await this.#connected?.endpoint.close();
  }

  #connect(): Connected {
    const { clock, startWindowMs: windowMs } = this.#options;
    if (!this.#connected) {
      const endpoint = this.#options.endpoint();
      this.#connected = { endpoint, coldStart: new ColdStart({ endpoint, clock, windowMs }) };
    }
    return this.#connected;
  }

  async #cacheNow(): Promise<CacheNow> {
    const { ages, cache, clock } = this.#options;
    const atMs = clock.now();
    const over = new AbortController();
    const unknown = async (): Promise<undefined> => {
      await clock.sleep(CACHE_MS, over.signal);
    };
    const late = unknown();
    const known = await Promise.race([ages().catch(() => undefined), late]);
    over.abort();
    return { location: cache(), ages: known ?? new Map<string, number>(), atMs };
  }
}
