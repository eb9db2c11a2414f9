import { ConfigMap, Deployment } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { expect, it } from 'vitest';
import { configHash } from './config-hash.ts';

const key = { namespace: 'a', name: 'web' };
const configKey = { namespace: 'a', name: 'settings' };
const labels = { app: 'web' };
const web = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { ...key, annotations: { 'example.com/config': 'settings' } },
  spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers: [] } } },
};
const settings = { apiVersion: 'v1', kind: 'ConfigMap', metadata: configKey, data: { b: '2', a: '1' } };

const hashIn = (apiserver: MemoryApiserver): string | undefined =>
  apiserver.object(Deployment, key)?.spec?.template.metadata?.annotations?.['example.com/config-hash'];

it('writes the hash of the data, once for each change of it, whatever the order of the keys', async () => {
  const apiserver = new MemoryApiserver({ objects: [web, settings] });
  const run = () => runReconciler(configHash, key, { apiserver });
  expect((await run()).writes).toMatchObject([{ verb: 'patch', resource: 'deployments', ...key }]);
  const first = hashIn(apiserver);
  expect(first).toMatch(/^[0-9a-f]{16}$/);
  apiserver.put({ ...settings, data: { a: '1', b: '2' } });
  expect((await run()).writes).toEqual([]);
  apiserver.put({ ...settings, data: { a: '1', b: '3' } });
  await run();
  expect(hashIn(apiserver)).not.toBe(first);
});

it('leaves alone a Deployment that names no ConfigMap, or one that is not there', async () => {
  const apiserver = new MemoryApiserver({ objects: [web] });
  expect((await runReconciler(configHash, key, { apiserver })).writes).toEqual([]);
  apiserver.put({ ...web, metadata: key });
  apiserver.put(settings);
  expect((await runReconciler(configHash, key, { apiserver })).writes).toEqual([]);
  expect(apiserver.object(ConfigMap, configKey)?.data).toEqual(settings.data);
});
