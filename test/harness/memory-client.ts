import { PassThrough } from 'node:stream';
import { ApiError, statusFrom } from '../../src/core/index.ts';
import type { ApiClient, ApiRequest } from '../../src/ground/apiserver/api-client.ts';
import { MemoryApiserver } from '../../src/testing/reconciler/index.ts';

export { MemoryApiserver };

/** What happens to each request: it arrives when `arrive` is called, and its answer is known when this resolves. */
export type Network = (arrive: () => Promise<unknown>, request: ApiRequest) => Promise<unknown>;

/** The gateway's client of an apiserver in memory. Its watches show nothing. */
export function memoryClient(
  apiserver: MemoryApiserver,
  network: Network = (arrive) => arrive(),
): Pick<ApiClient, 'json' | 'stream'> {
  const send = async (request: ApiRequest): Promise<unknown> => {
    const { body, contentType = 'application/json', method = 'GET', path, query = {} } = request;
    const parameters = Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]);
    const { status, body: text } = await apiserver.direct({
      method,
      path: parameters.length > 0 ? `${path}?${new URLSearchParams(parameters).toString()}` : path,
      ...(body === undefined ? {} : { contentType, body: JSON.stringify(body) }),
      signal: new AbortController().signal,
    });
    if (status >= 300) throw new ApiError(statusFrom(text, status));
    return JSON.parse(text);
  };
  return {
    json: async <T>(request: ApiRequest) => (await network(() => send(request), request)) as T,
    stream: async () => new PassThrough(),
  };
}
