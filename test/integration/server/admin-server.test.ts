import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Hono } from 'hono';
import { describe, expect } from 'vitest';
import { greeting } from '../../../functions/examples/01-minimal/greeting.ts';
import { METRICS, silentLogger, systemClock } from '../../../src/core/index.ts';
import { generateSecret, importSecret, sign } from '../../../src/contract/index.ts';
import type { HealthCheck } from '../../../src/gateway/process/health.ts';
import { AdminServer, CALLBACK_PATH } from '../../../src/gateway/http/server/admin-server.ts';
import { callbackApi, type CallbackEnv } from '../../../src/gateway/http/server/callback-api.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { NO_LOGIN, NO_QUEUES } from '../../harness/login.ts';
import { createSetting } from '../../harness/levelhook.ts';
import { ownBounds } from '../../harness/own-bounds.ts';
import { openFunction, openGateway } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

const ok: HealthCheck = () => undefined;

async function withServer(
  options: {
    callbacks?: Hono<CallbackEnv>;
    host?: string;
    live?: [string, HealthCheck][];
    ready?: [string, HealthCheck][];
    metrics?: string;
  },
  use: (url: string) => Promise<void>,
): Promise<void> {
  const server = new AdminServer({
    listen: { host: options.host ?? '127.0.0.1', port: 0 },
    live: new Map(options.live ?? [['ping', ok]]),
    ready: new Map(options.ready ?? [['redis', ok]]),
    metrics: async () => options.metrics ?? '',
    apis: {
      dashboard: new Hono(),
      reconcile: new Hono(),
      queues: NO_QUEUES,
      ...(options.callbacks ? { callbacks: options.callbacks } : {}),
    },
    login: NO_LOGIN,
    logger: silentLogger,
  });
  await server.start();
  try {
    await use(server.url);
  } finally {
    await server.stop();
  }
}

async function get(url: string): Promise<[number, string]> {
  const answer = await fetch(url, { redirect: 'manual' });
  return [answer.status, await answer.text()];
}

/** Sends this on one connection. @returns the status of each answer, until the connection is closed. */
async function statusesOf(url: string, text: string): Promise<string[]> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {});
  let answers = '';
  socket.on('data', (chunk: Buffer) => (answers += chunk.toString())).write(text);
  await new Promise((resolve) => socket.once('close', resolve));
  return [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status = '']) => status);
}

it('a client that sends one request after the other without waiting ends neither the gateway nor its answers', async () => {
  await withServer({}, async (url) => {
    for (const head of [
      'host: 127.0.0.1\r\nexpect: x',
      'x: x',
      'host: 127.0.0.1\r\nupgrade: x\r\nconnection: upgrade',
    ]) {
      await statusesOf(url, `GET /livez HTTP/1.1\r\n${head}\r\n\r\n`.repeat(3000));
      expect(await get(`${url}/livez`)).toEqual([200, 'ok']);
    }
    // By no name, it is not this gateway that the client asks.
    expect(await statusesOf(url, 'GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n')).toEqual(['400']);
  });
});

it('metrics are served after thousands of requests that take no body', async () => {
  await withServer({ metrics: 'm'.repeat(200_000) }, async (url) => {
    for (let at = 0; at < 500; at += 1) {
      const answer = await fetch(`${url}/metrics`, { method: 'HEAD' });
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/plain; charset=UTF-8']);
    }
    expect(await get(`${url}/metrics`)).toEqual([200, 'm'.repeat(200_000)]);
  });
});

describe('the health of a gateway', () => {
  it('is one word while all is well, and each check by name when asked', async () => {
    await withServer(
      {
        ready: [
          ['redis', ok],
          ['functions', ok],
        ],
      },
      async (url) => {
        expect(await get(`${url}/livez`)).toEqual([200, 'ok']);
        expect(await get(`${url}/readyz`)).toEqual([200, 'ok']);
        expect(await get(`${url}/readyz?verbose`)).toEqual([200, '[+]redis ok\n[+]functions ok\n']);
      },
    );
  });

  it('is 503 and names what is wrong; readiness does not make it unlive', async () => {
    const ready: [string, HealthCheck][] = [
      ['redis', () => 'not connected'],
      ['informers', ok],
      ['functions', () => 'http://f: silent'],
    ];
    await withServer({ ready }, async (url) => {
      const lines = '[-]redis failed: not connected\n[+]informers ok\n[-]functions failed: http://f: silent\n';
      expect(await get(`${url}/readyz`)).toEqual([503, lines]);
      expect(await get(`${url}/livez`)).toEqual([200, 'ok']);
    });
  });

  it('takes a check that throws for one that failed', async () => {
    const broken = (): never => {
      throw new Error('no idea');
    };
    await withServer({ live: [['ping', broken]], ready: [['redis', broken]] }, async (url) => {
      expect(await get(`${url}/livez`)).toEqual([503, '[-]ping failed: no idea\n']);
      expect(await get(`${url}/readyz`)).toEqual([503, '[-]redis failed: no idea\n']);
    });
  });
});

