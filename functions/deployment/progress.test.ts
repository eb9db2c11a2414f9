import { describe, expect, it } from 'vitest';
import { conditionOf } from './conditions.ts';
import { isComplete, secondsToDeadline, withBeginning, withPause, withProgress } from './progress.ts';
import { revision, webDeployment } from './testing.ts';
import type { DeploymentCondition, DeploymentStatus } from './types.ts';

const now = Date.parse('2026-01-01T00:10:00Z');
const ago = (seconds: number): string => new Date(now - seconds * 1000).toISOString();
const counts = (replicas: number, updatedReplicas: number, availableReplicas: number): DeploymentStatus => {
  return { replicas, updatedReplicas, readyReplicas: availableReplicas, availableReplicas, observedGeneration: 1 };
};
const progressing = (reason: string, seconds: number, status: DeploymentCondition['status'] = 'True') => {
  return {
    type: 'Progressing',
    status,
    reason,
    message: 'm',
    lastUpdateTime: ago(seconds),
    lastTransitionTime: ago(900),
  };
};
const without = webDeployment({ progressDeadlineSeconds: 2 ** 31 - 1 });

/** The progress condition when the counts of a Deployment of three change from `before` to `after`. */
function verdict(
  before: DeploymentStatus,
  after: DeploymentStatus,
  condition?: DeploymentCondition,
  deployment = webDeployment(),
) {
  const conditions = condition ? [condition] : [];
  const was = { ...deployment, status: { ...before, conditions } };
  const status = withProgress(was, { ...after, conditions }, { current: revision(2, 3), old: [] }, now);
  return conditionOf(status, 'Progressing');
}

describe('withProgress', () => {
  const created = progressing('NewReplicaSetCreated', 100);

  it.each<[string, DeploymentStatus, DeploymentStatus]>([
    ['there are more of the new', counts(3, 0, 3), counts(4, 1, 3)],
    ['there are fewer of the old', counts(4, 1, 3), counts(3, 1, 3)],
    ['more are available', counts(4, 1, 2), counts(4, 1, 3)],
  ])('starts the deadline anew when %s', (_, before, after) => {
    for (const condition of [created, progressing('ReplicaSetUpdated', 100)]) {
      expect(verdict(before, after, condition)).toEqual({
        type: 'Progressing',
        status: 'True',
        reason: 'ReplicaSetUpdated',
        message: 'ReplicaSet "web-2" is progressing.',
        lastUpdateTime: ago(0),
        lastTransitionTime: ago(900),
      });
    }
  });

  it('leaves it when nothing has moved', () => {
    expect(verdict(counts(4, 1, 3), counts(4, 1, 3), created)).toEqual(created);
    expect(verdict(counts(4, 1, 3), counts(4, 1, 2), created)).toEqual(created);
  });

  it('says when it is complete, and leaves that', () => {
    const complete = {
      status: 'True',
      reason: 'NewReplicaSetAvailable',
      message: 'ReplicaSet "web-2" has successfully progressed.',
    };
    expect(verdict(counts(4, 3, 3), counts(3, 3, 3), created)).toMatchObject(complete);
    expect(verdict({}, counts(3, 3, 3))).toMatchObject(complete);
    const done = progressing('NewReplicaSetAvailable', 5000);
    expect(verdict(counts(3, 3, 3), counts(3, 3, 1), done)).toEqual(done);
    expect(verdict(counts(3, 3, 1), counts(3, 3, 2), done)).toEqual(done);
  });

  it('says when the deadline has passed, once', () => {
    const still = counts(4, 1, 3);
    expect(verdict(still, still, progressing('ReplicaSetUpdated', 600))).toMatchObject({ reason: 'ReplicaSetUpdated' });
    expect(verdict(still, still, progressing('ReplicaSetUpdated', 601))).toMatchObject({
      status: 'False',
      reason: 'ProgressDeadlineExceeded',
      message: 'ReplicaSet "web-2" has timed out progressing.',
      lastTransitionTime: ago(0),
    });
    const exceeded = progressing('ProgressDeadlineExceeded', 2000, 'False');
    expect(verdict(still, still, exceeded)).toEqual(exceeded);
    // The time of the previous rollout does not count.
    const done = progressing('NewReplicaSetAvailable', 5000);
    expect(verdict(still, still, done)).toEqual(done);
  });

  it('says nothing when nobody asks', () => {
    expect(verdict(counts(3, 0, 3), counts(4, 1, 3), created, without)).toBeUndefined();
  });

  it('tells the failure of a ReplicaSet, the current one first, as long as there is one', () => {
    const failing = (version: number, lastTransitionTime: string) => {
      const failure = {
        type: 'ReplicaFailure',
        status: 'True',
        reason: 'FailedCreate',
        message: `quota ${version}`,
      } as const;
      return revision(version, 1, { status: { conditions: [{ ...failure, lastTransitionTime }] } });
    };
    const failureOf = (current: ReturnType<typeof revision>, old: (typeof current)[], status: DeploymentStatus = {}) =>
      conditionOf(withProgress(webDeployment(), status, { current, old }, now), 'ReplicaFailure');
    const told = failureOf(failing(3, ago(7)), [failing(1, ago(9))]);
    expect(told).toMatchObject({ message: 'quota 3', lastUpdateTime: ago(7), lastTransitionTime: ago(7) });
    expect(failureOf(revision(3, 1), [revision(1, 1), failing(2, ago(9))])).toMatchObject({ message: 'quota 2' });
    const before = { conditions: [{ type: 'ReplicaFailure', status: 'True' } as const] };
    expect(failureOf(revision(3, 1), [revision(1, 1)], before)).toBeUndefined();
  });
});

