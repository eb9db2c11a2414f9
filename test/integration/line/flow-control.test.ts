import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startFunction, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import type { Program } from '../../harness/program.ts';
import { Started } from '../../harness/started.ts';

const namespace = uniqueName('flow');
const started = new Started();
let cluster: Cluster;
let gatewayUrl: string;
let gateway: Program;
let fn: Program;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const served = started.keep(await startFunction(setting, 'examples/01-minimal'));
  // Little enough for every request but the first to wait.
  const limits = { LEVELHOOK_KUBE_API_QPS: '10', LEVELHOOK_KUBE_API_BURST: '1' };
  const running = started.keep(await openGateway(setting, [served.url], limits));
  ({ url: gatewayUrl, process: gateway } = running);
  fn = served.process;
  await untilReady(gatewayUrl);
});

afterAll(() => started.stop());

it('a gateway under flow control shows what requests have waited, under the name of client-go, and on whose behalf they were', async () => {
  // Read once: the gateway may ask the apiserver at any time.
  const lines = (await (await fetch(`${gatewayUrl}/metrics`)).text()).split('\n');
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

it('a gateway under flow control carries on at the pace that it is allowed, and names each trigger in both logs', async () => {
  const key = { namespace, name: 'ann' };
  await cluster.create(configMaps, { metadata: { ...key, labels: { greet: 'true' } }, data: { name: 'Ann' } });
  await eventually(async () => {
    const greeting = await cluster.get(configMaps, { namespace, name: 'ann-greeting' });
    expect(greeting?.data).toEqual({ text: 'Hello, Ann!' });
  });
  await cluster.create(configMaps, { metadata: { namespace, name: 'bob-greeting' } });
  await cluster.create(configMaps, { metadata: { namespace, name: 'bob', labels: { greet: 'true' } } });
  const sent = await gateway.line(({ msg, outcome }) => msg === 'trigger' && outcome === 'error');
  const failed = await fn.line(
    ({ msg, reconcileID }) => msg === 'reconcile failed' && reconcileID === sent['reconcileID'],
  );
  expect(failed).toMatchObject({ controller: 'greeting', key: sent['key'], run: sent['run'] });
  expect(sent['reconcileID']).toMatch(/^[0-9a-f-]{36}$/);
});