it('a gateway shows nothing but health and metrics without a login on an address that is not loopback', async () => {
  // It is loopback really, but in a spelling that does not count as it: nothing else may be bound in a test.
  await withServer({ host: '::ffff:127.0.0.2' }, async (url) => {
    for (const path of ['/dashboard', '/dashboard/', '/dashboard/api/queues', '/queues', '/queues/']) {
      expect((await get(url + path))[0], path).toBe(401);
    }
    expect(await get(`${url}/metrics`)).toEqual([200, '']);
    expect(await get(`${url}/livez`)).toEqual([200, 'ok']);
  });
});

it(
  'a connection is kept whose request was answered before its body came, for the next request',
  { timeout: 60_000 },
  async () => {
    await withServer({}, async (url) => {
      const { port, hostname } = new URL(url);
      const socket = connect(Number(port), hostname);
      let answers = '';
      socket.setEncoding('utf8').on('data', (text: string) => (answers += text));
      const body = 'x'.repeat(1000);
      socket.write(`POST /nothing HTTP/1.1\r\nHost: ${hostname}\r\nContent-Length: ${body.length}\r\n\r\n`);
      await eventually(async () => expect(answers).toContain('404'));
      // Longer than a client needs for a large body on a busy machine.
      await sleep(1500);
      socket.write(`${body}GET /livez HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\n\r\n`);
      await once(socket, 'close');
      expect(answers).toMatch(/HTTP\/1.1 200 OK[^]*ok$/);
    });
  },
);

describe('a client that writes its whole request before it reads', () => {
  const MIB = 1024 * 1024;
  const chunk = `${MIB.toString(16)}\r\n${'x'.repeat(MIB)}\r\n`;

  it.each<[string, string, string]>([
    ['in one piece', `content-length: ${6 * MIB}`, 'x'.repeat(6 * MIB)],
    ['in chunks', 'transfer-encoding: chunked', `${chunk.repeat(6)}0\r\n\r\n`],
  ])(
    'reads that its callback is too large, and sends the next request on the connection: %s',
    { timeout: 60_000 },
    async (_how, length, body) => {
      const secret = generateSecret();
      const keys = [await importSecret(secret)];
      const taker = {
        functionName: 'web',
        keys,
        bounds: ownBounds(),
        callback: async () => ({ kind: 'taken' }) as const,
      };
      const callbacks = callbackApi({
        healthy: () => true,
        mayCome: () => false,
        controller: () => taker,
        clock: systemClock,
        logger: silentLogger,
      });
      await withServer({ callbacks }, async (url) => {
        const { port, hostname } = new URL(url);
        const socket = connect(Number(port), hostname).pause();
        const signed = Object.entries(await sign(keys, { id: 'msg', nowMs: Date.now(), body: '' }));
        const headers = [`host: ${hostname}`, length, ...signed.map((header) => header.join(': '))].join('\r\n');
        await new Promise<void>((written, failed) => {
          const post = `POST ${CALLBACK_PATH}/web HTTP/1.1\r\n${headers}\r\n\r\n${body}`;
          socket.write(post, (error) => (error ? failed(error) : written()));
        });
        socket.write(`GET /livez HTTP/1.1\r\nhost: ${hostname}\r\nconnection: close\r\n\r\n`);
        let answers = '';
        socket
          .setEncoding('utf8')
          .on('data', (text: string) => (answers += text))
          .resume();
        await once(socket, 'close');
        expect(answers).toMatch(/^HTTP\/1.1 413 [^]*the body is over 1 MiB[^]*HTTP\/1.1 200 OK[^]*ok$/);
      });
    },
  );
});

describe('the rest of a body whose request was answered', () => {
  it('loses its connection beyond 16 MiB', async () => {
    await withServer({}, async (url) => {
      const { port, hostname } = new URL(url);
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {});
      const closed = new Promise((resolve) => socket.once('close', resolve));
      socket.write(`POST /livez HTTP/1.1\r\nhost: ${hostname}\r\ncontent-length: ${2 ** 31}\r\n\r\n`);
      const [answer] = (await once(socket, 'data')) as [Buffer];
      expect(answer.toString()).toMatch(/^HTTP\/1.1 405 /);
      const piece = Buffer.alloc(2 ** 20);
      let sent = 0;
      const send = (): void => {
        while (sent < 1024 && !socket.destroyed) {
          sent += 1;
          if (!socket.write(piece)) {
            socket.once('drain', send);
            return;
          }
        }
      };
      send();
      await closed;
      expect(sent).toBeGreaterThan(16);
      expect(sent).toBeLessThan(1024);
    });
  });
});

