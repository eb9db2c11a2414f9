import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { type ConnectionOptions, createSecureContext } from 'node:tls';
import { buildConnector } from 'undici';
import { TenantTurns } from '../../../core/index.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';

/**
 * Handshakes of a tenant at a time. A handshake that has begun waits for these at most, so that it ends before undici
 * gives it up. A function that accepts connections and never answers holds such a place for `PATIENCE_MS`.
 */
const OF_TENANT = 100;
/**
 * A connection may have this much outside its data, such as session tickets and the headers of records, and an eighth
 * of its data. Beyond that its bytes wait as a handshake does. Session tickets of 4 MB a second take all of the thread.
 */
const FREE_BYTES = 8192;
const PER_DATA_BYTE = 1 / 8;
/** undici gives a connection up after this. */
const PATIENCE_MS = 10_000;

const turns = new TenantTurns(Infinity, OF_TENANT);

/** The processor time of a tenant's handshakes. */
export type HandshakeBudget = Pick<CpuBudget, 'inTurn' | 'run'>;

/** Of connections to a function. */
type SecureOptions = Pick<ConnectionOptions, 'allowPartialTrustChain' | 'ca' | 'lookup' | 'secureOptions'>;

/** The tenant whose handshakes share a bound. */
export interface HandshakePayer {
  readonly tenant: string;
  /** Called at each use, because `CpuBudgets` keeps no full budget. */
  readonly budget: () => HandshakeBudget;
}

/**
 * Connects as undici does, and makes a tenant pay for its TLS handshakes: each step of a handshake counts in the
 * tenant's budget, and waits while the budget is used up. A handshake takes 1.5 ms of the thread, or 28 ms when the
 * function shows 21 certificates with P-521. A function that closes each connection and gives no session ticket causes
 * a handshake for each request.
 */
export function connectInTurn(options: SecureOptions, payer: HandshakePayer): buildConnector.connector {
  const connect = buildConnector({ ...options, allowH2: false });
  // The authorities are parsed once, and not before the tenant pays.
  let connectSecurely: buildConnector.connector | undefined;
  const begin: buildConnector.connector = (to, done) => {
    connectSecurely ??= buildConnector({ ...options, allowH2: false, secureContext: createSecureContext(options) });
    connectSecurely(to, done);
  };
  return (to, done) => {
    if (to.protocol !== 'https:') return connect(to, done);
    connect({ ...to, protocol: 'http:', port: to.port || '443' }, (error, socket) => {
      if (error) return done(error, null);
      const giveUpMs = performance.now() + PATIENCE_MS;
      const secure: Secure = (transport, ended) => begin({ ...to, httpSocket: transport }, ended);
      void turns.run(payer.tenant, () => handshake({ socket, budget: payer.budget, giveUpMs, secure, done }));
    });
  };
}

/** Makes the handshake over a stream. */
type Secure = (transport: Socket, ended: buildConnector.Callback) => void;

interface Handshake {
  /** Connected. */
  readonly socket: Socket;
  readonly budget: HandshakePayer['budget'];
  readonly giveUpMs: number;
  readonly secure: Secure;
  readonly done: buildConnector.Callback;
}

/** Resolves when the handshake is over. */
async function handshake({ socket, budget, giveUpMs, secure, done }: Handshake): Promise<void> {
  const over = Promise.withResolvers<void>();
  const begin = (): void => {
    if (socket.destroyed) throw new Error('the connection was closed before its handshake');
    if (performance.now() > giveUpMs) throw new Error("earlier handshakes of the namespace's functions take too long");
    const transport = new PaidTransport(socket, budget);
    // undici declares a socket, and Node takes any stream.
    secure(transport as Duplex as Socket, (...result) => {
      if (result[1]) transport.secured = result[1];
      over.resolve();
      done(...result);
    });
  };
  try {
    await budget().inTurn(begin, giveUpMs - performance.now());
  } catch (error) {
    socket.destroy();
    return done(error as Error, null);
  }
  return over.promise;
}

/**
 * The bytes of a connection below TLS. Node would read a socket by itself, and do the work of the handshake where
 * nothing can measure or delay it.
 */
class PaidTransport extends Duplex {
  /** The bytes since the handshake. */
  #bytes = 0;
  #secured: Socket | undefined;
  #isWaiting = false;
  readonly #socket: Socket;
  readonly #budget: () => HandshakeBudget;

  constructor(socket: Socket, budget: () => HandshakeBudget) {
    super();
    this.#socket = socket;
    this.#budget = budget;
    socket
      .on('data', (chunk: Buffer) => void this.#take(chunk))
      .on('end', () => this.push(null))
      .on('error', (error) => this.destroy(error))
      .on('close', () => {
        // Bytes before the end may still wait for TLS to take them.
        if (!socket.readableEnded) this.destroy();
      });
  }

  /** The connection of TLS, when the handshake is over: from then on ordinary bytes do not wait. */
  set secured(socket: Socket) {
    this.#bytes = 0;
    this.#secured = socket;
  }

  get #isOrdinary(): boolean {
    return !!this.#secured && this.#bytes <= FREE_BYTES + this.#secured.bytesRead * (1 + PER_DATA_BYTE);
  }

  override _read(): void {
    if (!this.#isWaiting) this.#socket.resume();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, encoding, done);
  }

  override _final(done: () => void): void {
    if (this.#socket.destroyed) return done();
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  async #take(chunk: Buffer): Promise<void> {
    const isOrdinary = this.#isOrdinary;
    this.#bytes += chunk.length;
    if (isOrdinary) return this.#budget().run(() => this.#give(chunk));
    this.#isWaiting = true;
    this.#socket.pause();
    try {
      await this.#budget().inTurn(() => this.#give(chunk), PATIENCE_MS);
    } catch (error) {
      this.destroy(error as Error);
    }
    this.#isWaiting = false;
    if (this.readableLength < this.readableHighWaterMark) this.#socket.resume();
  }

  /** Gives the chunk to TLS within this call, unless TLS wants no more now. */
  #give(chunk: Buffer): void {
    if (this.destroyed) return;
    if (!this.push(chunk)) this.#socket.pause();
    // `push` keeps the first bytes of a stream that is not read yet for a later turn.
    while (!this.isPaused() && this.read() !== null);
  }
}
