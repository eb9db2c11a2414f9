import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { MAX_EXPRESSIONS } from '../../../src/contract/source.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startGateway, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Observer, startObserver } from '../../harness/observer.ts';
import { measureSlowdown, MOST_SLOWDOWN } from '../../harness/pace.ts';
import type { TestProcess } from '../../harness/process.ts';
import { Started } from '../../harness/started.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';

/** For so long each side goes on. */
const SECONDS = 20;
const HOSTILE = ['loops', 'loops-more', 'loops-still'] as const;
/** Nothing answers there: what its functions would do is of no interest. */
const NOWHERE = 'http://127.0.0.1:9';

const namespace = uniqueName('victim');
const hostileNamespace = uniqueName('hostile');
const started = new Started();
let cluster: Cluster;
let hostile: Tenant;
let victim: Observer;
let gateway: { process: TestProcess; url: string };

/** As many as there may be, each three loops over thousands of entries. */
const expressions = Array.from(
  { length: MAX_EXPRESSIONS },
  (_, at) => `object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != "${at}")))`,
);

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  await cluster.createNamespace(hostileNamespace);
  started.add(() => cluster.deleteNamespace(hostileNamespace));
  await installReconcileFunctions(cluster);
  const tenant = await new Tenant(cluster, namespace).create();
  hostile = await new Tenant(cluster, hostileNamespace).create();
  const configMapsOnly = [{ apiGroups: [''], resources: ['configmaps'] }];
  await tenant.allow('config-maps', configMapsOnly);
  await hostile.allow('config-maps', configMapsOnly);
  const data = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`key-${at}`, 'x']));
  await cluster.create(configMaps, { metadata: { namespace: hostileNamespace, name: 'large' }, data });
  const setting = {
    ...createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') }),
    secret: tenant.secret,
  };
  victim = started.keep(await startObserver(setting, { name: 'victim', for: configMaps }));
  const settings = settingsFor([namespace, hostileNamespace], [victim.url, NOWHERE]);
  gateway = started.keep(await startGateway(setting, [], settings));
  await untilReady(gateway.url);
  const own = { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] };
  await tenant.declare('victim', {
    endpoint: { url: victim.url },
    for: { ...own, predicate: { cel: 'object.metadata.name.startsWith("v")' } },
    watches: [{ ...own, map: { by: 'cel', expression: 'object.metadata.name' } }],
  });
  await tenant.until('victim', 'Ready', { status: 'True' });
  const attacked = { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [hostileNamespace] };
  for (const name of HOSTILE) {
    const predicate = { all: expressions.map((cel) => ({ cel })) };
    await hostile.declare(name, { endpoint: { url: NOWHERE }, for: { ...attacked, predicate } });
  }
  for (const name of HOSTILE) await hostile.until(name, 'Synced', { status: 'True' });
});

afterAll(() => started.stop());

async function failuresOf(controller: string): Promise<string[]> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  return text
    .split('\n')
    .filter((line) => line.startsWith('levelhook_expression_failures_total') && line.includes(`"${controller}"`));
}

/** How long the gateway's event loop was blocked at most since this was asked last, in milliseconds. */
async function blockedMs(): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  return Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(text)?.[1]) * 1000;
}

/** How long each attempt took, in milliseconds; again and again until the time is over. */
async function timesOf(everyMs: number, endsAtMs: number, attempt: (at: number) => Promise<number>): Promise<number[]> {
  const times: number[] = [];
  while (Date.now() < endsAtMs) {
    times.push(await attempt(times.length));
    await sleep(everyMs);
  }
  return times.toSorted((a, b) => a - b);
}

test('expressions as expensive as can be leave the gateway to the other tenants', async () => {
  await blockedMs();
  const endsAtMs = Date.now() + SECONDS * 1000;
  const changes = timesOf(1000, endsAtMs, async (at) => {
    await cluster.patch(configMaps, { namespace: hostileNamespace, name: 'large' }, { data: { at: String(at) } });
    return 0;
  });
  const alive = timesOf(100, endsAtMs, async () => {
    const from = performance.now();
    // However often it takes to get an answer.
    await eventually(async () => expect((await fetch(`${gateway.url}/livez`)).ok).toBe(true), 60_000, 10);
    return performance.now() - from;
  });
  const woken = timesOf(200, endsAtMs, async (at) => {
    const name = `v-${at}`;
    const writtenAtMs = Date.now();
    await cluster.create(configMaps, { metadata: { namespace, name }, data: {} });
    return eventually(
      async () => {
        const [first] = victim.seen({ key: `${namespace}/${name}` });
        if (!first) throw new Error(`${name} was not reconciled`);
        return first.startedAtMs - writtenAtMs;
      },
      60_000,
      10,
    );
  });
  const paces = timesOf(1000, endsAtMs, async () => measureSlowdown());
  const [count, livez, wakeups] = await Promise.all([changes, alive, woken]);
  const slowdown = Math.min(MOST_SLOWDOWN, (await paces).at(-1) ?? 1);
  const figures = `slowdown ${slowdown.toFixed(1)}, livez ${summary(livez)}, wakeups ${summary(wakeups)}, event loop blocked for ${Math.round(await blockedMs())} ms at most`;
  // Enough of each for the worst to mean something.
  expect(count.length, figures).toBeGreaterThan(SECONDS / 3);
  expect(livez.length, figures).toBeGreaterThan(SECONDS);
  expect(wakeups.length, figures).toBeGreaterThan(SECONDS / 2 / slowdown);
  // The expressions run all the time. What is late but once or twice, the machine may have kept waiting.
  expect(livez.at(-3), figures).toBeLessThan(1000 * slowdown);
  expect(wakeups.at(-3), figures).toBeLessThan(2000 * slowdown);
  for (const name of HOSTILE) {
    const failures = await failuresOf(`${hostileNamespace}.${name}`);
    expect(failures.join('\n')).toContain('reason="time"');
  }
  expect(await failuresOf(`${namespace}.victim`)).toEqual([]);
  const lines = gateway.process.lines.filter(({ msg }) => String(msg).includes('processor time'));
  // One a minute for each expression.
  expect(lines.length).toBeLessThanOrEqual(HOSTILE.length * MAX_EXPRESSIONS);
});

function summary(times: readonly number[]): string {
  return `${times.length} times, median ${Math.round(times[times.length >> 1] ?? 0)} ms, at most ${Math.round(times.at(-1) ?? 0)} ms`;
}
