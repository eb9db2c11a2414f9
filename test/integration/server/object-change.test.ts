import { controller } from 'levelhook/function';
import { expect } from 'vitest';
import { type KubernetesObject, type Resource, resource, resourcePath } from '../../../src/core/index.ts';
import { CACHE_KEYS } from '../../harness/cache-keys.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { ServedFunction } from '../../harness/served-function.ts';
import { it } from '../../harness/world.ts';

const secrets = resource('v1', 'Secret');

/** As `kubectl edit` would. */
function edit(cluster: Cluster, of: Resource, key: { namespace: string; name: string }, body: object) {
  return cluster.client.json<KubernetesObject>({
    method: 'PATCH',
    path: resourcePath(of, key),
    query: { fieldManager: 'kubectl-edit' },
    contentType: 'application/merge-patch+json',
    body,
  });
}

it('the page of a run shows what the change that woke it has made of the object, and by which manager', async ({
  world,
}) => {
  const { cluster, namespace, setting, started } = world;
  const watches = [{ resource: secrets, map: { by: 'all' } }] as const;
  const fn = controller({ name: 'changes', for: configMaps, watches }).reconcile(async () => {});
  const { url } = await world.gateway([(await started.open(new ServedFunction(fn, setting))).url], {
    LEVELHOOK_CACHE_KEYS: CACHE_KEYS,
  });
  const name = 'menu';
  const key = { namespace, name };
  /** The page of the run that this version has woken. */
  const pageOf = (version: string): Promise<string> =>
    eventually(async () => {
      const answer = await fetch(`${url}/queues/changes/runs?key=${encodeURIComponent(`${namespace}/${name}`)}`);
      const { runs } = (await answer.json()) as {
        runs: { run: number; reasons?: { resourceVersion?: string }[] }[];
      };
      const woken = runs.find(({ reasons }) => reasons?.some((each) => each.resourceVersion === version));
      expect(woken).toBeDefined();
      return (await fetch(`${url}/dashboard/controllers/changes/runs/${woken?.run}/${namespace}/${name}`)).text();
    });
  const created = await cluster.create(configMaps, { metadata: key, data: { soup: 'leek', fish: 'cod' } });
  const first = await pageOf(created.metadata.resourceVersion);
  expect(first).toMatch(/<ins> *soup: leek<\/ins>/);
  expect(first).not.toContain('<del>');

  const edited = await edit(cluster, configMaps, key, { data: { soup: '<onion>' } });
  // A run of its own, so that a later change is none of its reasons.
  await pageOf(edited.metadata.resourceVersion);
  await edit(cluster, configMaps, key, { data: { soup: 'the last one' } });
  const page = await pageOf(edited.metadata.resourceVersion);
  expect(page).toContain(`The change of v1/ConfigMap ${namespace}/${name} at ${edited.metadata.resourceVersion}`);
  expect(page).toContain('by kubectl-edit');
  expect(page).toMatch(/<del> *soup: leek<\/del>/);
  expect(page).toMatch(/<ins> *soup: (")?&lt;onion&gt;/);
  expect(page).not.toContain('the last one');

  const secret = await cluster.create(secrets, { metadata: key, stringData: { pin: 'hunter2' } });
  const hidden = await pageOf(secret.metadata.resourceVersion);
  expect(hidden).toContain('Secrets are not shown here');
  expect(hidden).not.toMatch(/pin|aHVudGVyMg/);

  await cluster.delete(configMaps, key);
  const gone = await eventually(async () => {
    const answer = await fetch(`${url}/queues/changes/runs?key=${encodeURIComponent(`${namespace}/${name}`)}`);
    const { runs } = (await answer.json()) as {
      runs: { run: number; reasons?: { type: string; object?: string }[] }[];
    };
    // Secrets of other tests come and go meanwhile, and wake it, too.
    const isOfIt = ({ type, object }: { type: string; object?: string }): boolean =>
      type === 'deleted' && object === `v1/ConfigMap ${namespace}/${name}`;
    const run = runs.find(({ reasons }) => reasons?.some(isOfIt))?.run;
    expect(run).toBeDefined();
    return (await fetch(`${url}/dashboard/controllers/changes/runs/${run}/${namespace}/${name}`)).text();
  });
  expect(gone).toMatch(/<del> *soup: the last one<\/del>/);
});
