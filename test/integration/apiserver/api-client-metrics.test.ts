import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Credentials } from '../../../src/kubeconfig/credentials.ts';
import { PrometheusMetrics } from '../../../src/gateway/process/metrics.ts';
import { ApiClient } from '../../../src/ground/apiserver/api-client.ts';
import { LoopbackServer } from '../../harness/loopback-server.ts';

let server: LoopbackServer;
let credentials: Credentials;
let metrics: PrometheusMetrics;
let client: ApiClient;
let host: string;

beforeEach(async () => {
  server = new LoopbackServer(
    createServer((request, response) => {
      if (request.url === '/broken') return void request.socket.destroy();
      response.writeHead(request.url === '/missing' ? 404 : 200).end('{"a":1}');
    }),
  );
  await server.open();
  host = new URL(server.url).host;
  credentials = new Credentials({ server: server.url, read: async () => ({ tls: {}, headers: {} }) });
  metrics = new PrometheusMetrics();
  client = new ApiClient(credentials, metrics);
});

afterEach(async () => {
  await credentials.close();
  await server.close();
});

/** The series of a metric as `labels value`. */
async function series(name: string): Promise<string[]> {
  const lines = (await metrics.registry.metrics()).split('\n');
  return lines.flatMap((line) =>
    line.startsWith(`${name}{`) ? [line.slice(name.length).replaceAll(host, 'HOST')] : [],
  );
}

it('counts each request by what came back, as client-go does, with its duration and sizes', async () => {
  await client.json({ path: '/found' });
  await client.json({ method: 'POST', path: '/found', body: { text: 'ä' } });
  await expect(client.json({ path: '/missing' })).rejects.toThrow();
  await expect(client.json({ path: '/broken' })).rejects.toThrow();
  expect(await series('rest_client_requests_total')).toEqual([
    '{code="200",method="GET",host="HOST"} 1',
    '{code="200",method="POST",host="HOST"} 1',
    '{code="404",method="GET",host="HOST"} 1',
    '{code="<error>",method="GET",host="HOST"} 1',
  ]);
  expect(await series('rest_client_request_duration_seconds_count')).toEqual([
    '{verb="GET",host="HOST"} 3',
    '{verb="POST",host="HOST"} 1',
  ]);
  expect(await series('rest_client_request_size_bytes_sum')).toEqual(['{verb="POST",host="HOST"} 13']);
  expect(await series('rest_client_response_size_bytes_sum')).toEqual([
    '{verb="GET",host="HOST"} 7',
    '{verb="POST",host="HOST"} 7',
  ]);
});

it('counts a watch as a request, and measures no duration of it', async () => {
  expect(await text(await client.stream({ path: '/found' }))).toBe('{"a":1}');
  expect(await series('rest_client_requests_total')).toEqual(['{code="200",method="GET",host="HOST"} 1']);
  expect(await series('rest_client_request_duration_seconds_count')).toEqual([]);
});

it('measures a request that is passed on until its answer begins', async () => {
  const { signal } = new AbortController();
  const { body } = await client.forward({ method: 'GET', url: '/found', headers: {}, user: 'ann', signal });
  body.destroy();
  expect(await series('rest_client_request_duration_seconds_count')).toEqual(['{verb="GET",host="HOST"} 1']);
});
