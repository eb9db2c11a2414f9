import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Server as TlsServer, type TLSSocket } from 'node:tls';
import { type Clock, type RequestSource, SharedRoom, sourceName, TenantTurns } from '../core/index.ts';
import { HandshakeRates } from './handshake-rates.ts';

/**
 * A connection has the head of its first request within this time, the rest of it within another, and each later head.
 * A client that takes nothing of an answer for this time, which is looked at when it has passed, gets no more of it.
 */
const REQUEST_MS = 10_000;
/** How often late connections are looked for. */
const LOOK_MS = 1000;
/**
 * The parser of Node.js handles all requests of a chunk in one turn, and a chunk of 64 KiB may have 2,400 of them: 150
 * ms. In pieces of this size it gets 75 at most, before the connection is closed.
 */
const PIECE_BYTES = 2048;
/**
 * Of one connection. A client that does not pipeline has one; its next request may come before this side has heard that
 * the last byte of the answer was sent.
 */
const MOST_AT_A_TIME = 2;
/** Options of a server whose connections are bounded: it has no answers of its own, which nothing would count. */
export const ADMITTED = { requireHostHeader: false } as const;

/** Of all connections, those of the sources in turn. A handler begins with up to 0.1 ms of the thread. */
const REQUESTS_OF_A_TURN = 32;

interface Connection {
  /** See `keyOf`: a closed socket no longer has it. */
  readonly key: string;
  readonly source: RequestSource;
  /** Where it takes room. */
  readonly room: SharedRoom;
  /** When the connection, or its first request, began. */
  sinceMs: number;
  /** That of TLS, once the handshake is over. */
  socket: Socket;
  isKnown: boolean;
  /** Whether the authorities that knew its certificate have changed since. */
  isOld: boolean;
  /** Whether a request was answered: see the function of this name, too. */
  hasAsked: boolean;
  /** The requests that are being answered. */
  asking: number;
  /** The request that came last. */
  latest: IncomingMessage | undefined;
  /** The least that is still to come of the body of this request, in bytes. */
  bodyLeft: number;
  /** When a part of the next head was seen first. */
  partialSinceMs: number | undefined;
  /** The bytes that had come at the end of the last request. */
  bytes: number;
  /** Whether its room was given back. */
  isOver: boolean;
}

/**
 * The connections of clients to a server. Anyone may open some, so each source has a share of them. When there is no
 * room for a new one, the server closes an idle connection: of the source that has most, or of the source itself if
 * that has as many. So connections that strangers keep do not keep out an apiserver, whether it comes from another
 * address or from the same. A known source, whose certificate the server has checked, has no bound here, and its next
 * connections find room of their own until they have shown it: the apiserver has its own. A server with TLS bounds how
 * often each source connects, too: see `HandshakeRates`.
 *
 * A client that sends its next requests before it has the answers (HTTP pipelining) is disconnected. No client of a
 * gateway does, and the parser would handle thousands of them in one turn. A client that does not take its answer for
 * ten seconds is disconnected as well, since the answer takes memory.
 *
 * A connection ends after ten seconds without a request, its TLS handshake included. An apiserver opens more
 * connections than it needs at once, and a connection that is closed while a review is on its way fails this review.
 * Therefore a known source may keep silent connections, and those of others are closed only when nothing of a request
 * has come that this thread has not read yet.
 */
export class ClientConnections {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #room: SharedRoom;
  /** For connections from addresses that have shown a certificate, until they show it themselves. */
  readonly #knownRoom: SharedRoom;
  readonly #beginnings = new TenantTurns(REQUESTS_OF_A_TURN);
  /** Undefined: the server has no TLS, and a connection costs little. */
  #handshakes: HandshakeRates | undefined;
  /** By the client's address and port, the oldest first. */
  readonly #open = new Map<string, Connection>();
  /** The connections that take room, by source, the oldest first. */
  readonly #ofSource = new Map<string, Set<Connection>>();

  /** @param most of all sources that have not shown a certificate. One alone may have half, see `SharedRoom`. */
  constructor(clock: Pick<Clock, 'now'>, most: number) {
    this.#clock = clock;
    this.#room = new SharedRoom(most);
    this.#knownRoom = new SharedRoom(most);
  }

