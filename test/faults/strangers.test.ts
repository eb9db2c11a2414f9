import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, TLSSocket } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { HANDSHAKES } from '../../src/ground/handshake-rates.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import type { Handshakes, HandshakesOptions } from '../harness/handshakes-thread.ts';
import { createSetting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { slowdownDuring } from '../harness/pace.ts';
import { allow, ReviewFunction } from '../harness/review-function.ts';
import { Started } from '../harness/started.ts';
import type { StrangersOptions } from '../harness/strangers-thread.ts';
import { WatchedVictim } from './hostile-tenant/watched-victim.ts';
import { configureWebhook, reviewServing, type ReviewServing, reviewsUrl } from '../harness/webhook-configurations.ts';

const WRITES = 200;
/** As many at a time, each on a connection of its own. */
const WRITERS = 20;
const SILENT = 4200;
/** The address of a stranger that opens and closes connections as fast as it can. */
const HASTY = '127.0.0.5';
/** A write takes this long at most. On a slow machine it has longer. */
const WRITTEN_MS = 4000;
/** Twice that is longer than the apiserver waits. */
const SLOW_MS = 25_000;

const started = new Started();
const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };
let serving: ReviewServing;

beforeAll(async () => {
  serving = await reviewServing(started, inject('kubeconfig'));
});
afterAll(() => started.stop());

/**
 * A gateway with a process of its own, before a function with one webhook.
 * @param place of a victim of the gateway. Default: it has none.
 */
async function guarded(
  variables: Readonly<Record<string, string>>,
  place?: { readonly cluster: Cluster; readonly namespace: string },
) {
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const webhooks = [{ ...configMap, type: 'validating' as const, name: 'rule', operations: ['CREATE' as const] }];
  const fn = await started.open(new ReviewFunction({ name: 'guard', for: configMap, webhooks }, setting.secret));
  fn.behaviour = (review, response) => {
    if (review.request.name !== 'slow') return allow(review, response);
    setTimeout(() => allow(review, response), SLOW_MS).unref();
  };
  const victim = place && (await WatchedVictim.start(started, setting, place));
  const functions = [fn.url, ...(victim ? [victim.url] : [])];
  const gateway = started.keep(await startGateway(setting, functions, { ...variables, ...victim?.variables }));
  await untilReady(gateway.url);
  return { fn, victim, gateway, url: `${await reviewsUrl(gateway)}/webhooks/guard` };
}

it('a connection without a whole request ends, unless it is one of the apiserver', async () => {
  const portOf = async (variables: Readonly<Record<string, string>>): Promise<number> =>
    Number(new URL((await guarded(variables)).url).port);
  const known = await portOf(serving.settings);
  const anonymous = await portOf(serving.anonymous);
  const { ca, client } = serving;
  const closed: string[] = [];
  const open = async (name: string, socket: Socket, ...parts: string[]): Promise<void> => {
    socket.on('error', () => {}).on('close', () => closed.push(name));
    await once(socket, socket instanceof TLSSocket ? 'secureConnect' : 'connect');
    for (const part of parts) {
      socket.write(part);
      // The answer to a whole request.
      if (part.endsWith('}')) await once(socket, 'data');
    }
    socket.resume();
    started.add(async () => socket.destroy());
  };
  const tcp = (): Socket => connectTcp(known, '127.0.0.1');
  const tls = (port: number, more: object = {}): Socket => connectTls({ port, host: '127.0.0.1', ca, ...more });
  const head = 'POST /webhooks/guard/rule HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';
  await open('apiserver', tls(known, client));
  await open('silent', tcp());
  await open('half a handshake', tcp(), '\x16\x03\x01');
  await open('silent after the handshake', tls(known));
  await open('half a head', tls(known), head);
  await open('a body that lacks a byte', tls(known, client), `${head}content-length: 2\r\n\r\n{`);
  await open('half a second head', tls(anonymous), `${head}content-length: 2\r\n\r\n{}`, head);
  await eventually(async () => {
    expect(closed.toSorted()).toEqual([
      'a body that lacks a byte',
      'half a handshake',
      'half a head',
      'half a second head',
      'silent',
      'silent after the handshake',
    ]);
  });
});

/**
 * Silent connections, bodies that lack a byte, slow reviews, and requests without an end: with the addresses from which
 * each comes.
 */
