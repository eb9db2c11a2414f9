import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { CONTRACT_VERSION, type Trigger } from '../../../src/contract/index.ts';
import { ApiError, controller, type Reconcile } from '../../../src/function/index.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../../harness/levelhook.ts';
import { NodeFunction } from '../../harness/node-function.ts';
import { residentMiB } from '../../harness/process-memory.ts';
import { ask, type ProxiedTenant, proxiedTenant } from '../../harness/proxied-tenant.ts';
import { RawFunction } from '../../harness/raw-function.ts';
import { recordedWrites } from '../../harness/recorded-writes.ts';
import { Started } from '../../harness/started.ts';
import { settingsFor, Tenant } from '../../harness/tenant.ts';

const namespace = uniqueName('limits');
const started = new Started();
/** Of another tenant. */
const elsewhere = uniqueName('limits-elsewhere');
const path = `/api/v1/namespaces/${namespace}/configmaps`;
const configMapsOf = (label: string, inside = namespace) => ({
  for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [inside], labelSelector: { matchLabels: { for: label } } },
});

/** Longer than a test may take: no machine is too slow for what it does within one run. */
const RUN_SECONDS = 200;
/** The last test waits for the deadline of its run. */
const SHORT_RUN_SECONDS = 20;

let world: ProxiedTenant;
/** Of the same tenant as the hostile function. */
let modest: NodeFunction;
/** How a function of another tenant reconciles. */
let reconcileElsewhere: Reconcile;
let gateway: Listening;
let setting: Setting;
let redis: Redis;
let raw: RawFunction;
let reconcile: Reconcile;

beforeAll(async () => {
  world = await proxiedTenant(started, namespace);
  await world.account.grantFile('credentials-proxy.yaml');
  started.add(() => world.account.revoke('credentials-proxy.yaml'));
  await world.tenant.allow('clear', [{ apiGroups: [''], resources: ['configmaps'], verbs: ['deletecollection'] }]);
  const handler = controller({ name: 'modest', for: configMaps }).reconcile(async (...run) => reconcile(...run));
  modest = await started.open(new NodeFunction(handler, world.tenant.secret));
  const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
  raw = await started.open(
    new RawFunction({ name: 'hostile', for: kind, concurrency: 1, timeoutSeconds: RUN_SECONDS }),
  );
  const { neighbour, other } = await otherTenant();
  setting = createSetting({ kubeconfig: world.kubeconfig, redisUrl: inject('redisUrl') });
  redis = await connectRedis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  const settings = {
    ...settingsFor([namespace, elsewhere], [modest.url, neighbour.url, raw.url]),
    // A review asks the apiserver for its account: a test here counts what a run asks for.
    LEVELHOOK_REVIEW_SECONDS: '3600',
  };
  gateway = started.keep(await startGateway(setting, [], settings));
  await untilReady(gateway.url);
  reconcile = async () => {};
  reconcileElsewhere = async () => {};
  raw.onTrigger = finish;
  const proxied = { credentials: 'proxy', timeoutSeconds: RUN_SECONDS };
  await world.tenant.declare('modest', {
    endpoint: { url: modest.url },
    ...proxied,
    timeoutSeconds: 300,
    ...configMapsOf('modest'),
  });
  await world.tenant.declare('hostile', { endpoint: { url: raw.url }, ...proxied, ...configMapsOf('hostile') });
  await other.declare('neighbour', {
    endpoint: { url: neighbour.url },
    ...proxied,
    ...configMapsOf('neighbour', elsewhere),
  });
  await world.tenant.until('modest', 'Ready', { status: 'True' });
  await world.tenant.until('hostile', 'Ready', { status: 'True' });
  await other.until('neighbour', 'Ready', { status: 'True' });
});

/** A tenant with a function that writes through the gateway, too. */
async function otherTenant(): Promise<{ neighbour: NodeFunction; other: Tenant }> {
  const other = await new Tenant(await started.cluster(inject('kubeconfig'), elsewhere), elsewhere).create();
  const configmaps = { apiGroups: [''], resources: ['configmaps'] };
  await other.allow('own', [{ ...configmaps, verbs: ['get', 'list', 'watch', 'patch'] }]);
  const signing = { apiGroups: [''], resources: ['secrets'], resourceNames: ['signing'], verbs: ['get'] };
  await world.account.grantIn(elsewhere, 'signing-secret', [signing]);
  const handler = controller({ name: 'neighbour', for: configMaps }).reconcile(async (...run) =>
    reconcileElsewhere(...run),
  );
  return { neighbour: await started.open(new NodeFunction(handler, other.secret)), other };
}

