import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/index.ts';
import { type CacheLocation, CONTRACT_VERSION, type ReviewRequest } from '../../contract/index.ts';
import type { CacheAccess } from '../access/cache-access.ts';
import { ColdStart } from '../endpoint/cold-start.ts';
import type { Answer, Endpoint } from '../endpoint/endpoint.ts';

export interface ReviewSenderOptions {
  /** What the function calls the controller. */
  readonly functionName: string;
  /** Opens the connections of the reviews, which wait for no run. */
  readonly endpoint: () => Pick<Endpoint, 'send' | 'close'>;
  readonly cacheAccess: Pick<CacheAccess, 'location' | 'locationWithoutToken'>;
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
  /** By the sender's clock. */
  readonly deadlineMs: number;
  readonly maxAnswerBytes: number;
}

/** The cache as a review finds it. Reviews of the same time share one. */
export interface CacheNow {
  readonly location: CacheLocation;
  /** Of the kinds whose age is known. */
  readonly ages: ReadonlyMap<string, number>;
}

interface Connected {
  readonly endpoint: ReturnType<ReviewSenderOptions['endpoint']>;
  readonly coldStart: ColdStart;
}

/** What this gateway has seen of the reviews of one webhook. */
export interface SeenReviews {
  readonly count: number;
  /** By the gateways' clock. */
  readonly atMs: number;
  /** Why the last one had no answer; undefined when it had one. */
  readonly failure: string | undefined;
}

/** Without Redis there is neither a token nor an age, and a review must not wait for it. */
const CACHE_MS = 500;
/** A refused connection costs little, and a function that starts is there a moment later. */
const AGAIN_MS = 100;

/**
 * Sends reviews to one function as signed requests. A review whose connection was refused was not delivered, so it is
 * sent again until its deadline, as long as the function may be starting (see `ColdStart`); after that one attempt is
 * made for each review.
 */
export class ReviewSender {
  readonly #options: ReviewSenderOptions;
  /** From the first review on. */
  #connected: Connected | undefined;
  #cache: Promise<CacheNow> | undefined;
  readonly #seen = new Map<string, SeenReviews>();
  #inFlight = 0;
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

  /** A review has ended. @param failure why it had no answer. */
  record(webhook: string, failure: string | undefined): void {
    const count = (this.#seen.get(webhook)?.count ?? 0) + 1;
    this.#seen.set(webhook, { count, atMs: this.#options.clock.now(), failure });
  }

  /** The cache now, as far as Redis tells at once. */
  cache(): Promise<CacheNow> {
    this.#cache ??= this.#cacheNow().finally(() => (this.#cache = undefined));
    return this.#cache;
  }

  /** Sends one review. Never rejects. */
  async send(review: OutgoingReview, { location, ages }: CacheNow): Promise<Answer> {
    const { clock, functionName } = this.#options;
    if (this.#isClosed) return { kind: 'refused', reason: 'connection', message: 'the controller is being stopped' };
    const { coldStart } = this.#connect();
    this.#inFlight += 1;
    try {
      for (;;) {
        const leftMs = review.deadlineMs - clock.now();
        if (leftMs <= 0) return { kind: 'refused', reason: 'timeout', message: 'no connection before the deadline' };
        const head: Omit<ReviewRequest, 'review'> = {
          version: CONTRACT_VERSION,
          controller: functionName,
          webhook: review.webhook,
          deadline: new Date(clock.wallNow() + leftMs).toISOString(),
          remainingSeconds: leftMs / 1000,
          cache: location,
          cacheAgeSeconds: Object.fromEntries([...ages].map(([kind, ms]) => [kind, ms / 1000])),
        };
        // The review stays as it is: to write it anew could change its numbers.
        const body = `${JSON.stringify(head).slice(0, -1)},"review":${review.json}}`;
        const { maxAnswerBytes } = review;
        const answer = await coldStart.send({
          method: 'POST',
          id: randomUUID(),
          body,
          timeoutMs: leftMs,
          maxAnswerBytes,
        });
        const mayStart = answer.kind === 'refused' && answer.reason !== 'timeout' && coldStart.isStarting;
        if (!mayStart || review.deadlineMs - clock.now() <= AGAIN_MS) return answer;
        await clock.sleep(AGAIN_MS);
      }
    } finally {
      this.#inFlight -= 1;
      if (this.#isClosed && this.#inFlight === 0) this.#idle.resolve();
    }
  }

  /** Takes no more reviews from now on. */
  refuse(): void {
    this.#isClosed = true;
  }

  /** The same; resolves when the reviews in flight have ended. */
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
    const { ages, cacheAccess, clock } = this.#options;
    const over = new AbortController();
    const unknown = async (): Promise<undefined> => {
      await clock.sleep(CACHE_MS, over.signal);
    };
    const late = unknown();
    const [location, known] = await Promise.all([
      Promise.race([cacheAccess.location().catch(() => undefined), late]),
      Promise.race([ages().catch(() => undefined), late]),
    ]);
    over.abort();
    return { location: location ?? cacheAccess.locationWithoutToken(), ages: known ?? new Map<string, number>() };
  }
}
