import { Agent, get } from 'node:http';
import { Hono } from 'hono';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { NO_QUEUES } from '../../../../test/harness/login.ts';
import { silentLogger } from '../../../core/index.ts';
import { AdminServer } from './admin-server.ts';

/** One more than one address may have. */
const MANY = 513;
let server: AdminServer;
let agent: Agent;
/** How many requests wait for the check of their token. */
let checked: number;
let checks: PromiseWithResolvers<undefined>;
/** Resolves when all requests wait, so that none was refused. */
let allWait: PromiseWithResolvers<'none was refused'>;

beforeEach(async () => {
  checked = 0;
  checks = Promise.withResolvers();
  allWait = Promise.withResolvers();
  agent = new Agent();
  const identify = (): Promise<undefined> => {
    checked += 1;
    if (checked === MANY) allWait.resolve('none was refused');
    return checks.promise;
  };
  const sessions = { start: async () => '', tokenOf: async () => undefined, end: async () => {} };
  server = new AdminServer({
    listen: { host: '127.0.0.1', port: 0 },
    live: new Map(),
    ready: new Map(),
    metrics: async () => '',
    apis: {
      dashboard: new Hono(),
      reconcile: new Hono(),
      queues: NO_QUEUES,
      profiles: new Hono(),
    },
    login: {
      backend: () => ({ identities: [{ identify }], sessions }),
      metrics: true,
      onLoopback: true,
      auditLog: silentLogger,
    },
    logger: silentLogger,
  });
  await server.start();
});
afterEach(async () => {
  checks.resolve(undefined);
  agent.destroy();
  await server.stop();
});

async function statusOf(path: string, localAddress: string): Promise<number> {
  const headers = { authorization: 'Bearer guess' };
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  get(server.url + path, { agent, headers, localAddress }, (answer) => {
    answer.resume();
    resolve(answer.statusCode ?? 0);
  }).on('error', reject);
  return promise;
}

it.each(['/dashboard', '/queues', '/views', '/functions', '/metrics', '/debug/pprof/heap'])(
  'bounds the requests of an address at %s before it is known who sends them',
  async (path) => {
    const statuses = Array.from({ length: MANY }, () => statusOf(path, '127.0.0.2'));
    expect(await Promise.race([...statuses, allWait.promise])).toBe(503);
    const other = statusOf(path, '127.0.0.3');
    checks.resolve(undefined);
    expect(await other).toBe(401);
    const all = await Promise.all(statuses);
    expect(all.filter((status) => status === 503)).toHaveLength(1);
    expect(checked).toBe(MANY);
  },
);