describe('the server of a gateway', () => {
  const nowhere = 'http://127.0.0.1:1';
  let url: string;
  let incomplete: string;

  it.beforeAll(async ({ world }) => {
    const { setting, started } = world;
    const fn = started.keep(await openFunction(setting, [greeting]));
    ({ url: incomplete } = started.keep(await openGateway(createSetting(setting), [nowhere])));
    ({ url } = await world.gateway([`${fn.url}/greeting`]));
  });

  it('names a function that does not answer', async () => {
    await eventually(async () => {
      const [status, text] = await get(`${incomplete}/readyz`);
      expect(status).toBe(503);
      expect(text).toContain(`[-]functions failed: ${nowhere}: `);
      expect(text).toContain('connection refused');
    });
    expect(await get(`${incomplete}/livez`)).toEqual([200, 'ok']);
  });

  it("gives metrics in Prometheus' text form, under the names of client-go and controller-runtime", async ({
    world: { cluster, namespace },
  }) => {
    // A change while it runs: the time in the queue is not counted for keys that waited as its backlog at start.
    await cluster.create(configMaps, { metadata: { namespace, name: 'counted' } });
    const { host } = new URL(cluster.client.server);
    const queue = 'name="greeting",controller="greeting"';
    // Dashboards that people have: the name and its labels, on a gateway that has run something.
    const series = [
      `workqueue_depth{${queue},priority="0"}`,
      `workqueue_adds_total{${queue}}`,
      `workqueue_queue_duration_seconds_count{${queue}}`,
      `workqueue_queue_duration_seconds_bucket{le="0.01",${queue}}`,
      `workqueue_work_duration_seconds_count{${queue}}`,
      `workqueue_unfinished_work_seconds{${queue}}`,
      `workqueue_longest_running_processor_seconds{${queue}}`,
      'controller_runtime_reconcile_total{controller="greeting",result="success"}',
      'controller_runtime_terminal_reconcile_errors_total{controller="greeting"}',
      'controller_runtime_reconcile_time_seconds_sum{controller="greeting"}',
      'controller_runtime_active_workers{controller="greeting"}',
      'controller_runtime_max_concurrent_reconciles{controller="greeting"}',
      `rest_client_requests_total{code="200",method="GET",host="${host}"}`,
      `rest_client_request_duration_seconds_count{verb="GET",host="${host}"}`,
      'informer_store_resource_version{name="v1/ConfigMap",group="",version="v1",resource="configmaps"}',
      'levelhook_view_behind_seconds{resource="v1/ConfigMap"}',
      'levelhook_event_to_reconcile_seconds_count{controller="greeting"}',
    ];
    const [answer, text] = await eventually(async () => {
      const answer = await fetch(`${url}/metrics`);
      const text = await answer.text();
      for (const each of series) expect(text, each).toContain(`\n${each} `);
      return [answer, text] as const;
    });
    expect(answer.headers.get('content-type')).toMatch(/^text\/plain\b/);
    expect(text.endsWith('\n')).toBe(true);
    const types = new Map<string, string>();
    for (const line of text.trimEnd().split('\n')) {
      const type = /^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary)$/.exec(line);
      if (type) types.set(type[1] ?? '', type[2] ?? '');
      const sample =
        /^[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_]\w*="([^"\\]|\\.)*",?)*\})? (NaN|[+-]Inf|-?[0-9.]+(e[+-]?[0-9]+)?)$/;
      if (!line.startsWith('# ') && line !== '') expect(line).toMatch(sample);
    }
    const expected = [
      ...Object.keys(METRICS.counters).map((name) => [name, 'counter']),
      ...Object.keys(METRICS.gauges).map((name) => [name, 'gauge']),
      ...Object.keys(METRICS.histograms).map((name) => [name, 'histogram']),
    ];
    for (const [name = '', type] of expected) expect(types.get(name), name).toBe(type);
  });
});

describe('connections to a gateway', () => {
  it('from one address are bounded, and leave room for others', async () => {
    const sockets: Socket[] = [];
    await withServer({}, async (url) => {
      const { port } = new URL(url);
      let closed = 0;
      const startedMs = performance.now();
      // Half of all, and some more.
      for (let at = 0; at < 4300; at += 1) {
        const socket = connect({ port: Number(port), host: '127.0.0.1', localAddress: '127.0.0.2' });
        sockets.push(socket);
        // Reads the answer 408 of a connection that is late, which ends with it.
        socket.resume().on('error', () => {});
        socket.once('close', () => (closed += 1));
        await once(socket, 'connect');
      }
      // After ten seconds they are closed as late, with a bound or without one.
      const leftMs = 8000 - (performance.now() - startedMs);
      if (leftMs > 3000) await eventually(async () => expect(closed).toBeGreaterThanOrEqual(4300 - 4096), leftMs, 20);
      expect(await get(`${url}/livez`)).toEqual([200, 'ok']);
    });
    for (const socket of sockets) socket.destroy();
  });
});
