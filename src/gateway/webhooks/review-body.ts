import { SharedRoom, type RequestSource } from '../../core/index.ts';
import { StatusError, tooLarge, unavailable } from '../cache-api/kubernetes-status.ts';

const MEBIBYTE = 1024 * 1024;
/**
 * Of all reviews that are being read or wait for their answer, and of those of one controller, which must not take the
 * place of all. Anyone who reaches the port may send some, so each source has its share: see `SharedRoom`.
 */
const MAX_TOGETHER_BYTES = 192 * MEBIBYTE;
const MAX_CONTROLLER_BYTES = 64 * MEBIBYTE;
/** Of a body that is too large, before its connection is closed. */
const DISCARDED_BYTES = 64 * MEBIBYTE;
/** A body comes whole within this time. */
const RECEIVE_MS = 10_000;

/** Reads the bodies of reviews, and bounds what they take together. */
export class ReviewBodies {
  readonly #all = new SharedRoom(MAX_TOGETHER_BYTES);
  readonly #ofController = new Map<string, SharedRoom>();
  readonly #whole = new WeakSet<Request>();

  /** Whether a request was read to its end. */
  isWhole(request: Request): boolean {
    return this.#whole.has(request);
  }

  /**
   * Reads a body, and counts it until `work` has ended.
   * @param controller for which it is
   * @param source from which it comes
   * @throws StatusError 413 when it is larger than `maxBytes`, 408 when it does not come within ten seconds, 503 when
   *   there is no room; whatever `work` throws.
   */
  async with<T>(
    request: Request,
    {
      controller,
      maxBytes,
      source,
    }: { readonly controller: string; readonly maxBytes: number; readonly source: RequestSource },
    work: (text: string) => Promise<T>,
  ): Promise<T> {
    const large = tooLarge(`the review is larger than ${maxBytes / MEBIBYTE} MiB`);
    let isLarge = Number(request.headers.get('content-length') ?? 0) > maxBytes;
    let [bytes, counted] = [0, 0];
    const chunks: Uint8Array[] = [];
    try {
      for await (const chunk of withinTime(request.body)) {
        bytes += chunk.length;
        isLarge ||= bytes > maxBytes;
        // Read to its end all the same: a client that is still sending may lose the answer.
        if (isLarge) {
          if (bytes > DISCARDED_BYTES) throw large;
          continue;
        }
        this.#take(controller, source, chunk.length);
        counted += chunk.length;
        chunks.push(chunk);
      }
      this.#whole.add(request);
      if (isLarge) throw large;
      return await work(Buffer.concat(chunks).toString('utf8'));
    } finally {
      if (counted > 0) this.#giveBack(controller, source, counted);
    }
  }

  /** @throws StatusError 503 when there is no room. */
  #take(controller: string, source: RequestSource, bytes: number): void {
    const own = this.#ofController.get(controller) ?? new SharedRoom(MAX_CONTROLLER_BYTES);
    if (!own.hasFor(source, bytes)) throw unavailable(`the controller ${controller} has too many reviews in flight`);
    if (!this.#all.take(source, bytes)) throw unavailable('the gateway has too many reviews in flight');
    own.take(source, bytes);
    this.#ofController.set(controller, own);
  }

  #giveBack(controller: string, source: RequestSource, bytes: number): void {
    this.#all.giveBack(source, bytes);
    const own = this.#ofController.get(controller);
    own?.giveBack(source, bytes);
    if (own?.taken === 0) this.#ofController.delete(controller);
  }
}

/** The chunks of a body. @throws StatusError 408 when they do not come in time. */
async function* withinTime(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (!body) return;
  const reader = body.getReader();
  const late = Promise.withResolvers<never>();
  late.promise.catch(() => {});
  const timer = setTimeout(() => {
    const message = 'the review did not come within 10 s';
    late.reject(new StatusError({ code: 408, reason: 'Timeout', message }));
  }, RECEIVE_MS);
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), late.promise]);
      if (done) return;
      yield value;
    }
  } finally {
    clearTimeout(timer);
    // Of a body that was not read to its end; the connection is closed then.
    reader.releaseLock();
  }
}
