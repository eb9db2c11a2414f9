import { BodyBuffer, SharedRoom, type RequestSource } from '../../../core/index.ts';
import { weightOf } from '../../../ground/json-weight.ts';
import type { Hold } from '../../controller/endpoint/held-bytes.ts';
import { badRequest, StatusError, tooLarge, unavailable } from '../cache-api/kubernetes-status.ts';

const MEBIBYTE = 1024 * 1024;
/**
 * Bounds of all reviews that are being read or wait for their answer, with the answers, and of the reviews of one
 * tenant, which must not use up the total. Any client that reaches the port may send some, so each source has its
 * share: see `SharedRoom`.
 */
const MAX_TOGETHER_BYTES = 192 * MEBIBYTE;
const MAX_TENANT_BYTES = 64 * MEBIBYTE;
/**
 * Counts for each review in addition to its body. A client may send thousands of small reviews on one connection
 * without waiting for the answers, and one review takes about this much while it is answered.
 */
const REVIEW_BYTES = 16 * 1024;
/** Of a body that is too large, before its connection is closed. */
const DISCARDED_BYTES = 64 * MEBIBYTE;
/**
 * Of what a review takes parsed, for each byte that it may have: an ordinary one has 3 to 4, and 8 MiB of `[{},{},...]`
 * 23, which take this thread half a second. A review of two objects of 1.5 MiB of that sort has room.
 */
const MAX_FACTOR = 9;
/** A body comes whole within this time. */
const RECEIVE_MS = 10_000;

const SCATTERED = 'the review comes in more than 256 chunks of less than 256 bytes';

/** Reads the bodies of reviews, and bounds their memory together. */
export class ReviewBodies {
  readonly #all = new SharedRoom(MAX_TOGETHER_BYTES);
  readonly #ofTenant = new Map<string, SharedRoom>();
  readonly #whole = new WeakSet<Request>();

  /** Whether a request was read to its end. */
  isWhole(request: Request): boolean {
    return this.#whole.has(request);
  }

  /**
   * Reads a body, and counts it until `work` has ended.
   * @param tenant of the controller that gets the review
   * @param source of the review
   * @param work may count other bytes that it holds.
   * @throws StatusError 413 when it is larger than `maxBytes` or has too many values, 400 when it comes in too many
   *   small chunks or the client hangs up, 408 when it does not come within ten seconds, 503 when there is no room;
   *   errors of `work`.
   */
  async with<T>(
    request: Request,
    {
      tenant,
      maxBytes,
      source,
    }: { readonly tenant: string; readonly maxBytes: number; readonly source: RequestSource },
    work: (text: string, hold: Hold) => Promise<T>,
  ): Promise<T> {
    const large = tooLarge(`the review is larger than ${maxBytes / MEBIBYTE} MiB`);
    const heavy = tooLarge(`the review has too many values for ${maxBytes / MEBIBYTE} MiB`);
    let isLarge = Number(request.headers.get('content-length') ?? 0) > maxBytes;
    let [bytes, counted] = [0, 0];
    const hold: Hold = {
      add: (more) => {
        if (this.#take(tenant, source, more) !== undefined) return false;
        counted += more;
        return true;
      },
      // All is given back at the end.
      release: () => {},
    };
    const buffer = new BodyBuffer();
    try {
      const none = this.#take(tenant, source, REVIEW_BYTES);
      if (none) throw none;
      counted += REVIEW_BYTES;
      for await (const chunk of withinTime(request.body)) {
        bytes += chunk.length;
        isLarge ||= bytes > maxBytes;
        buffer.add(chunk);
        if (buffer.isScattered) throw badRequest(SCATTERED);
        // Read to its end all the same: a client that is still sending may lose the answer.
        if (isLarge) {
          buffer.take();
          if (bytes > DISCARDED_BYTES) throw large;
          continue;
        }
        const full = this.#take(tenant, source, chunk.length);
        if (full) throw full;
        counted += chunk.length;
      }
      this.#whole.add(request);
      if (isLarge) throw large;
      const text = buffer.takeText((content) => {
        if (weightOf(content) > MAX_FACTOR * maxBytes) throw heavy;
      });
      return await work(text, hold);
    } finally {
      if (counted > 0) this.#giveBack(tenant, source, counted);
    }
  }

  /** @returns the refusal when there is no room: 503. */
  #take(tenant: string, source: RequestSource, bytes: number): StatusError | undefined {
    const own = this.#ofTenant.get(tenant) ?? new SharedRoom(MAX_TENANT_BYTES);
    if (!own.hasFor(source, bytes)) return unavailable(`the controllers of ${tenant} have too many reviews in flight`);
    if (!this.#all.take(source, bytes)) return unavailable('the gateway has too many reviews in flight');
    own.take(source, bytes);
    this.#ofTenant.set(tenant, own);
    return undefined;
  }

  #giveBack(tenant: string, source: RequestSource, bytes: number): void {
    this.#all.giveBack(source, bytes);
    const own = this.#ofTenant.get(tenant);
    own?.giveBack(source, bytes);
    if (own?.taken === 0) this.#ofTenant.delete(tenant);
  }
}

/** The chunks of a body. @throws StatusError 408 when they do not come in time, 400 when the client hangs up. */
async function* withinTime(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (!body) return;
  const reader = body.getReader();
  const read = () =>
    reader.read().catch(() => {
      throw badRequest('the review is incomplete');
    });
  const late = Promise.withResolvers<never>();
  late.promise.catch(() => {});
  const timer = setTimeout(() => {
    const message = 'the review did not come within 10 s';
    late.reject(new StatusError({ code: 408, reason: 'Timeout', message }));
  }, RECEIVE_MS);
  try {
    for (;;) {
      const { done, value } = await Promise.race([read(), late.promise]);
      if (done) return;
      yield value;
    }
  } finally {
    clearTimeout(timer);
    // Of a body that was not read to its end; the connection is closed then.
    reader.releaseLock();
  }
}
