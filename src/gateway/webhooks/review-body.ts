import { tooLarge, unavailable } from '../cache-api/kubernetes-status.ts';

/** Of all reviews that are being read or wait for their answer: anyone who reaches the port may send some. */
const MAX_TOGETHER_BYTES = 256 * 1024 * 1024;

/** Reads the bodies of reviews, and bounds what they take together. */
export class ReviewBodies {
  #bytes = 0;
  readonly #whole = new WeakSet<Request>();

  /** Whether a request was read to its end. */
  isWhole(request: Request): boolean {
    return this.#whole.has(request);
  }

  /**
   * Reads a body, and counts it until `work` has ended.
   * @throws StatusError 413 when it is larger than `maxBytes`, 503 when there is no room; whatever `work` throws.
   */
  async with<T>(request: Request, maxBytes: number, work: (text: string) => Promise<T>): Promise<T> {
    const large = tooLarge(`the review is larger than ${maxBytes / (1024 * 1024)} MiB`);
    if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw large;
    let bytes = 0;
    try {
      const chunks: Uint8Array[] = [];
      for await (const chunk of request.body ?? []) {
        chunks.push(chunk);
        bytes += chunk.length;
        this.#bytes += chunk.length;
        if (bytes > maxBytes) throw large;
        if (this.#bytes > MAX_TOGETHER_BYTES) throw unavailable('the gateway has too many reviews in flight');
      }
      this.#whole.add(request);
      return await work(Buffer.concat(chunks).toString('utf8'));
    } finally {
      this.#bytes -= bytes;
    }
  }
}
