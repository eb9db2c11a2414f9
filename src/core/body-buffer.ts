/** A block holds as many bytes as have come before it, within these bounds. */
const LEAST_BLOCK = 512;
const MOST_BLOCK = 64 * 1024;
/** A body may have this many chunks, and one more for each `CHUNK_BYTES` of its length. */
const FREE_CHUNKS = 256;
const CHUNK_BYTES = 256;

/**
 * Whether a body has come in more than 256 chunks of less than 256 bytes. A sender that may be hostile is refused then:
 * one read of 64 KiB holds 10,900 chunks of one byte, 10 ms of the parser's time.
 */
export function isScattered(chunks: number, bytes: number): boolean {
  return chunks > FREE_CHUNKS + bytes / CHUNK_BYTES;
}

const NONE = /* @__PURE__ */ new Uint8Array(0);
const decoder = /* @__PURE__ */ new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Collects a body from its chunks. A sender may divide a body as it likes, and a chunk of one byte takes 120 to 240
 * bytes of memory and a microsecond or more of the parser's time. So the buffer copies all chunks into blocks of its
 * own, and a caller that counts bytes counts memory: the blocks have at most twice as many bytes as have come, and at
 * most 64 KiB more. `isScattered` reports a body that comes in too many small chunks, so that the caller can stop
 * reading.
 */
export class BodyBuffer {
  #full: Uint8Array[] = [];
  #block = NONE;
  /** Bytes in the block. */
  #used = 0;
  #length = 0;
  /** Of the whole body. */
  #bytes = 0;
  #chunks = 0;

  /** The bytes since the last `take`. */
  get length(): number {
    return this.#length;
  }

  /** See `isScattered`. */
  get isScattered(): boolean {
    return isScattered(this.#chunks, this.#bytes);
  }

  /** Copies a chunk. */
  add(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    this.#chunks += 1;
    const rest = this.#fill(chunk);
    if (rest.length === 0) return;
    if (this.#used > 0) this.#full.push(this.#block);
    const size = Math.min(MOST_BLOCK, Math.max(LEAST_BLOCK, this.#length));
    this.#block = new Uint8Array(Math.max(rest.length, size));
    this.#used = 0;
    this.#fill(rest);
  }

  /** Returns all bytes since the last `take` and empties the buffer. */
  take(): Uint8Array<ArrayBuffer> {
    const last = this.#block.subarray(0, this.#used);
    let whole = last;
    if (this.#full.length > 0) {
      whole = new Uint8Array(this.#length);
      let at = 0;
      for (const block of [...this.#full, last]) {
        whole.set(block, at);
        at += block.length;
      }
    }
    this.#full = [];
    this.#block = NONE;
    [this.#used, this.#length] = [0, 0];
    return whole;
  }

  /** As `take`, decoded from UTF-8. @param look sees the bytes first. */
  takeText(look: (bytes: Uint8Array) => void = () => {}): string {
    const bytes = this.take();
    look(bytes);
    return decoder.decode(bytes);
  }

  /** @returns the rest of the chunk, which did not fit into the block. */
  #fill(chunk: Uint8Array): Uint8Array {
    const fits = chunk.subarray(0, this.#block.length - this.#used);
    this.#block.set(fits, this.#used);
    this.#used += fits.length;
    this.#length += fits.length;
    return chunk.subarray(fits.length);
  }
}
