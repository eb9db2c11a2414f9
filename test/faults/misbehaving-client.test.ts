import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { AskingOptions } from '../harness/asking-thread.ts';
import { createSetting, startFunction, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { stillDuring } from '../harness/pace.ts';
import type { TestProcess } from '../harness/process.ts';
import { Started } from '../harness/started.ts';
import { WatchedVictim } from './hostile-tenant/watched-victim.ts';

const TOKEN = 'the-token-of-the-operator';
const MIB = 1024 * 1024;
const ATTACK_MS = 4000;

describe('a client that does not behave', () => {
  const started = new Started();
  let gateway: { process: TestProcess; url: string };
  let fn: { process: TestProcess; url: string };
  let victim: WatchedVictim;

  beforeAll(async () => {
    const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    fn = started.keep(await startFunction(setting, 'examples/01-minimal'));
    const namespace = uniqueName('misbehaving');
    const cluster = await started.cluster(inject('kubeconfig'), namespace);
    victim = await WatchedVictim.start(started, setting, { cluster, namespace });
    gateway = started.keep(
      await startGateway(setting, [fn.url, victim.url], { LEVELHOOK_API_TOKENS: TOKEN, ...victim.variables }),
    );
    await untilReady(gateway.url);
    await victim.watch(gateway);
  });

  afterAll(() => started.stop());

  /** How long the server keeps a connection on which this was sent, and nothing more. */
  async function keptMs(url: string, text: string): Promise<number> {
    const from = machineMs();
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => {});
    socket.resume().write(text);
    await once(socket, 'close');
    return machineMs() - from;
  }

  it('that announces a body and sends none is let go of within 15 s, without a stack', async () => {
    const announced = (path: string): string =>
      `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${TOKEN}\r\n` +
      'content-type: application/json\r\ncontent-length: 1000\r\n\r\n{';
    const closing = Promise.all([
      keptMs(gateway.url, announced('/reconcile')),
      keptMs(gateway.url, announced('/queues/greeting/drop')),
      keptMs(gateway.url, announced('/cache/callbacks/greeting')),
      keptMs(gateway.url, 'GET /livez HTTP/1.1\r\nhost: 127.'),
      keptMs(fn.url, announced('/')),
      keptMs(fn.url, 'GET / HTTP/1.1\r\nhost: 127.'),
    ]);
    const stillMs = await stillDuring(closing);
    for (const ms of await closing) expect(ms - stillMs).toBeLessThan(15_000);
    for (const { process } of [gateway, fn]) {
      // The logger writes JSON alone: Node itself has written any other line.
      expect(process.lines.filter((line) => 'text' in line)).toEqual([]);
      expect(process.alive).toBe(true);
    }
  });

  it.each<[string, string, number]>([
    ['a queue, more than 64 KiB', '/queues/greeting/drop', 413],
    ['/reconcile', '/reconcile', 413],
    ['a callback without a signature', '/cache/callbacks/greeting', 401],
    ['what takes none: health', '/livez', 405],
    ['what takes none: metrics', '/metrics', 405],
    ['the dashboard, more than 64 KiB', '/dashboard/controllers/greeting/reconcile', 413],
    ['what is not there', '/nothing', 404],
  ])('that sends 100 MiB to %s is refused, and the gateway does not keep them', async (_what, path, status) => {
    for (const headers of [{ 'content-length': String(100 * MIB) }, { 'transfer-encoding': 'chunked' }]) {
      const asked = request(gateway.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', ...headers },
      });
      let sent = 0;
      const part = Buffer.alloc(MIB / 4, ' ');
      const more = (): void => {
        while (sent < 100 * MIB && !asked.destroyed && asked.write(part)) sent += part.length;
      };
      asked.on('drain', more).on('error', () => {});
      const answered = once(asked, 'response') as Promise<[{ statusCode?: number; resume: () => void }]>;
      more();
      const [answer] = await answered;
      expect(answer.statusCode).toBe(status);
      asked.destroy();
    }
  });

  it('that asks for metrics and sends callbacks without a signature all the time delays no other', async () => {
    const from = gateway.process.lines.length;
    const fromMs = machineMs();
    const rendered = new Set<string>();
    let refused = 0;
    const isEnough = (): boolean => machineMs() >= fromMs + ATTACK_MS && refused > 200;
    const repeat = async (ask: () => Promise<void>): Promise<void> => {
      while (!isEnough()) await ask();
    };
    const scrape = async (): Promise<void> => {
      rendered.add(await (await fetch(`${gateway.url}/metrics`)).text());
    };
    const callBack = async (): Promise<void> => {
      const url = `${gateway.url}/cache/callbacks/greeting`;
      const answer = await fetch(url, { method: 'POST', body: ' '.repeat(10_000) });
      if (answer.status === 401) refused += 1;
      await answer.arrayBuffer();
    };
    await victim.during(() =>
      Promise.all([
        ...Array.from({ length: 200 }, () => repeat(scrape)),
        ...Array.from({ length: 20 }, () => repeat(callBack)),
      ]),
    );
    const lines = gateway.process.lines.slice(from).filter(({ msg }) => String(msg).includes('callback'));
    process.stdout.write(`${rendered.size} scrapes, ${refused} refused callbacks in ${lines.length} lines\n`);
    // Once a second, each with the processor time of its moment, for however many clients.
    expect(rendered.size).toBeLessThanOrEqual((machineMs() - fromMs) / 1000 + 2);
    expect(lines.length).toBeLessThan(50);
  });

  it.each(['/', '/readyz', '/metrics', '/dashboard', '/cache/x'])(
    'that sends requests to %s without waiting for answers is disconnected, and delays no other',
    async (path) => {
      const { port } = new URL(gateway.url);
      const untilMs = machineMs() + ATTACK_MS;
      // As much as comes in one turn, several times.
      const requests = Buffer.from(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`.repeat(20_000));
      let disconnected = 0;
      const flood = async (): Promise<void> => {
        do {
          const socket = connect(Number(port), '127.0.0.1').on('error', () => {});
          socket.resume().write(requests);
          await new Promise((resolve) => socket.once('close', resolve));
          disconnected += 1;
          await sleep(20);
        } while (machineMs() < untilMs);
      };
      await victim.during(() => Promise.all(Array.from({ length: 20 }, flood)));
      expect(disconnected).toBeGreaterThan(20);
    },
  );

  it.each(['/', '/cache/x'])('that asks for %s on 4,000 connections again and again delays no other', async (path) => {
    const workerData: AskingOptions = { url: gateway.url + path, count: 4000 };
    const client = new Worker(new URL('../harness/asking-thread.ts', import.meta.url), { workerData });
    try {
      await once(client, 'message');
      await victim.during(() => sleep(ATTACK_MS));
    } finally {
      await client.terminate();
    }
  });

  it.each(['/livez', '/readyz', '/metrics', '/queues', '/dashboard/', '/reconcile', '/'])(
    'that asks for %s by a name which is not the gateway, as a page does that has rebound its own, is refused',
    async (path) => {
      const ask = async (host: string): Promise<number | undefined> => {
        const asked = request(gateway.url + path, { headers: { host } });
        asked.end();
        const [answer] = (await once(asked, 'response')) as [{ statusCode?: number; resume: () => void }];
        answer.resume();
        return answer.statusCode;
      };
      expect(await ask('rebound.example.com')).toBe(403);
      expect(await ask('localhost')).not.toBe(403);
    },
  );
});