describe.each([
  { gateway: 'that knows no apiserver', knows: false, addresses: ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.6'] },
  // As behind a proxy of the network: their address is that of the apiserver.
  { gateway: 'that knows the apiserver', knows: true, addresses: ['127.0.0.1', '127.0.0.1', '127.0.0.1', '127.0.0.1'] },
])('strangers at the port of reviews of a gateway $gateway', ({ knows, addresses }) => {
  const namespace = uniqueName('strangers');
  let cluster: Cluster;
  let victim: WatchedVictim;
  let url: string;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    const made = await guarded(knows ? serving.settings : serving.anonymous, { cluster, namespace });
    if (!made.victim) throw new Error('the gateway has no victim');
    ({ victim, url } = made);
    const options = { cluster, started, ca: serving.ca, namespace, name: namespace };
    await configureWebhook(options, url, {
      type: 'validating',
      name: 'rule',
      operations: ['CREATE'],
      rule: ['', 'v1', 'configmaps'],
      // A slow machine fails no write either.
      timeoutSeconds: 30,
    });
    await eventually(async () => {
      await cluster.create(configMaps, { metadata: { namespace, generateName: 'probe-' } });
      expect(made.fn.reviews).not.toEqual([]);
    });
    await victim.watch(made.gateway);
  });

  /** Writes during an attack. */
  async function write(): Promise<void> {
    const errors: string[] = [];
    let slowestMs = 0;
    const timed = async (work: () => Promise<unknown>): Promise<number> => {
      const beganMs = performance.now();
      await work().catch((error: unknown) => errors.push(String(error)));
      return performance.now() - beganMs;
    };
    let left = WRITES;
    const writeEach = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        const metadata = { namespace, generateName: 'write-' };
        slowestMs = Math.max(slowestMs, await timed(() => cluster.create(configMaps, { metadata })));
      }
    };
    const slowdown = await slowdownDuring(Promise.all(Array.from({ length: WRITERS }, writeEach)));
    process.stdout.write(`${WRITES} writes, the slowest took ${Math.round(slowestMs)} ms\n`);
    expect(errors).toEqual([]);
    expect(slowestMs).toBeLessThan(WRITTEN_MS * slowdown);
  }

  it(`that hold what they can get fail none of ${WRITES} writes of the cluster`, { timeout: 300_000 }, async () => {
    const [silent = '', bodies = '', slow = '', pipelining = ''] = addresses;
    const workerData: StrangersOptions = {
      url: `${url}/rule?timeout=30s`,
      namespace,
      silent: { address: silent, count: SILENT },
      bodies: { address: bodies, count: 10 },
      slow: { address: slow, count: 64 },
      pipelining: { address: pipelining, count: 20 },
    };
    const strangers = new Worker(new URL('../harness/strangers-thread.ts', import.meta.url), { workerData });
    try {
      // Each stranger has opened its connections by now.
      await once(strangers, 'message');
      await victim.during(write);
    } finally {
      await strangers.terminate();
    }
  });

  it(
    `that open and close connections fail none of ${WRITES} writes, and get few handshakes`,
    { timeout: 300_000 },
    async () => {
      const workerData: HandshakesOptions = { port: Number(new URL(url).port), address: HASTY, count: 64 };
      const stranger = new Worker(new URL('../harness/handshakes-thread.ts', import.meta.url), { workerData });
      let done: Handshakes = { tries: 0, answered: 0, elapsedMs: 0 };
      stranger.on('message', (message: Handshakes) => (done = message));
      try {
        await once(stranger, 'message');
        await victim.during(write);
        // Without a bound each of these is a handshake.
        await eventually(async () => expect(done.tries).toBeGreaterThan(HANDSHAKES.burst * 6), 120_000);
      } finally {
        await stranger.terminate();
      }
      const { tries, answered, elapsedMs } = done;
      process.stdout.write(`${tries} tries and ${answered} handshakes in ${Math.round(elapsedMs)} ms\n`);
      const allowed = HANDSHAKES.burst + (HANDSHAKES.perSecond * elapsedMs) / 1000;
      expect(answered).toBeGreaterThan(0);
      expect(answered).toBeLessThan(allowed * 1.2);
    },
  );
});
