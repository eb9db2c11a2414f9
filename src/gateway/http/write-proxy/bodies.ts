import { addAbortSignal, Readable } from 'node:stream';
import { BodyBuffer } from '../../../core/index.ts';
import { badRequest, type StatusError, tooLarge, tooManyRequests } from '../cache-api/kubernetes-status.ts';
import type { Hold } from '../../controller/endpoint/held-bytes.ts';

/** The apiserver's own bound of a request. */
const MAX_BODY_BYTES = 3 * 1024 * 1024;
/** Bound of the answer to a write: of a longer answer only the status is read. */
const MAX_ANSWER_BYTES = MAX_BODY_BYTES;
/** Memory for a streamed answer, however long it is. */
const STREAMED_BYTES = 128 * 1024;
/** A connection buffers this many bytes anyway. */
const PIECE_BYTES = 64 * 1024;

/**
 * Reads the body of a request into `hold`: a body of a known length is refused before the first byte is read.
 * @param signal aborted when the body must be there.
 * @throws StatusError 400 (incomplete), 413, 429
 */
export async function readBody(request: Request, hold: Hold, signal: AbortSignal): Promise<Buffer> {
  const length = request.headers.get('content-length');
  if (Number(length ?? 0) > MAX_BODY_BYTES) throw bodyTooLarge();
  if (!hold.add(Number(length ?? 0))) throw noRoom();
  const buffer = new BodyBuffer();
  for await (const chunk of chunksOf(request, signal)) {
    if (buffer.length + chunk.length > MAX_BODY_BYTES) throw bodyTooLarge();
    if (length === null && !hold.add(chunk.length)) throw noRoom();
    buffer.add(chunk);
  }
  return contentOf(buffer);
}

async function* chunksOf({ body }: Request, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader();
  if (!reader) return;
  const cancel = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener('abort', cancel, { once: true });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (signal.aborted) throw incomplete();
      if (done) return;
      yield value;
    }
  } catch (error) {
    // The caller has hung up, or was too slow.
    throw signal.aborted ? incomplete() : error;
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

/** The answer to a write, as far as it was read. */
export interface TakenAnswer {
  readonly content: Buffer;
  /** Undefined: there is no more. */
  readonly rest: Readable | undefined;
}

/** Reads the answer to a write to its end, or until it is longer than there is room for. */
export async function takeAnswer(body: Readable, hold: Hold): Promise<TakenAnswer> {
  const buffer = new BodyBuffer();
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    buffer.add(chunk);
    const isTooLong = buffer.length > MAX_ANSWER_BYTES || !hold.add(chunk.length);
    if (isTooLong) return { content: contentOf(buffer), rest: body };
  }
  return { content: contentOf(buffer), rest: undefined };
}

/** How the caller gets an answer. */
export interface AnswerStream {
  /** Released when the caller has the answer. */
  readonly hold: Hold;
  /** Ends the answer to a caller that does not read it. */
  readonly signal: AbortSignal;
  /** Called before each chunk of a stream, which waits for it. The answer ends there if it rejects. */
  readonly beforeChunk: (bytes: number) => Promise<void>;
}

/** The answer to a write, for the caller. */
export function passOn({ content, rest }: TakenAnswer, to: AnswerStream): Uint8Array | ReadableStream {
  if (!rest && content.length <= PIECE_BYTES) {
    to.hold.release();
    return content;
  }
  return streamed(piecesOf(content, rest), rest, to);
}

/** The answer to a read, for the caller, who gets it as fast as it reads. See `passOn`. @throws StatusError 429 */
export function stream(body: Readable, to: AnswerStream): ReadableStream {
  if (to.hold.add(STREAMED_BYTES)) return streamed(body as AsyncIterable<Uint8Array>, body, to);
  body.destroy();
  throw noRoom();
}

/** @param source what the pieces are read from. */
function streamed(
  pieces: AsyncIterable<Uint8Array>,
  source: Readable | undefined,
  { hold, signal, beforeChunk }: AnswerStream,
): ReadableStream {
  const whole = Readable.from(paced(pieces, beforeChunk), { objectMode: false, highWaterMark: PIECE_BYTES });
  whole.once('close', () => {
    source?.destroy();
    hold.release();
  });
  return Readable.toWeb(addAbortSignal(signal, whole)) as ReadableStream;
}

async function* paced(
  pieces: AsyncIterable<Uint8Array>,
  beforeChunk: AnswerStream['beforeChunk'],
): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    await beforeChunk(piece.length);
    yield piece;
  }
}

async function* piecesOf(content: Buffer, rest: Readable | undefined): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < content.length; at += PIECE_BYTES) yield content.subarray(at, at + PIECE_BYTES);
  if (rest) yield* rest as AsyncIterable<Uint8Array>;
}

function contentOf(buffer: BodyBuffer): Buffer {
  const { buffer: memory, byteOffset, length } = buffer.take();
  return Buffer.from(memory, byteOffset, length);
}

const bodyTooLarge = (): StatusError => tooLarge(`Request entity too large: limit is ${MAX_BODY_BYTES}`);
const incomplete = (): StatusError => badRequest('the request is incomplete');
/** The requests of a tenant hold as many bytes as they may. */
export const noRoom = (): StatusError =>
  tooManyRequests('the requests of this controller that are under way are too large together, please try again later');
