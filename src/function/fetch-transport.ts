import type { ApiTransport } from './api-transport.ts';

/** What the transport needs of `fetch`, which is one. It must not follow redirects. */
export type ApiFetch = (
  url: string,
  init: {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly body?: string;
    readonly redirect: 'manual';
    readonly signal: AbortSignal;
  },
) => Promise<{
  readonly status: number;
  /** @param name in small letters. */
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}>;

export interface FetchTransportOptions {
  /** `https://host:port` of the apiserver. */
  readonly server: string;
  /** The bearer token, asked for at each request: service account tokens are rotated. */
  readonly token: () => string | Promise<string>;
  /** Default: the platform's. */
  readonly fetch?: ApiFetch;
}

/**
 * Reaches the apiserver by `fetch`, wherever a function runs. The platform must trust the apiserver's certificate. A
 * redirect is a refusal, because the token is for no other server.
 */
export function fetchTransport(options: FetchTransportOptions): ApiTransport {
  return async ({ method, path, contentType, accept = 'application/json', body, signal }) => {
    const response = await (options.fetch ?? fetch)(options.server + path, {
      method,
      signal,
      redirect: 'manual',
      headers: {
        authorization: `Bearer ${await options.token()}`,
        accept,
        ...(contentType ? { 'content-type': contentType } : {}),
      },
      ...(body === undefined ? {} : { body }),
    });
    return { status: response.status, body: await response.text(), retryAfter: response.headers.get('retry-after') };
  };
}
