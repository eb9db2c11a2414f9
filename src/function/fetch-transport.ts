import type { ApiTransport } from './api-transport.ts';

export interface FetchTransportOptions {
  /** `https://host:port` of the apiserver. */
  readonly server: string;
  /** The bearer token, asked for at each request: service account tokens are rotated. */
  readonly token: () => string | Promise<string>;
  /** Default: the platform's. */
  readonly fetch?: typeof fetch;
}

/** Reaches the apiserver by `fetch`, wherever a function runs. The platform must trust the apiserver's certificate. */
export function fetchTransport(options: FetchTransportOptions): ApiTransport {
  return async ({ method, path, contentType, body, signal }) => {
    const response = await (options.fetch ?? fetch)(options.server + path, {
      method,
      signal,
      headers: {
        authorization: `Bearer ${await options.token()}`,
        accept: 'application/json',
        ...(contentType ? { 'content-type': contentType } : {}),
      },
      ...(body === undefined ? {} : { body }),
    });
    return { status: response.status, body: await response.text(), retryAfter: response.headers.get('retry-after') };
  };
}
