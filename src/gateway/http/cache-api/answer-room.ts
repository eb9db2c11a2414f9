import { type RequestSource, SharedRoom } from '../../../core/index.ts';
import { tooManyRequests } from './kubernetes-status.ts';

/** Of the answers that clients have not taken yet. A source may have half of what the others leave. */
const ROOM_BYTES = 128 * 1024 * 1024;
/** Smaller answers are not counted: the bound of connections suffices. */
const SMALL_BYTES = 16 * 1024;

/** Bounds the memory of answers to clients that do not take them, by source. */
export class AnswerRoom {
  readonly #room = new SharedRoom(ROOM_BYTES);

  /** For one answer. @param source the tenant of a reader, or a client that has not said who it is. */
  for(source: RequestSource): HeldAnswer {
    return new HeldAnswer(this.#room, source);
  }
}

/** The bytes of one answer that are in memory. */
export class HeldAnswer {
  readonly #room: SharedRoom;
  readonly #source: RequestSource;
  #bytes = 0;

  constructor(room: SharedRoom, source: RequestSource) {
    this.#room = room;
    this.#source = source;
  }

  /** @throws StatusError 429 when the source leaves too much untaken. */
  take(bytes: number): void {
    if (!this.#room.take(this.#source, bytes)) {
      throw tooManyRequests('Answers that were not taken yet need too much memory: read them, then ask again.');
    }
    this.#bytes += bytes;
  }

  /** Nothing of it is in memory any more. May be called again. */
  giveBack(): void {
    this.#room.giveBack(this.#source, this.#bytes);
    this.#bytes = 0;
  }

  /** The body of a whole answer, which gives its memory back when the client has taken it or is gone. */
  body(content: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> {
    this.giveBack();
    if (content.length <= SMALL_BYTES) return content;
    this.take(content.length);
    let isSent = false;
    return streamOf({
      next: async () => {
        if (isSent) return undefined;
        isSent = true;
        return content;
      },
      end: async () => this.giveBack(),
    });
  }
}

/** A stream whose next piece is asked for when the client has taken the last one. */
export function streamOf(pieces: {
  readonly next: () => Promise<Uint8Array | undefined>;
  /** Called once, at the end or when the client is gone. */
  readonly end: () => Promise<unknown>;
}): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      async pull(controller) {
        const piece = await pieces.next();
        if (piece) return controller.enqueue(piece);
        await pieces.end();
        controller.close();
      },
      async cancel() {
        await pieces.end();
      },
    },
    { highWaterMark: 0 },
  );
}
