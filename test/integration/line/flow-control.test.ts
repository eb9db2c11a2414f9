import { expect } from 'vitest';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { type Listening, startFunction } from '../../harness/levelhook.ts';
import type { Opened } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

let gateway: Opened;
let fn: Listening;

it.beforeAll(async ({ world }) => {
  fn = world.started.keep(await startFunction(world.setting, 'examples/01-minimal'));
  // Little enough for every request but the first to wait.
  gateway = await world.gateway([fn.url], { LEVELHOOK_KUBE_API_QPS: '10', LEVELHOOK_KUBE_API_BURST: '1' });
});

it('a gateway under flow control shows what requests have waited, under the name of client-go, and on whose behalf they were', async () => {
  // Read once: the gateway may ask the apiserver at any time.
  const lines = (await (await fetch(`${gateway.url}/metrics`)).text()).split('\n');
  const valueOf = (name: RegExp): number =>
    lines.filter((line) => name.test(line)).reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  const shown = lines.find((line) => line.startsWith('rest_client_rate_limiter_duration_seconds_count'));
  expect(shown).toMatch(/[{]verb="GET",host="127[.]0[.]0[.]1:[0-9]+"[}] [0-9]+$/);
  const count = valueOf(/^rest_client_rate_limiter_duration_seconds_count/);
  // Who the cluster is, where its kind is found, and its list at least.
  expect(count).toBeGreaterThanOrEqual(3);
  expect(valueOf(/^rest_client_rate_limiter_duration_seconds_sum/)).toBeGreaterThan(0);
  expect(valueOf(/^levelhook_apiserver_requests_total[{]controller="greeting"/)).toBeGreaterThan(0);
  expect(valueOf(/^levelhook_apiserver_requests_total[{]controller=""/)).toBeGreaterThan(0);
  expect(valueOf(/^levelhook_apiserver_requests_total/)).toBe(count);
});

it('a gateway under flow control carries on at the pace that it is allowed, and names each trigger in both logs', async ({
  world: { cluster, namespace },
}) => {
  const key = { namespace, name: 'ann' };
  await cluster.create(configMaps, { metadata: { ...key, labels: { greet: 'true' } }, data: { name: 'Ann' } });
  await eventually(async () => {
    const greeting = await cluster.get(configMaps, { namespace, name: 'ann-greeting' });
    expect(greeting?.data).toEqual({ text: 'Hello, Ann!' });
  });
  await cluster.create(configMaps, { metadata: { namespace, name: 'bob-greeting' } });
  await cluster.create(configMaps, { metadata: { namespace, name: 'bob', labels: { greet: 'true' } } });
  const sent = await gateway.process.line(({ msg, outcome }) => msg === 'trigger' && outcome === 'error');
  const failed = await fn.process.line(
    ({ msg, reconcileID }) => msg === 'reconcile failed' && reconcileID === sent['reconcileID'],
  );
  expect(failed).toMatchObject({ controller: 'greeting', key: sent['key'], run: sent['run'] });
  expect(sent['reconcileID']).toMatch(/^[0-9a-f-]{36}$/);
});
