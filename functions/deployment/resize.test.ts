import { EventRecorder, keyOf } from 'levelhook/function';
import { MemoryApiserver, testContext } from 'levelhook/testing/reconciler';
import { expect, it } from 'vitest';
import { ReplicaSet } from '../lib/replica-set.ts';
import { scaleAnnotations } from './annotations.ts';
import { resize } from './resize.ts';
import { eventsOf, revision, webDeployment } from './testing.ts';
import { Deployment, type Sizes } from './types.ts';

const deployment = webDeployment({ replicas: 10 });

async function resized(apiserver: MemoryApiserver, sizes: Sizes): Promise<void> {
  const context = testContext({ apiserver });
  const events = new EventRecorder({ component: 'test' }).about(Deployment, deployment, context);
  try {
    await resize(deployment, sizes, events, context.api);
  } finally {
    // Waits for the Events.
    await context.api.finish();
  }
}

it('shrinks before it grows, and tells of both', async () => {
  const [grows, shrinks] = [revision(1, 2), revision(2, 5)];
  const apiserver = new MemoryApiserver({ objects: [grows, shrinks] });
  await resized(apiserver, [
    { rs: grows, replicas: 6 },
    { rs: shrinks, replicas: 1 },
  ]);
  expect(eventsOf(apiserver)).toEqual([
    'Normal ScalingReplicaSet Scaled down replica set web-2 from 5 to 1',
    'Normal ScalingReplicaSet Scaled up replica set web-1 from 2 to 6',
  ]);
  expect(apiserver.object(ReplicaSet, keyOf(grows))).toMatchObject({
    spec: { replicas: 6 },
    metadata: { annotations: scaleAnnotations(deployment) },
  });
});

it('notes what a ReplicaSet of the right size is for, without an Event, and writes nothing that is there', async () => {
  const { annotations: _, ...metadata } = revision(1, 2).metadata;
  const bare = { ...revision(1, 2), metadata };
  const apiserver = new MemoryApiserver({ objects: [bare] });
  await resized(apiserver, [{ rs: bare, replicas: 2 }]);
  expect(apiserver.writes).toMatchObject([{ verb: 'patch', resource: 'replicasets' }]);
  const noted = apiserver.objects(ReplicaSet);
  expect(noted[0]?.metadata.annotations).toEqual(scaleAnnotations(deployment));
  apiserver.clearRequests();
  await resized(
    apiserver,
    noted.map((rs) => ({ rs, replicas: 2 })),
  );
  expect(apiserver.writes).toEqual([]);
});

it('stops at a failure, and tells of what was done before it', async () => {
  const sets = [revision(1, 5), revision(2, 5), revision(3, 5)];
  const apiserver = new MemoryApiserver({ objects: sets });
  apiserver.fail({ name: 'web-2' }, { code: 500, message: 'broken' });
  await expect(
    resized(
      apiserver,
      sets.map((rs) => ({ rs, replicas: 0 })),
    ),
  ).rejects.toThrow('broken');
  const patches = apiserver.writes.filter(({ resource }) => resource === 'replicasets');
  expect(patches).toMatchObject([
    { verb: 'patch', name: 'web-1', status: 200 },
    { verb: 'patch', name: 'web-2', status: 500 },
  ]);
  expect(eventsOf(apiserver)).toEqual(['Normal ScalingReplicaSet Scaled down replica set web-1 from 5 to 0']);
});