describe('withPause', () => {
  const reasonOf = (paused: boolean, condition?: DeploymentCondition, deployment = webDeployment()) => {
    const conditions = condition ? [condition] : [];
    const { status } = withPause({ ...deployment, spec: { ...deployment.spec, paused }, status: { conditions } });
    return conditionOf(status, 'Progressing')?.reason;
  };

  it('stops and starts the time of a rollout', () => {
    expect(reasonOf(true)).toBe('DeploymentPaused');
    expect(reasonOf(true, progressing('ReplicaSetUpdated', 5))).toBe('DeploymentPaused');
    expect(reasonOf(false, progressing('DeploymentPaused', 5, 'Unknown'))).toBe('DeploymentResumed');
    expect(reasonOf(false, progressing('ReplicaSetUpdated', 5))).toBe('ReplicaSetUpdated');
    expect(reasonOf(false)).toBeUndefined();
  });

  it('does not hide that it has timed out, and says nothing when nobody asks', () => {
    expect(reasonOf(true, progressing('ProgressDeadlineExceeded', 5, 'False'))).toBe('ProgressDeadlineExceeded');
    expect(reasonOf(true, undefined, without)).toBeUndefined();
  });
});

it('withBeginning starts the time of a rollout that has none', () => {
  const { status } = withBeginning(webDeployment(), revision(1, 3));
  expect(conditionOf(status, 'Progressing')).toMatchObject({
    status: 'True',
    reason: 'FoundNewReplicaSet',
    message: 'Found new replica set "web-1"',
  });
  expect(withBeginning({ ...webDeployment(), status }, revision(2, 3)).status).toBe(status);
  expect(withBeginning(webDeployment(), undefined).status).toEqual({});
});

it('isComplete asks for all pods to be new and available, of the spec as it is now', () => {
  expect(isComplete(webDeployment(), counts(3, 3, 3))).toBe(true);
  for (const status of [counts(4, 3, 3), counts(3, 2, 3), counts(3, 3, 2)])
    expect(isComplete(webDeployment(), status)).toBe(false);
  expect(isComplete(webDeployment({}, { metadata: { generation: 2 } }), counts(3, 3, 3))).toBe(false);
});

describe('secondsToDeadline', () => {
  const secondsOf = (condition?: DeploymentCondition, status = counts(4, 1, 3), deployment = webDeployment()) =>
    secondsToDeadline(deployment, { ...status, conditions: condition ? [condition] : [] }, now);

  it('is a second after it, of a rollout that is under way', () => {
    expect(secondsOf(progressing('ReplicaSetUpdated', 200))).toBe(401);
    expect(secondsOf(progressing('DeploymentResumed', 600, 'Unknown'))).toBe(1);
    expect(secondsOf(progressing('ReplicaSetUpdated', 900))).toBe(1);
  });

  it('is nothing when it is over, or when nobody asks', () => {
    expect(secondsOf()).toBeUndefined();
    expect(secondsOf(progressing('ReplicaSetUpdated', 200), counts(3, 3, 3))).toBeUndefined();
    expect(secondsOf(progressing('ProgressDeadlineExceeded', 200, 'False'))).toBeUndefined();
    expect(secondsOf(progressing('NewReplicaSetAvailable', 200), counts(3, 3, 2))).toBeUndefined();
    expect(secondsOf(progressing('ReplicaSetUpdated', 200), counts(4, 1, 3), without)).toBeUndefined();
  });
});
