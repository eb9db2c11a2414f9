import { readFile } from 'node:fs/promises';
import { expect } from 'vitest';
import { parse } from 'yaml';
import { Site } from '../../../functions/examples/02-custom-resource/sites.example.com-v1.ts';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { startFunction, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

const folder = new URL('../../../functions/examples/02-custom-resource/', import.meta.url);

const manifest = async (file: string) => parse(await readFile(new URL(file, folder), 'utf8')) as KubernetesObject;

it.beforeAll(async ({ world: { cluster, setting, started } }) => {
  const fn = started.keep(await startFunction(setting, 'examples/02-custom-resource'));
  const gateway = started.keep(await openGateway(setting, [fn.url]));
  // It is there before its kind is.
  await gateway.process.line(({ msg }) => msg === 'a function did not describe itself, asking again');
  const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
  await cluster.create(definitions, { ...(await manifest('site.crd.yaml')) } as never);
  started.add(() => cluster.delete(definitions, { name: 'sites.example.com' }));
  await untilReady(gateway.url);
});

it('the controller of Sites writes the pages of one, and what it did onto it, once', async ({ world }) => {
  const { cluster, namespace } = world;
  const { spec } = (await manifest('site.yaml')) as unknown as Site;
  await cluster.create(Site, { metadata: { namespace, name: 'home' }, spec });
  const pages = { namespace, name: 'home-pages' };
  await eventually(async () =>
    expect((await cluster.get(configMaps, pages))?.data).toEqual({ 'index.html': '<!doctype html><p>Welcome</p>' }),
  );
  const written = await eventually(async () => {
    const site = await cluster.get(Site, { namespace, name: 'home' });
    expect(site?.status).toMatchObject({ pages: 1, conditions: [{ type: 'Ready', status: 'True' }] });
    return site;
  });
  await cluster.patch(Site, { namespace, name: 'home' }, { spec: { pages: { news: 'None' } } });
  await eventually(async () =>
    expect(Object.keys((await cluster.get(configMaps, pages))?.data ?? {})).toEqual(['index.html', 'news.html']),
  );
  await eventually(async () =>
    expect((await cluster.get(Site, { namespace, name: 'home' }))?.status).toMatchObject({ pages: 2 }),
  );
  expect(written?.metadata.generation).toBe(1);
});
