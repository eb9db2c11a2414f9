import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Server as TlsServer, type TLSSocket } from 'node:tls';
import { type Clock, type RequestSource, SharedRoom, sourceName } from '../core/index.ts';
import { HandshakeRates } from './handshake-rates.ts';

/**
 * A connection has the head of its first request within this time, the rest of it within another, and each later head.
 */
const REQUEST_MS = 10_000;

interface Connection {
  /** See `keyOf`: a closed socket no longer has it. */
  readonly key: string;
  readonly source: RequestSource;
  /** When the connection, or its first request, began. */
  sinceMs: number;
  /** That of TLS, once the handshake is over. */
  socket: Socket;
  isKnown: boolean;
  /** Whether the authorities that knew its certificate have changed since. */
  isOld: boolean;
  /** Whether a request has come whole. */
  hasAsked: boolean;
  /** Whether a request is being answered. */
  isAsking: boolean;
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
 * address or from the same. A known source, whose certificate the server has checked, has no bound here: the apiserver
 * has its own. A server with TLS bounds how often each source connects, too: see `HandshakeRates`.
 *
 * A connection ends after ten seconds without a request, its TLS handshake included. An apiserver opens more
 * connections than it needs at once, and a connection that is closed while a review is on its way fails this review.
 * Therefore a known source may keep silent connections, and those of others are closed only when nothing of a request
 * has come that this thread has not read yet.
 */
export class ClientConnections {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #room: SharedRoom;
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
  }

  /** Admits the connections of this server. A refused connection ends before TLS, its most expensive part. */
  bound(server: Server): void {
    if (server instanceof TlsServer) this.#handshakes = new HandshakeRates(this.#clock);
    const listeners = server.listeners('connection') as ((socket: Socket) => void)[];
    server.removeAllListeners('connection').on('connection', (connection) => {
      if (this.admit(connection)) for (const each of listeners) each.call(server, connection);
    });
    server.on('secureConnection', (socket: TLSSocket) => this.secured(socket));
    server.prependListener('request', (incoming, outgoing) => this.asked(incoming, outgoing));
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
    const mayBegin = this.#handshakes?.take(source.name) ?? true;
    if (!mayBegin || !this.#room.takeFrom(source, (name) => this.#closeIdle(name))) {
      socket.destroy();
      return false;
    }
    const key = keyOf(socket);
    const connection: Connection = {
      key,
      source,
      sinceMs: this.#clock.now(),
      socket,
      isKnown: false,
      isOld: false,
      hasAsked: false,
      isAsking: false,
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
    this.#handshakes?.exempt(connection.source.name);
    this.#giveBack(connection);
  }

  /** The head of a request has come. */
  asked(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const connection = this.#open.get(keyOf(incoming.socket));
    if (!connection) return;
    connection.isAsking = true;
    if (!connection.hasAsked) connection.sinceMs = this.#clock.now();
    connection.partialSinceMs = undefined;
    incoming.once('end', () => {
      connection.hasAsked = true;
    });
    outgoing.once('close', () => {
      connection.isAsking = false;
      connection.bytes = connection.socket.bytesRead;
    });
  }

  /** The authorities have changed. Known connections end with their next answer, so that none is kept for good. */
  checkAgain(): void {
    for (const connection of this.#open.values()) connection.isOld ||= connection.isKnown;
    this.#handshakes?.endExemptions();
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
    if (!connection.hasAsked) return connection.sinceMs <= lateMs;
    const isPartial = !connection.isAsking && connection.socket.bytesRead > connection.bytes;
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
    const { source } = connection;
    const ofSource = this.#ofSource.get(source.name);
    ofSource?.delete(connection);
    if (ofSource?.size === 0) this.#ofSource.delete(source.name);
    this.#room.giveBack(source);
  }

  /**
   * Closes the oldest connection of a source that has not sent a whole request, or else the oldest that waits for none
   * to be answered. @returns whether there was one.
   */
  #closeIdle(name: string): boolean {
    const connections = [...(this.#ofSource.get(name) ?? [])];
    const idle = connections.find(({ hasAsked }) => !hasAsked) ?? connections.find(({ isAsking }) => !isAsking);
    if (idle) this.#close(idle);
    return idle !== undefined;
  }
}

/** The same for a connection and for its TLS. */
function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
