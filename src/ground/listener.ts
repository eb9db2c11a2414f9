import { once } from 'node:events';
import { type AddressInfo, createServer, isIPv6, type Server, type Socket } from 'node:net';
import { messageOf, UserError } from '../core/index.ts';

export interface ListenAddress {
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
}

/**
 * The sockets of one server. libuv takes one connection from a socket in a turn of the event loop (since 1.45), so
 * where many connections are opened and a turn takes long, each new one would wait for as many turns as there are
 * connections before it.
 */
const SOCKETS = 16;
/**
 * Connections that the kernel keeps for a socket until the gateway takes them: above that a client tries again later.
 */
const BACKLOG = 4096;

/** A server that listens with several sockets on one port, where the system can share a port among sockets. */
export class Listener {
  /** `host:port`. */
  readonly address: string;
  readonly #servers: readonly Server[];

  private constructor(host: string, servers: readonly [Server, ...Server[]]) {
    this.#servers = servers;
    this.address = `${isIPv6(host) ? `[${host}]` : host}:${portOf(servers[0])}`;
  }

  /**
   * Connections of all sockets come to `server` as its own.
   * @param more how the message ends: for what the address is, and where to choose another.
   * @throws UserError when the port is taken, or the address is not this machine's.
   */
  static async start(
    server: Server,
    at: ListenAddress,
    more: { readonly use?: string; readonly remedy: string },
  ): Promise<Listener> {
    const isShared = process.platform === 'linux';
    const begin = async (each: Server, port: number): Promise<void> => {
      each.listen({ host: at.host, port, backlog: BACKLOG, reusePort: isShared });
      await once(each, 'listening');
    };
    const others = Array.from({ length: isShared ? SOCKETS - 1 : 0 }, () => forwarding(server));
    try {
      // Sockets that share a port do not notice another process that shares it, too.
      if (isShared && at.port !== 0) await checkFree(at);
      await begin(server, at.port);
      for (const other of others) await begin(other, portOf(server));
    } catch (error) {
      for (const each of [server, ...others]) each.close();
      throw cannotListen(at, error, more);
    }
    return new Listener(at.host, [server, ...others]);
  }

  /** Takes no more connections. Resolves when the last connection is closed. */
  async close(): Promise<void> {
    const closed = this.#servers.map((each) => once(each, 'close'));
    for (const each of this.#servers) each.close();
    await Promise.all(closed);
  }
}

/** @throws UserError when a server could not listen there now. */
export async function checkListen(at: ListenAddress, more: { readonly remedy: string }): Promise<void> {
  await checkFree(at).catch((error: unknown) => {
    throw cannotListen(at, error, more);
  });
}

async function checkFree({ host, port }: ListenAddress): Promise<void> {
  const server = createServer();
  server.listen(port, host);
  await once(server, 'listening');
  server.close();
  await once(server, 'close');
}

function cannotListen(
  { host, port }: ListenAddress,
  error: unknown,
  { use = '', remedy }: { readonly use?: string; readonly remedy: string },
): UserError {
  const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
  const reason = taken ? 'another process listens there' : messageOf(error);
  return new UserError(`The gateway cannot listen on ${host}:${port}${use} (${reason}): choose another ${remedy}.`);
}

/** A server that gives its connections to another, made as that makes its own. */
function forwarding(to: Server): Server {
  const { allowHalfOpen, noDelay } = to as Server & { allowHalfOpen?: boolean; noDelay?: boolean };
  const options = { allowHalfOpen: allowHalfOpen === true, noDelay: noDelay === true };
  return createServer(options, (socket: Socket) => void to.emit('connection', socket));
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port;
