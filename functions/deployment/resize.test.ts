import { expect, it } from 'vitest';
import { EventRecorder } from '../lib/events.ts';
import { MemoryCluster, refusal } from '../lib/memory-cluster.ts';
import { scaleAnnotations } from './annotations.ts';
import { resize } from './resize.ts';
import { eventsOf, revision, webDeployment } from './testing.ts';
import { Deployment, type Sizes } from './types.ts';

const deployment = webDeployment({ replicas: 10 });

async function resized(cluster: MemoryCluster, sizes: Sizes): Promise<void> {
  const events = new EventRecorder(Deployment, deployment, 'deployment-controller');
  try {
    await resize(deployment, sizes, events, cluster.context().api);
  } finally {
    await events.send(cluster.context());
  }
}

it('shrinks before it grows, and tells of both', async () => {
  const [grows, shrinks] = [revision(1, 2), revision(2, 5)];
  const cluster = new MemoryCluster(grows, shrinks);
  await resized(cluster, [
    { rs: structuredClone(grows), replicas: 6 },
    { rs: structuredClone(shrinks), replicas: 1 },
  ]);
  expect(eventsOf(cluster)).toEqual([
    'Normal ScalingReplicaSet Scaled down replica set web-2 from 5 to 1',
    'Normal ScalingReplicaSet Scaled up replica set web-1 from 2 to 6',
  ]);
  expect(grows).toMatchObject({ spec: { replicas: 6 }, metadata: { annotations: scaleAnnotations(deployment) } });
});

it('notes what a ReplicaSet of the right size is for, without an Event, and writes nothing that is there', async () => {
  const { annotations: _, ...metadata } = revision(1, 2).metadata;
  const bare = { ...revision(1, 2), metadata };
  const cluster = new MemoryCluster(bare);
  await resized(cluster, [{ rs: structuredClone(bare), replicas: 2 }]);
  expect(cluster.all('ReplicaSet')[0]?.metadata.annotations).toEqual(scaleAnnotations(deployment));
  const again = structuredClone(bare);
  cluster.requests.length = 0;
  await resized(cluster, [{ rs: again, replicas: 2 }]);
  expect(cluster.writes).toEqual([]);
});

it('stops at a failure, and tells of what was done before it', async () => {
  const sets = [revision(1, 5), revision(2, 5), revision(3, 5)];
  const cluster = new MemoryCluster(...structuredClone(sets));
  cluster.intercept = ({ path }) => (path.includes('/web-2?') ? refusal(500, 'broken') : undefined);
  await expect(
    resized(
      cluster,
      sets.map((rs) => ({ rs, replicas: 0 })),
    ),
  ).rejects.toThrow('broken');
  expect(cluster.writes).toEqual(['PATCH replicasets/web-1', 'PATCH replicasets/web-2', 'POST events']);
});
