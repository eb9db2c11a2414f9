import type { ApiTransport } from './api-transport.ts';

/** The part of `fetch` that the transport needs. It must not follow redirects. */
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
  /** @param name in lower case. */
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}>;

export interface FetchTransportOptions {
  /** `https://host:port` of the apiserver. */
  readonly server: string;
  /** Returns the bearer token for each request, because service account tokens are rotated. */
  readonly token: () => string | Promise<string>;
  /** Default: the platform's. */
  readonly fetch?: ApiFetch;
}

/**
 * Reaches the apiserver through `fetch`, wherever a function runs. The platform must trust the apiserver's certificate.
 * A redirect counts as a refusal, because the token must not reach another server.
 */
export function fetchTransport(options: FetchTransportOptions): ApiTransport {
  return async ({ method, path, contentType, accept = 'application/json', body, traceparent, signal }) => {
    const response = await (options.fetch ?? fetch)(options.server + path, {
      method,
      signal,
      redirect: 'manual',
      headers: {
        authorization: `Bearer ${await options.token()}`,
        accept,
        ...(contentType ? { 'content-type': contentType } : {}),
        ...(traceparent ? { traceparent } : {}),
      },
      ...(body === undefined ? {} : { body }),
    });
    return { status: response.status, body: await response.text(), retryAfter: response.headers.get('retry-after') };
  };
}
