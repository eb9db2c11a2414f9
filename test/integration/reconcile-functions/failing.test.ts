import { expect } from 'vitest';
import { controller, RetryAfterError } from '../../../src/function/index.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { untilReady } from '../../harness/levelhook.ts';
import { NodeFunction } from '../../harness/node-function.ts';
import { openGateway } from '../../harness/opened.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

it('a ReconcileFunction whose keys fail is ready, and says so as its metric does, until they succeed', async ({
  world,
}) => {
  const { cluster, namespace, setting, started } = world;
  await installReconcileFunctions(cluster);
  const tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('own', [{ apiGroups: [''], resources: ['configmaps'] }]);
  let fails = true;
  const handler = controller({ name: 'web', for: configMaps }).reconcile(async ({ name }) => {
    if (fails && name === 'bad') throw new RetryAfterError('no', 2);
  });
  const served = await started.open(new NodeFunction(handler, tenant.secret));
  const gateway = started.keep(await openGateway(setting, [], settingsFor([namespace], [served.url])));
  await untilReady(gateway.url);
  await tenant.declare('web', {
    endpoint: { url: served.url },
    for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] },
  });
  await tenant.until('web', 'Ready', { status: 'True', reason: 'Running' });
  await cluster.create(configMaps, { metadata: { namespace, name: 'bad' } });
  await tenant.until('web', 'Ready', { status: 'True', reason: 'KeysFail' });
  const states = async (): Promise<string[]> => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    return [...text.matchAll(/^levelhook_controller_state\{.*state="(.+?)".*\} 1$/gm)].map(([, state = '']) => state);
  };
  await eventually(async () => expect(await states()).toEqual(['failing']));
  fails = false;
  await eventually(async () => expect(await states()).toEqual(['idle']), 30_000);
  await tenant.until('web', 'Ready', { status: 'True', reason: 'Running' }, 90_000);
});
