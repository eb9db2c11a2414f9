import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { kubeConfigTransport } from 'levelhook/function/node';
import { expect } from 'vitest';
import { records } from '../../../functions/examples/04-finalizer/record.ts';
import { expiry } from '../../../functions/examples/05-requeue/expiry.ts';
import { configHash } from '../../../functions/examples/06-maps/config-hash.ts';
import { webCheck } from '../../../functions/examples/07-errors/web-check.ts';
import { reports } from '../../../functions/examples/08-long-runs/report.ts';
import { makeReport } from '../../../functions/examples/08-long-runs/worker.ts';
import { team } from '../../../functions/examples/09-related/team.ts';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { openFunction } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

// The examples 04 to 09 behind a gateway, on the real apiserver: what their own tests in memory leave out is the
// events.

type Deployment = KubernetesObject & { spec: { template: { metadata?: KubernetesObject['metadata'] } } };
const deployments = resource<Deployment>('apps/v1', 'Deployment');

let cluster: Cluster;
let namespace: string;
let service: Server;
let url: string;
const stored = new Map<string, string>();

it.beforeAll(async ({ world }) => {
  ({ cluster, namespace } = world);
  service = createServer((request, response) => {
    const name = request.url?.split('/').at(-1) ?? '';
    let body = '';
    request
      .on('data', (chunk: Buffer) => (body += chunk.toString()))
      .on('end', () => {
        if (request.method === 'PUT') stored.set(name, body);
        if (request.method === 'DELETE') stored.delete(name);
        response.writeHead(request.url === '/broken' ? 500 : 204).end();
      });
  });
  await once(service.listen(0, '127.0.0.1'), 'listening');
  world.started.add(async () => service.close().closeAllConnections());
  url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
  const { kubeconfig, secret } = world.setting;
  const api = kubeConfigTransport(kubeconfig);
  const worker = { secrets: [secret], api, part: async (number: number) => `part ${number}` };
  const controllers = [
    records(url),
    expiry(),
    configHash,
    webCheck,
    reports(async (job) => void makeReport(job, worker)),
    team,
  ];
  const fn = world.started.keep(await openFunction(world.setting, controllers));
  await world.gateway(controllers.map(({ name }) => `${fn.url}/${name}`));
});

const create = (name: string, labels: Record<string, string>, data: Record<string, string>, annotations = {}) =>
  cluster.create(configMaps, { metadata: { namespace, name, labels, annotations }, data });
const get = (name: string) => cluster.get(configMaps, { namespace, name });

it('04-finalizer puts a record, and removes it before its object goes', async () => {
  await create('web', { record: 'true' }, { address: '192.0.2.1' });
  await eventually(async () => expect(stored.get(`${namespace}-web`)).toBe('192.0.2.1'));
  await cluster.patch(configMaps, { namespace, name: 'web' }, { data: { address: '192.0.2.2' } });
  await eventually(async () => expect(stored.get(`${namespace}-web`)).toBe('192.0.2.2'));
  await cluster.delete(configMaps, { namespace, name: 'web' });
  await eventually(async () => expect(await get('web')).toBeUndefined());
  expect(stored.has(`${namespace}-web`)).toBe(false);
});

it('05-requeue deletes an object when its time is over', async () => {
  const { creationTimestamp = '' } = (await create('note', { expires: 'true' }, {}, { 'example.com/ttl-seconds': '2' }))
    .metadata;
  await eventually(async () => expect(await get('note')).toBeUndefined());
  expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(creationTimestamp) + 2000);
});

it('06-maps rolls the Deployment that names a ConfigMap, when its data change', async () => {
  const labels = { app: 'web' };
  const template = { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'web' }] } };
  const metadata = { namespace, name: 'rolled', annotations: { 'example.com/config': 'settings' } };
  await cluster.create(deployments, { metadata, spec: { selector: { matchLabels: labels }, template } });
  const hash = async () =>
    (await cluster.get(deployments, { namespace, name: 'rolled' }))?.spec.template.metadata?.annotations?.[
      'example.com/config-hash'
    ];
  // The ConfigMap comes later, which wakes the Deployment.
  await create('settings', {}, { color: 'blue' });
  await eventually(async () => expect(await hash()).toBeDefined());
  const first = await hash();
  await cluster.patch(configMaps, { namespace, name: 'settings' }, { data: { color: 'red' } });
  await eventually(async () => expect(await hash()).not.toBe(first));
});

it('07-errors writes what a server answers, and again when the object names another', async () => {
  await create('site', { check: 'true' }, { url: `${url}/broken` });
  await cluster.patch(configMaps, { namespace, name: 'site' }, { data: { url } });
  await eventually(async () =>
    expect((await get('site'))?.metadata.annotations).toEqual({ 'example.com/status': '204' }),
  );
});

it('08-long-runs writes its report after the run has ended, once', async () => {
  await create('sales', { report: 'true' }, { month: 'May' });
  await eventually(async () => expect((await get('sales'))?.data?.['report']).toBe('part 1\npart 2\npart 3'));
});

it('09-related follows members that come and change', async () => {
  await create('ann', {}, { mail: 'ann@example.com' });
  await create('red', { team: 'true' }, { members: 'ann, bob' });
  const members = (data: object) => eventually(async () => expect((await get('red-members'))?.data).toEqual(data));
  await members({ ann: 'ann@example.com', bob: '' });
  await create('bob', {}, { mail: 'bob@example.com' });
  await members({ ann: 'ann@example.com', bob: 'bob@example.com' });
  await cluster.patch(configMaps, { namespace, name: 'ann' }, { data: { mail: 'anna@example.com' } });
  await members({ ann: 'anna@example.com', bob: 'bob@example.com' });
});
