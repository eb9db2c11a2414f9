import { describe, expect, it } from 'vitest';
import { claim, decideClaim } from './claim.ts';
import { MemoryCluster, refusal } from './memory-cluster.ts';
import { Pod } from './pod.ts';
import { ReplicaSet } from './replica-set.ts';
import { ownedByWeb, pod, replicaSet } from './testing.ts';

const kinds = { owner: ReplicaSet, owned: Pod };

const deletionTimestamp = '2026-01-01T00:00:00Z';
const orphan = { ownerReferences: [] };
const unlike = { labels: { app: 'other' } };
const names = (pods: { metadata: { name: string } }[]) => pods.map(({ metadata }) => metadata.name);

describe('decideClaim', () => {
  const live = replicaSet();
  const deleting = replicaSet({}, { deletionTimestamp });
  const foreign = { ownerReferences: [{ ...ownedByWeb, uid: 'another' }] };

  it.each([
    ['its own that matches', live, {}, 'keep'],
    ['its own, being deleted', live, { deletionTimestamp }, 'keep'],
    ['its own that matches no more', live, unlike, 'release'],
    ['an orphan that matches', live, orphan, 'adopt'],
    [
      'an orphan with an owner that does not control it',
      live,
      { ownerReferences: [{ ...ownedByWeb, controller: false }] },
      'adopt',
    ],
    ['an orphan that does not match', live, { ...orphan, ...unlike }, 'ignore'],
    ['an orphan that is being deleted', live, { ...orphan, deletionTimestamp }, 'ignore'],
    ['an orphan of another namespace', live, { ...orphan, namespace: 'elsewhere' }, 'ignore'],
    ['a pod of another controller', live, foreign, 'ignore'],
    ['its own, while it is being deleted itself', deleting, {}, 'keep'],
    ['its own that matches no more, while it is being deleted itself', deleting, unlike, 'ignore'],
    ['an orphan, while it is being deleted itself', deleting, orphan, 'ignore'],
  ])('%s', (_, rs, metadata, decision) => {
    expect(decideClaim(rs, pod('a', { metadata }))).toBe(decision);
  });
});

describe('claim', () => {
  it('adopts after one live read, releases, and returns what is its own now', async () => {
    const rs = replicaSet();
    const pods = [
      pod('own'),
      pod('x', { metadata: orphan }),
      pod('y', { metadata: orphan }),
      pod('z', { metadata: unlike }),
    ];
    const cluster = new MemoryCluster(rs, ...structuredClone(pods));
    expect(names(await claim(kinds, rs, pods, cluster.context().api))).toEqual(['own', 'x', 'y']);
    expect(cluster.requests.filter(({ method }) => method === 'GET')).toHaveLength(1);
    expect(cluster.all('Pod').map(({ metadata }) => metadata.ownerReferences?.length)).toEqual([1, 1, 1, 0]);
  });

  it.each([
    ['is gone', []],
    ['is another one of its name', [replicaSet({}, { uid: 'another' })]],
    ['is being deleted', [replicaSet({}, { deletionTimestamp })]],
  ])('adopts nothing when the live ReplicaSet %s', async (_, objects) => {
    const cluster = new MemoryCluster(...objects);
    const orphans = [pod('x', { metadata: orphan }), pod('y', { metadata: orphan })];
    await expect(claim(kinds, replicaSet(), orphans, cluster.context().api)).rejects.toThrow(AggregateError);
    expect(cluster.writes).toEqual([]);
  });

  it('takes no offence at a pod that is gone', async () => {
    const rs = replicaSet();
    const pods = [pod('x', { metadata: orphan }), pod('z', { metadata: unlike })];
    expect(await claim(kinds, rs, pods, new MemoryCluster(rs).context().api)).toEqual([]);
  });

  it('takes no offence at a pod that was released already', async () => {
    const cluster = new MemoryCluster();
    cluster.intercept = () => refusal(422, 'Invalid');
    expect(await claim(kinds, replicaSet(), [pod('z', { metadata: unlike })], cluster.context().api)).toEqual([]);
  });

  it('tries all before it fails', async () => {
    const rs = replicaSet();
    const pods = ['x', 'y'].map((name) => pod(name, { metadata: orphan }));
    const cluster = new MemoryCluster(rs, ...structuredClone(pods));
    cluster.intercept = ({ path }) => (path.includes('/pods/x?') ? refusal(422, 'Invalid') : undefined);
    await expect(claim(kinds, rs, pods, cluster.context().api)).rejects.toThrow(AggregateError);
    expect(cluster.all('Pod')[1]?.metadata.ownerReferences).toEqual([ownedByWeb]);
  });
});
