import { type Dispatcher, EnvHttpProxyAgent, interceptors, request } from 'undici';

import type { Environment } from '../process/environment.ts';

const connectTimeoutMs = 3_000;
const silenceTimeoutMs = 15_000;

/**
 * Downloads over HTTP, through a proxy if the environment names one, following redirects. Gives up quickly on an
 * unreachable server; any status but 200 is an error.
 */
export class Downloader {
  readonly #agent: EnvHttpProxyAgent;
  readonly #dispatcher: Dispatcher;
  readonly #signal: AbortSignal | undefined;

  constructor(env: Environment, signal?: AbortSignal) {
    const proxy = (name: string): string => env[name.toLowerCase()] ?? env[name] ?? '';
    this.#agent = new EnvHttpProxyAgent({
      httpProxy: proxy('HTTP_PROXY'),
      httpsProxy: proxy('HTTPS_PROXY'),
      noProxy: proxy('NO_PROXY'),
      connect: { timeout: connectTimeoutMs },
      headersTimeout: silenceTimeoutMs,
      bodyTimeout: silenceTimeoutMs,
    });
    this.#dispatcher = this.#agent.compose(interceptors.redirect({ maxRedirections: 5 }));
    this.#signal = signal;
  }

  async text(url: string): Promise<string> {
    return (await this.#get(url)).body.text();
  }

  /** @param known so many bytes of it are here already: it begins behind them if the server can do that, else anew. */
  async stream(url: string, known = 0): Promise<Download> {
    const answer =
      known > 0 ? await this.#get(url, { range: `bytes=${known}-` }, [206, 200, 416]) : await this.#get(url);
    if (answer.statusCode === 416) {
      await answer.body.dump();
      return this.stream(url);
    }
    const from = answer.statusCode === 206 ? known : 0;
    const length = Number(answer.headers['content-length']);
    return { body: answer.body, from, total: length > 0 ? from + length : undefined };
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #get(
    url: string,
    headers: Readonly<Record<string, string>> = {},
    wanted: readonly number[] = [200],
  ): Promise<Dispatcher.ResponseData> {
    const answer = await request(url, { dispatcher: this.#dispatcher, signal: this.#signal ?? null, headers });
    if (wanted.includes(answer.statusCode)) return answer;
    await answer.body.dump();
    throw new Error(`${url} was answered with ${answer.statusCode}`);
  }
}

export interface Download {
  readonly body: AsyncIterable<Buffer>;
  /** Where the body begins in the whole. */
  readonly from: number;
  /** Bytes of the whole; undefined when the server does not say. */
  readonly total: number | undefined;
}
