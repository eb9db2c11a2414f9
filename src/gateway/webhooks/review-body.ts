import { StatusError, tooLarge, unavailable } from '../cache-api/kubernetes-status.ts';

const MEBIBYTE = 1024 * 1024;
/**
 * Of all reviews that are being read or wait for their answer, and of those of one controller: anyone who reaches the
 * port may send some, and one controller must not take the place of all.
 */
const MAX_TOGETHER_BYTES = 192 * MEBIBYTE;
const MAX_CONTROLLER_BYTES = 64 * MEBIBYTE;
/** Of a body that is too large, before its connection is closed. */
const DISCARDED_BYTES = 64 * MEBIBYTE;
/** A body comes whole within this time. */
const RECEIVE_MS = 10_000;

/** Reads the bodies of reviews, and bounds what they take together. */
export class ReviewBodies {
  #bytes = 0;
  readonly #bytesOf = new Map<string, number>();
  readonly #whole = new WeakSet<Request>();

  /** Whether a request was read to its end. */
  isWhole(request: Request): boolean {
    return this.#whole.has(request);
  }

  /**
   * Reads a body, and counts it until `work` has ended.
   * @param controller for which it is
   * @throws StatusError 413 when it is larger than `maxBytes`, 408 when it does not come within ten seconds, 503 when
   *   there is no room; whatever `work` throws.
   */
  async with<T>(
    request: Request,
    { controller, maxBytes }: { readonly controller: string; readonly maxBytes: number },
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
        chunks.push(chunk);
        counted += chunk.length;
        this.#count(controller, chunk.length);
        if (this.#bytes > MAX_TOGETHER_BYTES) throw unavailable('the gateway has too many reviews in flight');
        if ((this.#bytesOf.get(controller) ?? 0) > MAX_CONTROLLER_BYTES) {
          throw unavailable(`the controller ${controller} has too many reviews in flight`);
        }
      }
      this.#whole.add(request);
      if (isLarge) throw large;
      return await work(Buffer.concat(chunks).toString('utf8'));
    } finally {
      this.#count(controller, -counted);
    }
  }

  #count(controller: string, bytes: number): void {
    this.#bytes += bytes;
    const left = (this.#bytesOf.get(controller) ?? 0) + bytes;
    if (left > 0) this.#bytesOf.set(controller, left);
    else this.#bytesOf.delete(controller);
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
