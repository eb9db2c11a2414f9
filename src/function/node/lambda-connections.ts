import { Agent as HttpAgent, type RequestOptions, request as httpRequest } from 'node:http';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { type Clock, systemClock } from '../../core/index.ts';

/** A request as `fetch` takes it. */
interface Init {
  readonly method?: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
  readonly signal: AbortSignal;
}

interface Answer {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}

/** An idle connection is trusted this long: the other end, or a device between, closes it later. */
const IDLE_MS = 4000;

/**
 * Connections of a process that is frozen between its requests. A frozen process does not notice that the other end
 * has closed an idle connection, and its timers stand still. A write on such a connection gets no answer, which makes
 * the outcome of its run unknown. So connections from before a pause are closed. The wall clock measures the pause,
 * because it does not stop.
 */
export class LambdaConnections {
  readonly #clock: Pick<Clock, 'wallNow'>;
  readonly #agents: HttpAgent[] = [];
  /** An instance may be configured to handle several at a time. */
  #requests = 0;
  #idleSinceMs = -Infinity;

  constructor(clock: Pick<Clock, 'wallNow'> = systemClock) {
    this.#clock = clock;
  }

  /** Called before a request is handled. */
  begin(): void {
    const isFirst = this.#requests === 0;
    this.#requests += 1;
    if (!isFirst || this.#clock.wallNow() - this.#idleSinceMs <= IDLE_MS) return;
    for (const agent of this.#agents) agent.destroy();
  }

  /** Called after a request. The process may be frozen from now on. */
  end(): void {
    this.#requests -= 1;
    this.#idleSinceMs = this.#clock.wallNow();
  }

  /**
   * A `fetch` that follows no redirect, for the apiserver and for the cache API.
   * @param ca in PEM. Default: the well-known authorities.
   */
  fetchTrusting(ca?: string): (url: string, init: Init) => Promise<Answer> {
    const connections = { keepAlive: true, maxSockets: 32 };
    const [plain, secure] = [new HttpAgent(connections), new Agent({ ...connections, ...(ca ? { ca } : {}) })];
    this.#agents.push(plain, secure);
    return (url, init) =>
      url.startsWith('https:') ? send(request, secure, url, init) : send(httpRequest, plain, url, init);
  }
}

function send(
  open: typeof httpRequest,
  agent: HttpAgent,
  url: string,
  { method = 'GET', headers, body, signal }: Init,
): Promise<Answer> {
  const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
  const options: RequestOptions = { agent, method, signal, headers: { ...headers, ...length } };
  return new Promise((resolve, reject) => {
    const outgoing = open(url, options, (incoming) => {
      const status = incoming.statusCode ?? 0;
      resolve({
        ok: status >= 200 && status < 300,
        status,
        headers: { get: (name) => incoming.headers[name]?.toString() ?? null },
        text: () => text(incoming),
      });
    });
    outgoing.on('error', reject).end(body);
  });
}
