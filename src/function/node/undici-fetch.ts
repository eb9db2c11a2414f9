import { Agent, request } from 'undici';
import type { CacheFetch } from '../http-reader.ts';

/**
 * What a reader of the cache API needs of `fetch`, over undici's own client, which takes some three fifths of its time.
 * `serveFunction` and `serveController` read with it. Connections are kept and shared by all readers of
 * the process. Follows no redirect.
 */
export const undiciFetch: CacheFetch = async (url, { headers, signal }) => {
  const { statusCode: status, headers: answered, body } = await request(url, { headers, signal, dispatcher });
  return {
    ok: status >= 200 && status < 300,
    status,
    headers: { get: (name) => answered[name]?.toString() ?? null },
    text: () => body.text(),
  };
};

/**
 * In HTTP/2, which a proxy before the gateway may offer, a request that is given up can end the process: see
 * `client-node-transport`.
 */
const dispatcher = new Agent({ allowH2: false });
