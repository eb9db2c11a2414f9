import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { LimitedLines, type LogFields, silentLogger, silentMetrics, systemClock } from '../../../core/index.ts';
import { generateSecret, LEVELHOOK_HEADER } from '../../../contract/index.ts';
import { importExtractableSecret } from '../../../contract/signature.ts';
import { CacheAccess } from '../access/cache-access.ts';
import { Endpoint } from '../endpoint/endpoint.ts';
import { Dispatcher } from './dispatcher.ts';
import { FAILURE_LINES } from './run-report.ts';
import { ownBounds } from '../../../../test/harness/own-bounds.ts';

it('a key that fails again and again does not fill the log, and a later line counts those that are left out', async () => {
  const server = createServer((request, response) => {
    request.resume();
    const body = { version: 'v1', results: [{ status: 'error', message: 'no' }] };
    response.writeHead(200, { [LEVELHOOK_HEADER]: 'v1' }).end(JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const endpoint = new Endpoint(url, [await importExtractableSecret(generateSecret())], { connections: 2 });
  onTestFinished(async () => {
    await endpoint.close();
    server.closeAllConnections();
    server.close();
  });
  let nowMs = 0;
  const clock = { ...systemClock, now: () => nowMs };
  const lines = new LimitedLines(clock, FAILURE_LINES);
  const warned: LogFields[] = [];
  const logger = { ...silentLogger, warn: (fields: LogFields) => void warned.push(fields) };
  const dispatcher = new Dispatcher({
    bounds: { ...ownBounds(), admitLine: () => lines.admit('tenant') },
    controller: 'c',
    views: [],
    starts: { keys: { allow: () => {} }, ending: new AbortController().signal },
    target: { endpoint, cacheAccess: new CacheAccess({ views: [], api: undefined, clock }) },
    runtime: { clock, logger, metrics: silentMetrics },
    settings: { logTriggers: true, startWindowMs: 0 },
  });
  const fail = () =>
    dispatcher.run([
      { key: 'a/b', run: 1, incarnation: 'i', failures: 3, reasons: [], deadlineMs: clock.now() + 60_000 },
    ])[0];
  for (let run = 0; run < 300; run += 1) await fail();
  expect(warned).toHaveLength(200);
  nowMs += 1000;
  await fail();
  expect(warned.slice(200)).toMatchObject([{ key: 'a/b', error: 'no', leftOut: 100 }]);
});