  /**
   * Admits the connections and requests of this server until it closes. A refused connection ends before TLS, its most
   * expensive part, and a refused request before the listeners that the server has by now. The server must be made with
   * `ADMITTED`.
   */
  bound(server: Server): void {
    const isSecure = server instanceof TlsServer;
    if (isSecure) this.#handshakes = new HandshakeRates(this.#clock);
    const connected = server.listeners('connection') as ((socket: Socket) => void)[];
    server.removeAllListeners('connection').on('connection', (socket) => {
      if (!this.admit(socket)) return;
      for (const each of connected) each.call(server, socket);
      if (!isSecure) this.#readInPieces(socket);
    });
    server.on('secureConnection', (socket: TLSSocket) => {
      this.secured(socket);
      this.#readInPieces(socket);
    });
    const requested = server.listeners('request') as RequestListener[];
    server.removeAllListeners('request').on('request', (incoming, outgoing) => {
      if (!this.asked(incoming, outgoing)) return;
      void this.#beginnings.run(this.sourceOf(incoming.socket).name, async () => {
        if (incoming.socket.destroyed) return;
        for (const each of requested) each.call(server, incoming, outgoing);
        await nextTurn();
      });
    });
    // Node would answer an unknown expectation by itself, as often as a client sends one.
    server.on('checkExpectation', (incoming, outgoing) => server.emit('request', incoming, outgoing));
    server.setTimeout(REQUEST_MS, (socket: Socket) => this.#inactive(socket));
    const look = setInterval(() => void this.closeLate(), LOOK_MS).unref();
    server.once('close', () => clearInterval(look));
  }

  /** The client of a connection. */
  sourceOf(socket: Socket): RequestSource {
    const connection = this.#open.get(keyOf(socket));
    return { name: sourceName(socket.remoteAddress ?? ''), isKnown: connection?.isKnown ?? false };
  }

  /** Whether the connection should end with the next answer: its certificate is to be checked again. */
  isOld(socket: Socket): boolean {
    return this.#open.get(keyOf(socket))?.isOld ?? false;
  }

  /** Takes a new connection, or closes it. @returns whether it is open. */
  admit(socket: Socket): boolean {
    const source = this.sourceOf(socket);
    const room = this.#handshakes?.isKnown(source.name) ? this.#knownRoom : this.#room;
    const mayBegin = this.#handshakes?.take(source.name) ?? true;
    if (!mayBegin || !room.takeFrom(source, (name) => this.#closeIdle(name, room))) {
      socket.destroy();
      return false;
    }
    const key = keyOf(socket);
    const connection: Connection = {
      key,
      source,
      room,
      sinceMs: this.#clock.now(),
      socket,
      isKnown: false,
      isOld: false,
      hasAsked: false,
      asking: 0,
      latest: undefined,
      bodyLeft: 0,
      partialSinceMs: undefined,
      bytes: 0,
      isOver: false,
    };
    this.#open.set(key, connection);
    const ofSource = this.#ofSource.get(source.name);
    if (ofSource) ofSource.add(connection);
    else this.#ofSource.set(source.name, new Set([connection]));
    socket.once('close', () => this.#forget(connection));
    return true;
  }

  /** The handshake of a connection is over. */
  secured(socket: TLSSocket): void {
    const connection = this.#open.get(keyOf(socket));
    if (!connection) return;
    connection.socket = socket;
    // Some releases of Node.js call a resumed session of TLS 1.3 authorized that began without a certificate
    // (nodejs/node issue 64584).
    if (!socket.authorized || !socket.getPeerX509Certificate()) return;
    connection.isKnown = true;
    this.#handshakes?.know(connection.source.name);
    this.#giveBack(connection);
  }

  /** The head of a request has come. @returns whether it is answered: the client sends one after the other. */
  asked(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    const connection = this.#open.get(keyOf(incoming.socket));
    if (!connection || connection.asking >= MOST_AT_A_TIME) {
      incoming.socket.destroy();
      return false;
    }
    connection.asking += 1;
    connection.latest = incoming;
    connection.bodyLeft = Number(incoming.headers['content-length'] ?? 0);
    if (!hasAsked(connection)) connection.sinceMs = this.#clock.now();
    connection.partialSinceMs = undefined;
    outgoing.once('close', () => {
      connection.asking -= 1;
      connection.hasAsked = true;
      if (connection.latest === incoming) connection.latest = undefined;
      connection.bytes = connection.socket.bytesRead;
    });
    return true;
  }

  /** Gives the parser what comes in pieces. A body needs none: no request begins in it. */
  #readInPieces(socket: Socket): void {
    const [read] = socket.listeners('data') as ((chunk: Buffer) => void)[];
    if (!read) throw new Error('http does not read this connection by a listener of data');
    const connection = this.#open.get(keyOf(socket));
    socket.removeListener('data', read).on('data', (chunk: Buffer) => {
      for (let at = 0; at < chunk.length && !socket.destroyed;) {
        // http has paused it: the client takes no answers, or a handler has not read the body so far.
        if (socket.isPaused()) {
          socket.unshift(chunk.subarray(at));
          return;
        }
        const piece = chunk.subarray(at, at + Math.max(PIECE_BYTES, connection?.bodyLeft ?? 0));
        read.call(socket, piece);
        at += piece.length;
        // Some of the first piece is the head, so that this is no more than the rest of the body.
        if (connection) connection.bodyLeft = Math.max(0, connection.bodyLeft - piece.length);
      }
    });
  }

  /**
   * Nothing has come and nothing was taken for the time that an idle connection is kept, or for that of an answer. An
   * answer that a handler is still working at has nothing to be taken.
   */
  #inactive(socket: Socket): void {
    const connection = this.#open.get(keyOf(socket));
    if (!connection) return;
    const isIdle = connection.hasAsked && connection.asking === 0;
    if (isIdle || isUntaken(connection)) this.#close(connection);
  }

  /** The authorities have changed. Known connections end with their next answer, so that none is kept for good. */
  checkAgain(): void {
    for (const connection of this.#open.values()) connection.isOld ||= connection.isKnown;
    this.#handshakes?.forgetKnown();
  }

  /** Closes connections that are late. Called every second. */
  async closeLate(): Promise<void> {
    const lateMs = this.#clock.now() - REQUEST_MS;
    const late = [...this.#open.values()].filter((each) => this.#isLate(each, lateMs));
    if (late.length === 0) return;
    // The requests that came while the thread was busy are read between these turns.
    await nextTurn();
    await nextTurn();
    for (const connection of late) if (this.#isLate(connection, lateMs)) this.#close(connection);
  }

  #isLate(connection: Connection, lateMs: number): boolean {
    if (connection.isKnown) return false;
    if (!hasAsked(connection)) return connection.sinceMs <= lateMs;
    const isPartial = connection.asking === 0 && connection.socket.bytesRead > connection.bytes;
    if (!isPartial) return false;
    connection.partialSinceMs ??= this.#clock.now();
    return connection.partialSinceMs <= lateMs;
  }

  /** Closes every connection. */
  closeAll(): void {
    for (const connection of this.#open.values()) connection.socket.destroy();
  }

  /** Its room is free at once, and not only when the socket reports that it is closed. */
  #close(connection: Connection): void {
    this.#forget(connection);
    connection.socket.destroy();
  }

  #forget(connection: Connection): void {
    if (connection.isOver) return;
    connection.isOver = true;
    // The client may have used its port again.
    if (this.#open.get(connection.key) === connection) this.#open.delete(connection.key);
    if (!connection.isKnown) this.#giveBack(connection);
  }

  #giveBack(connection: Connection): void {
    const { room, source } = connection;
    const ofSource = this.#ofSource.get(source.name);
    ofSource?.delete(connection);
    if (ofSource?.size === 0) this.#ofSource.delete(source.name);
    room.giveBack(source);
  }

  /**
   * Closes the oldest connection of a source that has not sent a whole request, or else the oldest that waits for none
   * to be answered, or else the oldest whose answer waits for the client. @returns whether there was one.
   */
  #closeIdle(name: string, room: SharedRoom): boolean {
    const connections = [...(this.#ofSource.get(name) ?? [])].filter((each) => each.room === room);
    const idle =
      connections.find((each) => !hasAsked(each)) ??
      connections.find(({ asking }) => asking === 0) ??
      connections.find(isUntaken);
    if (idle) this.#close(idle);
    return idle !== undefined;
  }
}

/** Whether a request has come whole. The parser knows it, also of a request whose body no handler reads. */
function hasAsked(connection: Connection): boolean {
  return connection.hasAsked || connection.latest?.complete === true;
}

/** Whether bytes of an answer wait for the client. */
function isUntaken({ asking, socket }: Connection): boolean {
  return asking > 0 && socket.writableLength > 0;
}

/** The same for a connection and for its TLS. */
function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
