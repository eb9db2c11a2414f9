import type { Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher } from 'undici';

/** An answer may have this much outside its body, and a quarter of its body's length, which small chunks need. */
const FREE_BYTES = 64 * 1024;
const PER_BODY_BYTE = 1 / 4;

/** An answer has more outside its body than it may. */
export class FramingError extends Error {
  override readonly name = 'FramingError';

  constructor() {
    super('the answer has more than 64 KiB, and a quarter of its body, outside its body');
  }
}

/** The bytes that one connection reads outside the bodies of answers. */
export class Framing {
  #socket: Socket | undefined;
  /** The bytes of the connection that were read before the present request. */
  #before = 0;
  #body = 0;

  /** Must be called with a new connection, before undici reads from it. */
  watch(socket: Socket): void {
    this.#socket = socket;
    socket.on('readable', () => {
      if (this.#read() - this.#before - this.#body > FREE_BYTES + this.#body * PER_BODY_BYTE) {
        socket.destroy(new FramingError());
      }
    });
  }

  /** Must be called when a request begins on the connection. */
  begin(): void {
    this.#before = this.#read();
    this.#body = 0;
  }

  /** Counts bytes of the body of the answer. */
  addBody(bytes: number): void {
    this.#body += bytes;
  }

  /** The bytes that undici has read. Bytes that are still in the socket may belong to a body. */
  #read(): number {
    return this.#socket ? this.#socket.bytesRead - this.#socket.readableLength : 0;
  }
}

/** A handler that counts the bytes of a body. */
export type CountedHandler = Dispatcher.DispatchHandler & {
  /** The counter of the connection on which the answer comes. */
  framing: Framing | undefined;
};

/**
 * Closes a connection whose answer has too many bytes outside its body. undici bounds headers and trailers. It reads
 * line breaks before an answer, a reason phrase, the extensions of chunks and the zeros of their lengths until they
 * end, and calls no handler for them.
 */
export class CountedClient extends Client {
  readonly #framing: Framing;

  constructor(origin: URL, options: Client.Options & { readonly connect: buildConnector.connector }) {
    const framing = new Framing();
    const connect: buildConnector.connector = (to, done) =>
      options.connect(to, (...result) => {
        if (result[1]) framing.watch(result[1]);
        done(...result);
      });
    super(origin, { ...options, connect });
    this.#framing = framing;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: CountedHandler): boolean {
    handler.framing = this.#framing;
    return super.dispatch(options, handler);
  }
}
