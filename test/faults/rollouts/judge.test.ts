import { describe, expect, it } from 'vitest';
import type { Change, DeploymentState, PodState, ReplicaSetState } from './history.ts';
import { judge } from './judge.ts';

let version = 0n;

function change(kind: 'deployment', uid: string, state?: Partial<DeploymentState>): Change;
function change(kind: 'replicaset', uid: string, state?: Partial<ReplicaSetState>): Change;
function change(kind: 'pod', uid: string, state?: Partial<PodState>): Change;
function change(kind: Change['kind'], uid: string, state?: object): Change {
  version += 1n;
  const defaults = {
    deployment: { replicas: 3, surge: 1, observed: true },
    replicaset: { owner: 'web', replicas: 3, reported: undefined, template: 'one', deleting: false },
    pod: { owner: 'web-1', active: true },
  };
  return { kind, uid, name: uid, version, ...(state && { state: { ...defaults[kind], ...state } }) } as Change;
}

const web = change('deployment', 'web', {});
const first = change('replicaset', 'web-1', {});
const threePods = ['a', 'b', 'c'].map((uid) => change('pod', uid, {}));

describe('the judge of a history of rollouts', () => {
  it('finds nothing in a rollout within its limits', () => {
    const rollout = [
      change('replicaset', 'web-2', { template: 'two', replicas: 1 }),
      change('pod', 'd', { owner: 'web-2' }),
      change('replicaset', 'web-1', { replicas: 2 }),
      change('pod', 'a', { active: false }),
      change('pod', 'a'),
    ];
    expect(judge([web, first, ...threePods, ...rollout])).toEqual([]);
  });

  it('finds ReplicaSets that ask for more than replicas and maxSurge', () => {
    const [wrong, ...more] = judge([web, first, change('replicaset', 'web-2', { template: 'two', replicas: 2 })]);
    expect(wrong).toContain('5 pods asked for, at most 4 allowed by web');
    expect(more).toEqual([]);
  });

  it('finds a pod more than its ReplicaSet asked for, but not one that takes the place of another', () => {
    const other = [change('pod', 'a', { active: false }), change('pod', 'd', {})];
    expect(judge([web, first, ...threePods, ...other])).toEqual([]);
    const [wrong] = judge([web, first, ...threePods, ...other, change('pod', 'e', {})]);
    expect(wrong).toContain('4 pods of web-1, which asked for 3');
  });

  it('finds two ReplicaSets of one template, unless one is being deleted or is gone', () => {
    const twin = change('replicaset', 'web-2', { replicas: 0 });
    expect(judge([web, first, twin])).toEqual([expect.stringContaining('web-2 and web-1 have the same template')]);
    expect(judge([web, first, change('replicaset', 'web-1', { deleting: true }), twin])).toEqual([]);
    expect(judge([web, first, change('replicaset', 'web-1'), twin])).toEqual([]);
  });

  it('lets a controller act on the spec that it saw, until it has seen the new one', () => {
    const down = change('replicaset', 'web-1', { replicas: 1 });
    expect(judge([web, first, down, ...threePods])).toEqual([]);
    const settled = [
      ...threePods.slice(1).map(({ uid }) => change('pod', uid)),
      change('replicaset', 'web-1', { replicas: 1, reported: 1 }),
    ];
    const late = change('pod', 'd', {});
    expect(judge([web, first, ...threePods, down, ...settled, late])).toEqual([
      expect.stringContaining('2 pods of web-1, which asked for 1'),
    ]);
  });
});
