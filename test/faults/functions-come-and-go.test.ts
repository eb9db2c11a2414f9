import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { controller, type Controller, type FunctionAppOptions } from 'levelhook/function';
import { redisCache } from 'levelhook/function/node';
import { messageOf } from '../../src/core/index.ts';
import { type Cluster, configMaps, pods } from '../harness/cluster.ts';
import { outcomesOf } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilIdle, untilReady } from '../harness/levelhook.ts';
import type { TestProcess } from '../harness/process.ts';
import { ServedFunction } from '../harness/served-function.ts';
import { Started } from '../harness/started.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../harness/tenant.ts';

/** Forty by `npm run soak come-and-go`. */
const ROUNDS = Number(process.env['ROUNDS'] ?? 12);
/** In each round so many come and go, each with kinds that no other one has. */
const PASSING = 3;
const POLL_EVERY_MS = 50;
const CHANGE_EVERY_MS = 100;

/** Each is a view that comes and goes with the controllers that read it. */
const KINDS: readonly [apiVersion: string, kind: string][] = [
  ['v1', 'ServiceAccount'],
  ['v1', 'Service'],
  ['v1', 'LimitRange'],
  ['v1', 'ResourceQuota'],
  ['v1', 'PodTemplate'],
  ['v1', 'ReplicationController'],
  ['v1', 'PersistentVolumeClaim'],
  ['apps/v1', 'DaemonSet'],
  ['apps/v1', 'StatefulSet'],
  ['apps/v1', 'ControllerRevision'],
  ['batch/v1', 'Job'],
  ['batch/v1', 'CronJob'],
  ['autoscaling/v2', 'HorizontalPodAutoscaler'],
  ['networking.k8s.io/v1', 'Ingress'],
  ['networking.k8s.io/v1', 'NetworkPolicy'],
  ['policy/v1', 'PodDisruptionBudget'],
  ['coordination.k8s.io/v1', 'Lease'],
  ['discovery.k8s.io/v1', 'EndpointSlice'],
];

const namespace = uniqueName('come-and-go');
const started = new Started();
/** The working controllers: two that the gateway is configured with and one that a tenant has declared. */
const reads = new Map([
  ['by-http', 0],
  ['by-redis', 0],
  ['declared', 0],
]);
const failures: string[] = [];
let cluster: Cluster;
let tenant: Tenant;
let passing: ServedFunction;
let gateway: { process: TestProcess; url: string };

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  await installReconcileFunctions(cluster);
  tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('all', [{ apiGroups: ['*'], resources: ['*'] }]);
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const ofTenant = { ...setting, secret: tenant.secret };
  const byHttp = await serve(reading('by-http'), setting);
  const byRedis = await serve(reading('by-redis'), setting, redisCache(setting.redisUrl));
  const declared = await serve(reading('declared'), ofTenant);
  passing = await serve(
    controller({ name: 'passing', for: configMaps }).reconcile(async () => {}),
    ofTenant,
  );
  gateway = started.keep(
    await startGateway(setting, [byHttp.url, byRedis.url], {
      ...settingsFor([namespace], [declared.url, passing.url]),
      LEVELHOOK_LOG_TRIGGERS: 'false',
    }),
  );
  await untilReady(gateway.url);
  const here = { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] };
  await tenant.declare('declared', { endpoint: { url: declared.url }, for: here, concurrency: 10, timeoutSeconds: 10 });
  await tenant.until('declared', 'Ready', { status: 'True' });
});

afterAll(() => started.stop());

/** Reads its object and those around it, and keeps what it was told when it could not. */
function reading(name: string): Controller {
  const options = { name, for: configMaps, reads: [pods], concurrency: 10, timeoutSeconds: 10 };
  return controller(options).reconcile(async (request, { cache }) => {
    if (request.namespace !== namespace) return;
    try {
      await cache.get(configMaps, request);
      await cache.list(configMaps, { namespace });
      reads.set(name, (reads.get(name) ?? 0) + 1);
    } catch (error) {
      failures.push(`${name}: ${messageOf(error)}`);
      throw error;
    }
  });
}

async function serve(
  served: Controller,
  setting: Setting,
  cache?: FunctionAppOptions['cache'],
): Promise<ServedFunction> {
  const fn = await started.open(new ServedFunction(served, setting, cache));
  return fn;
}

/** All of them come, are complete and go again. */
async function comeAndGo(round: number): Promise<void> {
  const each = Math.floor(KINDS.length / PASSING);
  const names = Array.from({ length: PASSING }, (_, at) => `passing-${round % 2}-${at}`);
  for (const [at, name] of names.entries()) {
    const [reconciled, ...others] = KINDS.slice(at * each, (at + 1) * each).map(([apiVersion, kind]) => ({
      apiVersion,
      kind,
      namespaces: [namespace],
    }));
    await tenant.declare(name, { endpoint: { url: passing.url }, for: reconciled, reads: others, timeoutSeconds: 1 });
  }
  for (const name of names) await tenant.until(name, 'Synced', { status: 'True' });
  for (const name of names) await tenant.remove(name);
}

test(
  'functions that come and go, with views of their own, keep no other one from its work',
  { timeout: 120_000 + ROUNDS * 30_000 },
  async () => {
    const over = new AbortController();
    const notReady: string[] = [];
    let polls = 0;
    const polling = (async () => {
      while (!over.signal.aborted) {
        const answer = await fetch(`${gateway.url}/readyz`);
        const text = await answer.text();
        polls += 1;
        if (!answer.ok) notReady.push(text);
        await sleep(POLL_EVERY_MS);
      }
    })();
    const changing = (async () => {
      for (let at = 0; !over.signal.aborted; at += 1) {
        const key = { namespace, name: `object-${at % 5}` };
        const data = { at: String(at) };
        if (at < 5) await cluster.create(configMaps, { metadata: key, data });
        else await cluster.patch(configMaps, key, { data });
        await sleep(CHANGE_EVERY_MS);
      }
    })();
    const startedAtMs = Date.now();
    for (let round = 0; round < ROUNDS; round += 1) await comeAndGo(round);
    over.abort();
    await Promise.all([polling, changing]);
    const seconds = (Date.now() - startedAtMs) / 1000;
    process.stdout.write(
      `come and go: ${ROUNDS} rounds in ${seconds.toFixed(0)} s, ${polls} polls of /readyz (${notReady.length} not ready), ` +
        `reads ${JSON.stringify(Object.fromEntries(reads))}, ${failures.length} failures\n`,
    );
    expect([...new Set(notReady)].slice(0, 3), `${notReady.length} of ${polls} polls`).toEqual([]);
    expect([...new Set(failures)].slice(0, 3), `${failures.length} reads failed`).toEqual([]);
    // Runs of the last change end between two looks at the metrics.
    await untilIdle(gateway.url);
    for (const [name, count] of reads) {
      const id = name === 'declared' ? `${namespace}.declared` : name;
      expect(await outcomesOf(gateway.url, id), `runs of ${name}`).toEqual({ done: expect.any(Number) });
      expect(count, `runs of ${name}`).toBeGreaterThan(ROUNDS * 3);
    }
    expect(polls).toBeGreaterThan(ROUNDS * 5);
  },
);
