import { MemoryApiserver, testContext } from 'levelhook/testing/reconciler';
import { describe, expect, it } from 'vitest';
import { ReplicaSet } from '../lib/replica-set.ts';
import { cleanUp } from './cleanup.ts';
import { revision, webDeployment } from './testing.ts';

describe('cleanUp', () => {
  async function kept(old: ReturnType<typeof revision>[], revisionHistoryLimit?: number): Promise<string[]> {
    const { revisionHistoryLimit: _, ...spec } = webDeployment().spec;
    const limit = revisionHistoryLimit === undefined ? {} : { revisionHistoryLimit };
    const apiserver = new MemoryApiserver({ objects: old });
    await cleanUp({ ...webDeployment(), spec: { ...spec, ...limit } }, old, testContext({ apiserver }).api);
    return apiserver.objects(ReplicaSet).map(({ metadata }) => metadata.name);
  }
  const empty = [1, 2, 3, 4].map((version) => revision(version, 0));

  it('keeps the newest by revision, not by age', async () => {
    expect(await kept(empty, 2)).toEqual(['web-3', 'web-4']);
    const undone = revision(1, 0, { annotations: { 'deployment.kubernetes.io/revision': '9' } });
    expect(await kept([undone, ...empty.slice(1)], 2)).toEqual(['web-1', 'web-4']);
    expect(await kept(empty, 0)).toEqual([]);
  });

  it('keeps all without a limit', async () => {
    expect(await kept(empty)).toHaveLength(4);
    expect(await kept(empty, 2 ** 31 - 1)).toHaveLength(4);
  });

  it.each([
    ['is to have pods', revision(1, 1, { status: { replicas: 0 } })],
    ['has pods', revision(1, 0, { status: { replicas: 1 } })],
    ['has not been looked at since', revision(1, 0, { metadata: { generation: 2 } })],
  ])('keeps one that %s, and takes no other in its place', async (_, rs) => {
    expect(await kept([rs, ...empty.slice(1)], 3)).toEqual(['web-1', 'web-2', 'web-3', 'web-4']);
  });

  it('does not count one that is being deleted', async () => {
    const going = revision(1, 0, { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } });
    expect(await kept([going, ...empty.slice(1)], 2)).toEqual(['web-1', 'web-3', 'web-4']);
  });

  it('takes no offence at one that is gone, and fails otherwise', async () => {
    const apiserver = new MemoryApiserver();
    const deployment = webDeployment({ revisionHistoryLimit: 3 });
    await cleanUp(deployment, empty, testContext({ apiserver }).api);
    apiserver.fail({ verb: 'delete' }, { code: 403 });
    await expect(cleanUp(deployment, empty, testContext({ apiserver }).api)).rejects.toThrow('Forbidden');
  });
});
