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
    return (await this.#get(url)).text();
  }

  async stream(url: string): Promise<AsyncIterable<Buffer>> {
    return this.#get(url);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #get(url: string) {
    const { statusCode, body } = await request(url, { dispatcher: this.#dispatcher, signal: this.#signal ?? null });
    if (statusCode === 200) return body;
    await body.dump();
    throw new Error(`${url} was answered with ${statusCode}`);
  }
}
