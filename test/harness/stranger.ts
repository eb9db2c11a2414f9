import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request, type RequestOptions } from 'node:https';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';

/** The answer to a review that a stranger made up. */
export interface StrangersAnswer {
  readonly status: number;
  readonly body: string;
}

/**
 * Sends to the port of reviews what an apiserver would not send. Linux takes all of 127.0.0.0/8 as addresses of its
 * own, so a stranger has another address than the apiserver.
 */
export class Stranger {
  readonly #address: string;
  readonly #url: URL;
  readonly #over = new AbortController();
  readonly #work: Promise<unknown>[] = [];
  readonly #open = new Set<Socket>();

  /** @param url of the webhook. */
  constructor(address: string, url: string) {
    this.#address = address;
    this.#url = new URL(url);
  }

  /** The connections that it has opened so far, or that were refused. */
  tries = 0;

  /** Keeps this many connections on which nothing is sent: opens one anew whenever one is closed. */
  keepSilent(count: number): void {
    for (let at = 0; at < count; at += 1) this.#repeat(async () => once(this.#connect(), 'close'));
  }

  /** Sends thousands of requests on each of `count` connections, and waits for no answer. */
  keepPipelining(count: number): void {
    const { hostname: host, port, pathname } = this.#url;
    const requests = `POST ${pathname} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}`.repeat(10_000);
    for (let at = 0; at < count; at += 1) {
      this.#repeat(async () => {
        const socket = connectTls({ host, port: Number(port), socket: this.#connect(), rejectUnauthorized: false });
        this.#keep(socket).resume().write(requests);
        await once(socket, 'close');
      }, 100);
    }
  }

  /** Sends bodies that lack one byte, again and again. */
  keepSendingBodies(count: number, bytes: number): void {
    const body = Buffer.alloc(bytes - 1, ' ');
    for (let at = 0; at < count; at += 1) {
      this.#repeat(async () => {
        const sent = this.#request({ headers: { 'content-length': bytes } });
        sent.on('response', (response) => void response.resume());
        sent.write(body);
        await Promise.race([once(sent, 'close'), once(sent, 'response')]);
        sent.destroy();
      });
    }
  }

  /** Hangs up in the middle of a body. Resolves when its connection is closed. */
  async breakOff(): Promise<void> {
    const sent = this.#request({ headers: { 'content-length': 100 } });
    // `once` of node:events would reject with the error of a request that is destroyed.
    const closed = new Promise<void>((resolve) => sent.once('close', () => resolve()));
    await new Promise<void>((written) => sent.write('{', () => written()));
    sent.destroy();
    await closed;
  }

  /** Makes up reviews of a ConfigMap of this name, each of them as soon as the one before has its answer. */
  keepReviewing(count: number, object: MadeUp): void {
    for (let at = 0; at < count; at += 1) this.#repeat(() => this.review(object));
  }

  /** The session of TLS of a connection on which nothing was asked: its next one may resume it. */
  async session(): Promise<Buffer> {
    const { hostname, port } = this.#url;
    const socket = connectTls({
      host: hostname,
      port: Number(port),
      socket: this.#connect(),
      rejectUnauthorized: false,
    });
    this.#keep(socket);
    const [session] = (await once(socket, 'session')) as [Buffer];
    socket.destroy();
    return session;
  }

  /** Makes up one review. @param client a certificate and its key, or a session to resume. */
  async review(
    object: MadeUp,
    client: { readonly cert?: string; readonly key?: string; readonly session?: Buffer } = {},
  ): Promise<StrangersAnswer> {
    const sent = this.#request(client);
    sent.end(JSON.stringify(madeUpReview(object)));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return { status: response.statusCode ?? 0, body: await text(response) };
  }

  /** Ends everything. */
  async stop(): Promise<void> {
    this.#over.abort();
    for (const socket of this.#open) socket.destroy();
    await Promise.all(this.#work);
  }

  /** An error, such as a connection that is closed, does not stop it. */
  #repeat(work: () => Promise<unknown>, pauseMs = PAUSE_MS): void {
    const { signal } = this.#over;
    const over = once(signal, 'abort');
    const loop = async (): Promise<void> => {
      while (!signal.aborted) {
        // A connection that the kernel of the server has dropped is never closed.
        await Promise.race([work().catch(() => {}), over]);
        await sleep(pauseMs, undefined, { signal }).catch(() => {});
      }
    };
    this.#work.push(loop());
  }

  #connect(): Socket {
    const { hostname, port } = this.#url;
    return this.#keep(connect({ host: hostname, port: Number(port), localAddress: this.#address }));
  }

  #request(options: RequestOptions) {
    const { headers = {}, ...more } = options;
    const sent = request(this.#url, {
      method: 'POST',
      rejectUnauthorized: false,
      localAddress: this.#address,
      agent: false,
      ...more,
      headers: { 'content-type': 'application/json', ...(headers as Record<string, string>) },
    });
    sent.on('socket', (socket) => this.#keep(socket)).on('error', () => {});
    return sent;
  }

  #keep(socket: Socket): Socket {
    socket.on('error', () => {});
    this.#open.add(socket);
    for (const event of ['connect', 'error']) socket.once(event, () => (this.tries += 1));
    socket.on('close', () => this.#open.delete(socket));
    if (this.#over.signal.aborted) socket.destroy();
    return socket;
  }
}

/** Of the object in a review that is made up. */
export interface MadeUp {
  readonly namespace: string;
  readonly name: string;
}

/** Between two tries, so that a refused stranger costs as much as one that reconnects, and not a whole processor. */
const PAUSE_MS = 10_000;

function madeUpReview({ namespace, name }: MadeUp): object {
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: randomUUID(),
      kind: { group: '', version: 'v1', kind: 'ConfigMap' },
      resource: { group: '', version: 'v1', resource: 'configmaps' },
      name,
      namespace,
      operation: 'CREATE',
      userInfo: { username: 'admin', groups: ['system:masters'] },
      object: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name } },
    },
  };
}
