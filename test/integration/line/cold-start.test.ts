import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import { type Setting, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import { type Asleep, SleepingFunction } from '../../harness/sleeping-function.ts';
import type { Started } from '../../harness/started.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

const ASLEEP: readonly Asleep[] = ['refused', 502, 503, 504];
const START_MS = 3000;
/** Longer than a function that has answered is taken to be awake. */
const REST_MS = 11_000;

describe('functions that are scaled to zero', () => {
  let functions: readonly SleepingFunction[];
  let declared: SleepingFunction;
  let all: readonly SleepingFunction[];
  let started: Started;
  let namespace: string;
  let cluster: Cluster;
  let tenant: Tenant;
  let setting: Setting;
  let gateway: Opened;
  let cacheFile: string;

  it.beforeAll(async ({ world }) => {
    ({ cluster, namespace, started } = world);
    const kind = { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] };
    functions = ASLEEP.map((asleep) => new SleepingFunction({ name: `by-${asleep}`, for: kind }, asleep));
    declared = new SleepingFunction({ name: 'declared', for: kind }, 'refused');
    all = [...functions, declared];
    await installReconcileFunctions(cluster);
    tenant = await new Tenant(cluster, namespace).create();
    await tenant.allow('config-maps', [{ apiGroups: [''], resources: ['configmaps'] }]);
    setting = { ...world.setting, secret: tenant.secret };
    for (const each of all) {
      await each.open();
      started.add(() => each.close());
    }
    await tenant.declare('declared', { endpoint: { url: declared.url }, for: kind });
    // A view of this namespace alone: an event of another test before `declared` has started would run all of its keys.
    cacheFile = join(await started.directory(), 'cache.yaml');
    await writeFile(cacheFile, JSON.stringify({ defaults: { namespaces: [namespace] } }));
    gateway = await start();
    await tenant.until('declared', 'Ready', { status: 'True' });
  });

  async function start(): Promise<Opened> {
    const urls = functions.map(({ url }) => url);
    const settings = { ...settingsFor([namespace], [declared.url]), LEVELHOOK_CACHE_FILE: cacheFile };
    const process = started.keep(await openGateway(setting, urls, settings));
    await untilReady(process.url);
    // Readiness does not wait for declared functions, and one that has missed an event runs all of its keys.
    await process.process.line(
      ({ msg, controller }) => msg === 'controller started' && controller === `${namespace}.declared`,
    );
    return process;
  }

  const create = (name: string) => cluster.create(configMaps, { metadata: { namespace, name } });
  const notSent = (controller: string): Promise<number> =>
    metric(gateway.url, 'levelhook_triggers_not_sent_total', { controller, reason: 'starting' });

  it('get no request while no key waits, also from a gateway that looks at their declarations', async () => {
    await create('before');
    for (const each of all) await eventually(async () => expect(each.requests).toContain('POST before 1'));
    await untilIdle(gateway.url);
    for (const each of all) each.forget();
    await sleep(REST_MS);
    expect(all.map(({ requests }) => requests)).toEqual(all.map(() => []));
  });

  it('are there three seconds after a key has called them: its first attempt succeeds, and nothing has failed', async () => {
    const controllers = [...ASLEEP.map((asleep) => `by-${asleep}`), `${namespace}.declared`];
    for (const each of all) await each.sleep();
    await create('cold');
    await sleep(START_MS);
    for (const controller of controllers) {
      await eventually(async () => expect(await notSent(controller), controller).toBeGreaterThan(0));
    }
    for (const each of all) {
      expect(each.requests.filter((request) => request !== 'GET')).toEqual([]);
      await each.wake();
    }
    for (const each of all) await eventually(async () => expect(each.requests).toContain('POST cold 1'));
    await untilIdle(gateway.url);
    for (const each of all) expect(each.requests.filter((request) => request !== 'GET')).toEqual(['POST cold 1']);
    for (const controller of controllers) {
      const of = (name: string, labels: Record<string, string>) => metric(gateway.url, name, { controller, ...labels });
      expect(await of('controller_runtime_reconcile_errors_total', {}), controller).toBe(0);
      expect(await of('levelhook_unknown_outcomes_total', {}), controller).toBe(0);
      expect(await of('levelhook_triggers_total', { outcome: 'refused' }), controller).toBe(0);
      for (const reason of ['unreachable', 'starting']) {
        expect(await of('levelhook_circuit_breaker_open', { reason }), controller).toBe(0);
      }
    }
  });

  it('that answered a moment ago and are gone by the next key have not failed either', async () => {
    const [refusing] = functions;
    if (!refusing) throw new Error('unreachable');
    await create('warm');
    await eventually(async () => expect(refusing.requests).toContain('POST warm 1'));
    await untilIdle(gateway.url);
    await refusing.sleep();
    const before = await notSent('by-refused');
    await create('gone');
    await eventually(async () => expect(await notSent('by-refused')).toBeGreaterThan(before));
    await refusing.wake();
    await eventually(async () => expect(refusing.requests).toContain('POST gone 1'));
    await untilIdle(gateway.url);
    const labels = { controller: 'by-refused' };
    expect(await metric(gateway.url, 'controller_runtime_reconcile_errors_total', labels)).toBe(0);
  });

  it('are asked by a gateway that starts if they are configured, and get no request if they are declared', async () => {
    await gateway.process.kill('SIGTERM');
    for (const each of all) each.forget();
    gateway = await start();
    for (const each of functions) expect(each.requests.join(' ')).toMatch(/^GET( GET)*$/);
    expect(declared.requests).toEqual([]);
    for (const each of all) each.forget();
    await create('after');
    for (const each of all) await eventually(async () => expect(each.requests).toContain('POST after 1'));
    await untilIdle(gateway.url);
    // Each has been silent for a while, or is unknown to this gateway: a question goes before the first trigger. It is
    // repeated when the answer comes late.
    for (const each of all) expect(each.requests.join(' ')).toMatch(/^GET( GET)* POST after 1$/);
  });
});