afterAll(() => started.stop());

const finish = ({ requests }: Trigger, response: ServerResponse): void =>
  void response.end(JSON.stringify({ version: CONTRACT_VERSION, results: requests.map(() => ({ status: 'done' })) }));

/** A run of the hostile function that is under way, and what ends it. */
async function startRun(name: string): Promise<{ trigger: Trigger; end: () => Promise<void> }> {
  const coming = new Promise<{ trigger: Trigger; end: () => Promise<void> }>((resolve) => {
    raw.onTrigger = (trigger, response) => {
      // A key whose run has ended with its deadline comes again.
      if (trigger.requests[0]?.name !== name) return finish(trigger, response);
      raw.onTrigger = finish;
      resolve({
        trigger,
        end: async () => {
          finish(trigger, response);
          await untilIdle(gateway.url);
        },
      });
    };
  });
  await world.cluster.create(configMaps, { metadata: { namespace, name, labels: { for: 'hostile' } } });
  return coming;
}

/** A request of which only this much is sent. It never reads more than the connection buffers. */
async function unfinished(trigger: Trigger, head: string): Promise<Socket> {
  const { port } = new URL(gateway.url);
  const socket = connect(Number(port), '127.0.0.1');
  started.add(async () => socket.destroy());
  await once(socket, 'connect');
  // A gateway that gives up closes the connection, and may do so with an error.
  socket.on('error', () => {});
  socket.pause();
  const [request = '', ...headers] = head.split('\n');
  const [method = '', of = ''] = request.split(' ');
  const { pathname } = new URL(`${trigger.kubernetes?.url}${of}`);
  const { search } = new URL(of, 'http://x');
  const lines = [`${method} ${pathname}${search} HTTP/1.1`, 'host: x', ...headers];
  socket.write([...lines, `authorization: Bearer ${trigger.kubernetes?.token}`, '', ''].join('\r\n'));
  return socket;
}

const MIB = 1024 * 1024;
/** Objects of nearly 1 MiB: more than one controller may send at a time, and more than connections buffer. */
const LARGE = 24;
/** The head of a write whose body does not come. Five of them take all the room that a controller has. */
const UNFINISHED = `POST ${path}\ncontent-type: application/json\ncontent-length: ${3 * MIB}`;
const mib = (count: number): string => 'x'.repeat(count * MIB);

/** The most memory that the gateway has while `work` is under way. */
async function peakMiB(work: Promise<unknown>): Promise<number> {
  const over = new AbortController();
  void work.catch(() => {}).finally(() => over.abort());
  let peak = 0;
  while (!over.signal.aborted) {
    peak = Math.max(peak, await residentMiB(gateway.process.pid));
    await sleep(20);
  }
  return peak;
}

