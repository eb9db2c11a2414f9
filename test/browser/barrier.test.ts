import { join } from 'node:path';
import { afterAll, expect, inject, it } from 'vitest';
import { configMaps } from '../harness/cluster.ts';
import { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import { cachedVersions, servedVersions } from '../harness/gateway-view.ts';
import { createSetting, uniqueName, untilReady } from '../harness/levelhook.ts';
import { openGateway } from '../harness/opened.ts';
import { Started } from '../harness/started.ts';
import { openBrowser } from './browser.ts';
import { createMoody, startMoody } from './scene.ts';

const started = new Started();
afterAll(() => started.stop());

it('a key that waits until the cache shows its writes says which object and which version', async () => {
  const kubeconfig = inject('kubeconfig');
  const namespace = uniqueName('barrier');
  const cluster = await started.cluster(kubeconfig, namespace);
  await cluster.create(configMaps, { metadata: { namespace, name: 'written' } });
  await createMoody(cluster, { namespace, name: 'writer' }, { writes: 'written' });
  const proxy = await CuttingProxy.beforeApiserver(kubeconfig);
  started.add(() => proxy.stop());
  const behindProxy = await proxy.kubeconfig(kubeconfig, join(await started.directory(), 'kubeconfig'));
  const setting = createSetting({ kubeconfig, redisUrl: inject('redisUrl') });
  const fn = started.keep(await startMoody(setting, namespace));
  const gateway = started.keep(await openGateway({ ...setting, kubeconfig: behindProxy }, [fn.url]));
  await untilReady(gateway.url);
  const browser = await openBrowser();
  started.add(() => browser.close());
  const page = await browser.context.newPage();
  await page.goto(`${gateway.url}/dashboard/controllers/moody/keys/${namespace}/writer`);
  const state = page.locator('h1 .state');
  // The newest first. A run that could not be sent in time is given back, and has written nothing.
  const runs = page.locator('.timeline > li').filter({ hasNotText: 'not sent' });
  const run = runs.filter({ hasText: 'its next run waits until the cache shows these writes' });
  await eventually(async () => {
    await page.reload();
    expect(await runs.count()).toBeGreaterThan(0);
    expect(await runs.count()).toBe(await run.count());
    expect(await state.innerText()).toBe('at rest');
  });

  await eventually(async () =>
    expect(await cachedVersions(setting, cluster, namespace)).toEqual(await servedVersions(cluster, namespace)),
  );

  // The function still writes to the server, and the gateway's cache does not hear of it.
  const before = await run.count();
  proxy.sever();
  await page.getByRole('button', { name: 'Reconcile now' }).click();
  await page.getByText('1 key queued.').waitFor();
  await eventually(async () => expect(await run.count()).toBeGreaterThan(before));
  const version = (await cluster.get(configMaps, { namespace, name: 'written' }))?.metadata.resourceVersion;
  expect(await run.first().innerText()).toContain(`v1/ConfigMap ${namespace}/written`);
  expect(await run.first().innerText()).toContain(`${version}`);
  const count = await runs.count();
  await page.getByRole('button', { name: 'Reconcile now' }).click();
  await page.getByText(`what its last run wrote (v1/ConfigMap up to version ${version})`).first().waitFor();
  await eventually(async () => expect(await state.innerText()).toBe('waits for the cache'));
  expect(await runs.count()).toBe(count);

  proxy.mend();
  await eventually(async () => expect(await runs.count()).toBeGreaterThan(count));
});
