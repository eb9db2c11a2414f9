import { MemoryApiserver, testContext } from 'levelhook/testing/reconciler';
import { describe, expect, it } from 'vitest';
import { claim, decideClaim } from './claim.ts';
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
    ['a pod of another namespace that names its UID', live, { namespace: 'elsewhere' }, 'ignore'],
    ['the same, when it matches no more', live, { namespace: 'elsewhere', ...unlike }, 'ignore'],
    ['a pod of another controller', live, foreign, 'ignore'],
    ['its own, while it is being deleted itself', deleting, {}, 'keep'],
    ['its own that matches no more, while it is being deleted itself', deleting, unlike, 'ignore'],
    ['an orphan, while it is being deleted itself', deleting, orphan, 'ignore'],
  ])('%s', (_, rs, metadata, decision) => {
    expect(decideClaim(rs, pod('a', { metadata }))).toBe(decision);
  });
});

describe('claim', () => {
  const apiOf = (apiserver: MemoryApiserver) => testContext({ apiserver }).api;

  it('adopts after one live read, releases, and returns what is its own now', async () => {
    const rs = replicaSet();
    const pods = [
      pod('own'),
      pod('x', { metadata: orphan }),
      pod('y', { metadata: orphan }),
      pod('z', { metadata: unlike }),
    ];
    const apiserver = new MemoryApiserver({ objects: [rs, ...pods] });
    expect(names(await claim(kinds, rs, pods, apiOf(apiserver)))).toEqual(['own', 'x', 'y']);
    expect(apiserver.requests.filter(({ verb }) => verb === 'get')).toHaveLength(1);
    expect(apiserver.objects(Pod).map(({ metadata }) => metadata.ownerReferences?.length)).toEqual([
      1,
      1,
      1,
      undefined,
    ]);
  });

  it.each([
    ['is gone', []],
    ['is another one of its name', [replicaSet({}, { uid: 'another' })]],
    ['is being deleted', [replicaSet({}, { deletionTimestamp })]],
  ])('adopts nothing when the live ReplicaSet %s', async (_, objects) => {
    const apiserver = new MemoryApiserver({ objects });
    const orphans = [pod('x', { metadata: orphan }), pod('y', { metadata: orphan })];
    await expect(claim(kinds, replicaSet(), orphans, apiOf(apiserver))).rejects.toThrow(AggregateError);
    expect(apiserver.writes).toEqual([]);
  });

  it('takes no offence at a pod that is gone', async () => {
    const rs = replicaSet();
    const pods = [pod('x', { metadata: orphan }), pod('z', { metadata: unlike })];
    expect(await claim(kinds, rs, pods, apiOf(new MemoryApiserver({ objects: [rs] })))).toEqual([]);
  });

  it('takes no offence at a pod that was released already', async () => {
    const apiserver = new MemoryApiserver({ objects: [pod('z', { metadata: { ...unlike, ...orphan } })] });
    apiserver.fail({ verb: 'patch', name: 'z' }, { code: 422 });
    expect(await claim(kinds, replicaSet(), [pod('z', { metadata: unlike })], apiOf(apiserver))).toEqual([]);
  });

  it('tries all before it fails', async () => {
    const rs = replicaSet();
    const pods = ['x', 'y'].map((name) => pod(name, { metadata: orphan }));
    const apiserver = new MemoryApiserver({ objects: [rs, ...pods] });
    apiserver.fail({ verb: 'patch', name: 'x' }, { code: 422 });
    await expect(claim(kinds, rs, pods, apiOf(apiserver))).rejects.toThrow(AggregateError);
    expect(apiserver.object(Pod, { namespace: 'test', name: 'y' })?.metadata.ownerReferences).toEqual([ownedByWeb]);
  });
});
