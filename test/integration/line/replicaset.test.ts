import { describe, expect } from 'vitest';
import { replicaset } from '../../../functions/replicaset/controller.ts';
import { controllerOf } from '../../../src/core/index.ts';
import { type Cluster, type Pod, pods, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { openFunction } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

describe('the replicaset function behind a gateway, on a real control plane', () => {
  let cluster: Cluster;
  let namespace: string;
  let key: { namespace: string; name: string };

  it.beforeAll(async ({ world }) => {
    ({ cluster, namespace } = world);
    key = { namespace, name: 'web' };
    // Those of other tests have controllers of their own.
    const own = { ...replicaset, for: { resource: replicaSets, namespaces: [namespace] } };
    const fn = world.started.keep(await openFunction(world.setting, [own]));
    await world.gateway([`${fn.url}/replicaset`]);
  });

  /** Active pods of the ReplicaSet, once there are `count` and the status says the same. */
  function settled(count: number): Promise<Pod[]> {
    return eventually(async () => {
      const rs = await cluster.get(replicaSets, key);
      const owned = (await cluster.list(pods, namespace)).items.filter(
        (pod) => controllerOf(pod)?.uid === rs?.metadata.uid && !pod.metadata.deletionTimestamp,
      );
      expect(owned).toHaveLength(count);
      expect(rs?.status).toMatchObject({ replicas: count, observedGeneration: rs?.metadata.generation });
      return owned;
    });
  }

  it('makes 50 pods of a ReplicaSet of 50', async () => {
    await cluster.create(replicaSets, replicaSet(key, 50));
    await settled(50);
  });

  it('replaces ten pods that were deleted by hand', async () => {
    const before = await settled(50);
    const doomed = before.slice(0, 10).map((pod) => pod.metadata.name);
    await Promise.all(doomed.map((name) => cluster.delete(pods, { namespace, name })));
    const after = await settled(50);
    const names = after.map((pod) => pod.metadata.name);
    expect(doomed.filter((name) => names.includes(name))).toEqual([]);
  });

  it('leaves 5 when scaled to 5', async () => {
    await cluster.patch(replicaSets, key, { spec: { replicas: 5 } });
    await settled(5);
  });

  it('releases a pod that no longer matches, and replaces it', async () => {
    const [released] = await settled(5);
    const name = released?.metadata.name ?? '';
    await cluster.patch(pods, { namespace, name }, { metadata: { labels: { app: 'somebody-else' } } });
    await eventually(async () => {
      const pod = await cluster.get(pods, { namespace, name });
      expect(pod?.metadata.ownerReferences ?? []).toEqual([]);
    });
    await settled(5);
    await cluster.delete(pods, { namespace, name });
  });

  it('adopts pods that match and have no controller', async () => {
    const orphan = { namespace, name: 'adoptee' };
    const { template } = replicaSet(orphan, 1).spec;
    const labels = template.metadata.labels;
    const { uid } = (await cluster.create(pods, { metadata: { ...orphan, labels }, spec: template.spec })).metadata;
    const adopter = (await cluster.create(replicaSets, replicaSet(orphan, 1))).metadata;
    await eventually(async () => {
      const pod = await cluster.get(pods, orphan);
      expect(pod?.metadata.uid).toBe(uid);
      expect(pod && controllerOf(pod)?.uid).toBe(adopter.uid);
    });
    await cluster.delete(replicaSets, orphan);
  });

  it('adopts a pod that appears later, and lets go of one too many', async () => {
    const labels = { app: key.name };
    const { spec } = replicaSet(key, 1).spec.template;
    await cluster.create(pods, { metadata: { namespace, name: 'latecomer', labels }, spec });
    await eventually(async () => {
      const pod = await cluster.get(pods, { namespace, name: 'latecomer' });
      // Adopted, it is one of six; which of them goes is the ReplicaSet's choice.
      const adopted = pod && controllerOf(pod)?.name === key.name;
      expect(adopted || pod === undefined || pod.metadata.deletionTimestamp).toBeTruthy();
    });
    await settled(5);
  });

  it('lets the garbage collector remove all pods with the ReplicaSet', async () => {
    await cluster.delete(replicaSets, key);
    await eventually(async () => expect((await cluster.list(pods, namespace)).items).toEqual([]));
  });
});
