import { MemoryApiserver, testContext } from 'levelhook/testing/reconciler';
import { describe, expect, it } from 'vitest';
import type { Pod } from '../lib/pod.ts';
import { ReplicaSet } from '../lib/replica-set.ts';
import { pod, readyFrom, replicaSet } from '../lib/testing.ts';
import { nextStatus, secondsToNextAvailable, writeStatus } from './status.ts';

const now = Date.parse('2026-01-01T00:01:00Z');
const quiet = { active: [], terminating: [], now };
const ready = (since: string | null) => pod('ready', { status: readyFrom(since) });

describe('nextStatus', () => {
  it('counts', () => {
    const labels = { app: 'web', tier: 'front' };
    const rs = replicaSet({ template: { metadata: { labels }, spec: {} } }, { generation: 7 });
    const active = [pod('a', { metadata: { labels } }), ready('2026-01-01T00:00:59Z'), pod('c')];
    expect(nextStatus(rs, { active, terminating: [pod('d')], now })).toEqual({
      replicas: 3,
      fullyLabeledReplicas: 1,
      readyReplicas: 1,
      availableReplicas: 1,
      terminatingReplicas: 1,
      observedGeneration: 7,
      conditions: [],
    });
  });

  it.each([
    ['30 s ago to the millisecond', '2026-01-01T00:00:30Z', 1],
    ['29.999 s ago', '2026-01-01T00:00:30.001Z', 0],
    ['31 s ago', '2026-01-01T00:00:29Z', 1],
    ['at an unknown time', null, 0],
  ])('with minReadySeconds 30 counts a pod ready %s as available: %s', (_, since, available) => {
    const status = nextStatus(replicaSet({ minReadySeconds: 30 }), { ...quiet, active: [ready(since)] });
    expect(status).toMatchObject({ readyReplicas: 1, availableReplicas: available });
  });

  it('without minReadySeconds takes ready for available, whatever the clocks say', () => {
    const active = [ready('2026-01-01T00:09:00Z'), ready(null)];
    expect(nextStatus(replicaSet(), { ...quiet, active })).toMatchObject({ readyReplicas: 2, availableReplicas: 2 });
  });

  it.each([
    [3, 'FailedCreate'],
    [0, 'FailedDelete'],
  ])('says how scaling one pod to %i failed', (replicas, reason) => {
    const failure = new Error('no luck');
    const { conditions } = nextStatus(replicaSet({ replicas }), { ...quiet, active: [pod('a')], failure });
    const lastTransitionTime = '2026-01-01T00:01:00.000Z';
    expect(conditions).toEqual([
      { type: 'ReplicaFailure', status: 'True', reason, message: 'no luck', lastTransitionTime },
    ]);
  });

  it('keeps the first failure and the conditions of others, and removes only its own', () => {
    const rs = replicaSet({ replicas: 3 });
    rs.status.conditions = [
      { type: 'Theirs', status: 'True' },
      { type: 'ReplicaFailure', status: 'True', message: 'the first' },
    ];
    expect(nextStatus(rs, { ...quiet, failure: new Error('the second') }).conditions).toEqual(rs.status.conditions);
    expect(nextStatus(rs, quiet).conditions).toEqual([{ type: 'Theirs', status: 'True' }]);
  });
});

describe('writeStatus', () => {
  const given = (...objects: ReplicaSet[]) => {
    const apiserver = new MemoryApiserver({ objects });
    return { apiserver, api: testContext({ apiserver }).api };
  };

  it('writes nothing that is there already, though the apiserver leaves out zeros', async () => {
    const rs = replicaSet();
    rs.status = { replicas: 0, terminatingReplicas: 0, observedGeneration: 1 };
    const { apiserver, api } = given(rs);
    await writeStatus(rs, nextStatus(rs, quiet), api);
    expect(apiserver.requests).toEqual([]);
  });

  it('after a conflict writes once more on the live object, with the generation it has acted on', async () => {
    const { apiserver, api } = given(replicaSet({}, { generation: 2, resourceVersion: '9' }));
    const stale = replicaSet();
    await writeStatus(stale, nextStatus(stale, quiet), api);
    expect(apiserver.objects(ReplicaSet)[0]?.status.observedGeneration).toBe(1);
    expect(apiserver.requests.map(({ verb }) => verb)).toEqual(['update', 'get', 'update']);
  });

  it('fails when the second write fails', async () => {
    const { apiserver, api } = given(replicaSet());
    apiserver.fail({ verb: 'update' }, { code: 409 }, 2);
    await expect(writeStatus(replicaSet(), nextStatus(replicaSet(), quiet), api)).rejects.toMatchObject({
      reason: 'Conflict',
    });
    expect(apiserver.writes).toHaveLength(2);
  });

  it.each([
    ['gone', []],
    ['another one of its name', [replicaSet({}, { uid: 'another' })]],
  ])('leaves it when the live object is %s', async (_, objects) => {
    const { apiserver, api } = given(...objects);
    apiserver.fail({ verb: 'update' }, { code: 409 }, 2);
    await writeStatus(replicaSet(), nextStatus(replicaSet(), quiet), api);
    expect(apiserver.writes).toHaveLength(1);
  });
});

describe('secondsToNextAvailable', () => {
  const secondsOf = (minReadySeconds: number, active: Pod[]) => {
    const rs = replicaSet({ minReadySeconds });
    return secondsToNextAvailable(rs, nextStatus(rs, { ...quiet, active }), active, now);
  };

  it('is the time of the pod that comes first', () => {
    const active = ['00:00:00', '00:00:40.500', '00:00:50'].map((time) => ready(`2026-01-01T${time}Z`));
    expect(secondsOf(30, [...active, pod('not ready')])).toBe(10.5);
  });

  it('is nothing when all that are ready are available', () => {
    expect(secondsOf(30, [ready('2026-01-01T00:00:30Z'), pod('not ready')])).toBeUndefined();
    expect(secondsOf(0, [ready('2026-01-01T00:00:59Z')])).toBeUndefined();
  });

  it('is minReadySeconds when no pod says since when it is ready', () => {
    expect(secondsOf(30, [ready(null)])).toBe(30);
  });
});