describe('a function that sends or asks for too much', () => {
  it('is refused before its bodies are read; the write of another tenant goes through', async () => {
    const { trigger, end } = await startRun('flood');
    // Once, so that what the gateway needs for such a body at all is there.
    const body = JSON.stringify({ metadata: { generateName: 'flood-' }, data: { a: mib(2.9) } });
    expect((await ask(trigger, path, { method: 'POST', body })).status).toBe(422);
    const before = await residentMiB(gateway.process.pid);
    const flood = Promise.allSettled(Array.from({ length: 200 }, () => ask(trigger, path, { method: 'POST', body })));
    const written = Promise.withResolvers<number>();
    reconcileElsewhere = async (key, { api }) => {
      await api.patch(configMaps, key, { type: 'merge', body: { data: { written: 'yes' } } });
      written.resolve(1);
    };
    const peak = peakMiB(Promise.all([flood, written.promise]));
    const metadata = { namespace: elsewhere, name: 'neighbour', labels: { for: 'neighbour' } };
    await world.cluster.create(configMaps, { metadata });
    await written.promise;
    expect((await peak) - before).toBeLessThan(200);
    await flood;
    await end();
    // A test that sends slowly has its bodies read one after the other: these take all the room, and keep it.
    const held = await startRun('held');
    const holding: Socket[] = [];
    await eventually(async () => {
      // Again: the gateway may refuse the first ones, while it ends with the flood.
      holding.push(...(await Promise.all(Array.from({ length: 5 }, () => unfinished(held.trigger, UNFINISHED)))));
      const { status, headers, text } = await ask(held.trigger, path, { method: 'POST', body });
      expect(status).toBe(429);
      expect(headers.get('retry-after')).toBe('1');
      expect(JSON.parse(text)).toMatchObject({ kind: 'Status', reason: 'TooManyRequests' });
    });
    for (const socket of holding) socket.destroy();
    await held.end();
  });

  it('gets all its writes through with the SDK, which repeats what was refused', async () => {
    const created = Promise.withResolvers<number>();
    const refused = new RegExp(
      `levelhook_proxied_requests_total{controller="${namespace}.modest",verb="create",code="429"} [1-9]`,
    );
    const isRefused = async (): Promise<boolean> => refused.test(await (await fetch(`${gateway.url}/metrics`)).text());
    reconcile = async ({ name }, { api }) => {
      if (name !== 'greedy') return;
      // On a slow machine its writes come one after the other: these take their room until one was refused.
      const [trigger] = modest.triggers.slice(-1);
      const holding = await Promise.all(Array.from({ length: 5 }, () => unfinished(trigger as Trigger, UNFINISHED)));
      const write = async (at: number): Promise<void> => {
        const metadata = { namespace, name: `large-${at}`, labels: { large: 'yes' } };
        await api.create(configMaps, { metadata, data: { a: mib(0.9) } }).catch((error: unknown) => {
          // A run before this one has made it.
          if (!(error instanceof ApiError) || error.code !== 409) throw error;
        });
      };
      const writes = Promise.all(Array.from({ length: LARGE }, (_, at) => write(at)));
      // A write that fails ends the run below, and not the test.
      writes.catch(() => {});
      await eventually(async () => expect(await isRefused()).toBe(true));
      for (const socket of holding) socket.destroy();
      created.resolve((await writes).length);
    };
    await world.cluster.create(configMaps, { metadata: { namespace, name: 'greedy', labels: { for: 'modest' } } });
    expect(await created.promise).toBe(LARGE);
    await untilIdle(gateway.url);
  });

  it('gets the long answer to a write whole; what the write did counts as not told', async () => {
    const { trigger, end } = await startRun('clear');
    const answer = await ask(trigger, `${path}?labelSelector=large%3Dyes`, { method: 'DELETE' });
    expect(answer.status).toBe(200);
    expect((JSON.parse(answer.text) as { items: unknown[] }).items).toHaveLength(LARGE);
    const clusterId = await clusterIdentity(world.cluster.client);
    const keys = queueKeys({ keyPrefix: setting.keyPrefix, clusterId }, `${namespace}.hostile`);
    expect(await recordedWrites(redis, `${keys.writesPrefix}${namespace}/clear`)).toEqual([
      { unclear: { apiVersion: 'v1', kind: 'ConfigMap', namespace } },
    ]);
    await end();
    // The run's outcome has what it needs of the record.
    await eventually(async () => expect(await redis.exists(`${keys.writesPrefix}${namespace}/clear`)).toBe(0));
  });

  it('sends as slowly as it likes, and has no room for more until the end of its run', async () => {
    const { trigger, end } = await startRun('slow-sender');
    const senders: Socket[] = [];
    /** The gateway ends a request that has not come whole within ten seconds: others take its room. */
    const fill = async (): Promise<void> => {
      senders.push(...(await Promise.all(Array.from({ length: 5 }, () => unfinished(trigger, UNFINISHED)))));
    };
    const body = JSON.stringify({ metadata: { generateName: 'x-' }, data: { a: mib(2) } });
    const refused = { status: 429, text: expect.stringContaining('too large together') as string };
    // Only the head: a client that is still sending when it is refused may lose the answer.
    await eventually(async () => {
      await fill();
      const socket = await unfinished(trigger, UNFINISHED);
      let answer = '';
      socket.on('data', (chunk: Buffer) => (answer += chunk.toString())).resume();
      await eventually(async () => expect(answer).toMatch(/^HTTP\/1.1 429 [^]*too large together/), 1000);
      socket.destroy();
    });
    await eventually(async () => {
      await fill();
      const stream = new Blob([body]).stream();
      const chunked = { method: 'POST', body: stream, duplex: 'half' } as const;
      expect(await ask(trigger, path, chunked)).toMatchObject(refused);
    });
    // Nor has the answer to a read, though the apiserver has sent it whole by then.
    const rest = `POST ${path}\ncontent-type: application/json\ncontent-length: ${Math.floor(0.95 * MIB)}`;
    await eventually(async () => {
      await fill();
      senders.push(await unfinished(trigger, rest));
      for (let at = 0; at < 5; at += 1) expect(await ask(trigger, `${path}?limit=1`)).toMatchObject(refused);
    });
    // Nor has the other function of the tenant, because a tenant has one room for all that it declares.
    const sibling = Promise.withResolvers<Trigger>();
    const isDone = Promise.withResolvers<void>();
    reconcile = async ({ name }) => {
      if (name !== 'sibling') return;
      sibling.resolve(modest.triggers.at(-1) as Trigger);
      await isDone.promise;
    };
    await world.cluster.create(configMaps, { metadata: { namespace, name: 'sibling', labels: { for: 'modest' } } });
    const ofSibling = await sibling.promise;
    await eventually(async () => {
      await fill();
      expect(await ask(ofSibling, path, { method: 'POST', body })).toMatchObject(refused);
    }).finally(isDone.resolve);
    // A small one has room.
    const small = JSON.stringify({ metadata: { generateName: 'x-' } });
    expect(await ask(trigger, path, { method: 'POST', body: small })).toMatchObject({ status: 201 });
    await Promise.all(senders.map(async (sender) => sender.closed || once(sender.resume(), 'close')));
    await end();
    const next = await startRun('after');
    expect(await ask(next.trigger, path, { method: 'POST', body })).toMatchObject({ status: 422 });
    await next.end();
  });

  it('is refused once its run is over, before its body is read and without a turn of its tenant', async () => {
    const { trigger, end } = await startRun('over');
    await end();
    const turns = async (): Promise<string | undefined> =>
      (await (await fetch(`${gateway.url}/metrics`)).text())
        .split('\n')
        .find((line) =>
          line.startsWith(`levelhook_apiserver_requests_total{controller="${namespace}.hostile",method="POST"`),
        );
    const isOver = /run [0-9]+ of .*\/over is over: nothing more is written for it/;
    const body = JSON.stringify({ metadata: { generateName: 'x-' } });
    // Again when a review of the rights of its account, which asks in its turn, came between.
    await eventually(async () => {
      // Metrics are rendered once a second at most: what came before must be in them.
      await sleep(1100);
      const before = await turns();
      expect(before).toBeDefined();
      const socket = await unfinished(trigger, UNFINISHED);
      let answer = '';
      socket.on('data', (chunk: Buffer) => (answer += chunk.toString())).resume();
      await eventually(async () => expect(answer).toMatch(/^HTTP\/1.1 403 /));
      expect(answer).toMatch(isOver);
      socket.destroy();
      const late = await ask(trigger, path, { method: 'POST', body });
      expect(late).toMatchObject({ status: 403, text: expect.stringMatching(isOver) as string });
      await sleep(1100);
      expect(await turns()).toBe(before);
    });
  });

  it('reads as slowly as it likes: the gateway does not read ahead, and the end of the run ends it', async () => {
    for (let at = 0; at < LARGE; at += 1) {
      const labels = { large: 'yes' };
      await world.cluster.create(configMaps, {
        metadata: { namespace, name: `read-${at}`, labels },
        data: { a: mib(0.9) },
      });
    }
    const { metadata } = await world.tenant.change('hostile', { timeoutSeconds: SHORT_RUN_SECONDS });
    await world.tenant.until('hostile', 'Ready', { status: 'True', observedGeneration: metadata.generation ?? 0 });
    const { trigger, end } = await startRun('slow-reader');
    expect(trigger.remainingSeconds).toBeLessThanOrEqual(SHORT_RUN_SECONDS);
    const before = await residentMiB(gateway.process.pid);
    const list = `GET ${path}?labelSelector=large%3Dyes\naccept: application/json`;
    const readers = await Promise.all(Array.from({ length: 10 }, () => unfinished(trigger, list)));
    const deadlineMs = Date.parse(trigger.deadline);
    const peak = await peakMiB(sleep(deadlineMs + 3000 - Date.now()));
    expect(peak - before).toBeLessThan(120);
    for (const reader of readers) {
      let bytes = 0;
      reader.on('data', (chunk: Buffer) => (bytes += chunk.length));
      await once(reader.resume(), 'close');
      expect(bytes).toBeGreaterThan(10_000);
      expect(bytes).toBeLessThan(LARGE * 0.9 * MIB);
    }
    await end();
  });
});
