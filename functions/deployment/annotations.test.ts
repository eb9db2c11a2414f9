import { describe, expect, it } from 'vitest';
import { desiredReplicas, maxReplicas, missingAnnotations, revisionOf, scaleAnnotations } from './annotations.ts';
import { revision, webDeployment } from './testing.ts';

const REVISION = 'deployment.kubernetes.io/revision';
const HISTORY = 'deployment.kubernetes.io/revision-history';
const withAnnotations = (annotations: Record<string, string>) => webDeployment({}, { metadata: { annotations } });

describe('missingAnnotations', () => {
  it('are those of the Deployment that are not there, or otherwise', () => {
    const deployment = withAnnotations({ a: '1', b: '2', c: '3' });
    const current = revision(1, 1, { annotations: { a: '1', b: 'other', own: 'x' } });
    expect(missingAnnotations(deployment, [], current)).toEqual({ b: '2', c: '3' });
  });

  it('are none of those that belong to one object alone', () => {
    const names = ['revision', 'revision-history', 'desired-replicas', 'max-replicas'];
    const own = Object.fromEntries(names.map((name) => [`deployment.kubernetes.io/${name}`, '7']));
    const deployment = withAnnotations({
      ...own,
      'kubectl.kubernetes.io/last-applied-configuration': '{}',
      'deprecated.deployment.rollback.to': '1',
    });
    expect(missingAnnotations(deployment, [], revision(1, 1))).toEqual({});
  });

  it('begin with the first revision', () => {
    expect(missingAnnotations(webDeployment(), [])).toEqual({ [REVISION]: '1' });
    expect(missingAnnotations(webDeployment(), [revision(4, 0), revision(2, 0)])).toEqual({ [REVISION]: '5' });
  });

  it('count exactly as far as int64 goes: the revision of a ReplicaSet that was adopted may be any', () => {
    const adopted = revision(1, 0, { annotations: { [REVISION]: '3546343826724305832' } });
    expect(missingAnnotations(webDeployment(), [adopted])).toEqual({ [REVISION]: '3546343826724305833' });
  });

  it('give no revision after the largest that there is, as kube-controller-manager', () => {
    const largest = revision(1, 0, { annotations: { [REVISION]: '9223372036854775807' } });
    const unnumbered = revision(2, 1);
    delete unnumbered.metadata.annotations;
    expect(missingAnnotations(webDeployment(), [largest], unnumbered)).toEqual({});
  });

  it('make an old revision the newest, and note what it was', () => {
    expect(missingAnnotations(webDeployment(), [revision(2, 1)], revision(1, 0))).toEqual({
      [REVISION]: '3',
      [HISTORY]: '1',
    });
    const often = revision(5, 0, { annotations: { [HISTORY]: '1,3' } });
    expect(missingAnnotations(webDeployment(), [revision(6, 1)], often)).toEqual({
      [REVISION]: '7',
      [HISTORY]: '1,3,5',
    });
  });

  it('forget the oldest of a long history', () => {
    const long = Array.from({ length: 501 }, (_, index) => 100 + index).join(',');
    const { [HISTORY]: history = '' } = missingAnnotations(
      webDeployment(),
      [revision(9000, 1)],
      revision(8000, 0, { annotations: { [HISTORY]: long } }),
    );
    expect(history.length).toBeLessThanOrEqual(2000);
    expect(history.length).toBeGreaterThan(1990);
    expect(history.endsWith(',600,8000')).toBe(true);
  });

  it('leave the revision when newer ones are gone, and one that cannot be read', () => {
    expect(missingAnnotations(webDeployment(), [revision(1, 0)], revision(9, 1))).toEqual({});
    const unreadable = revision(1, 1, { annotations: { [REVISION]: 'first' } });
    expect(missingAnnotations(webDeployment(), [revision(3, 0)], unreadable)).toEqual({});
  });
});

describe('revisionOf', () => {
  it.each<[string, bigint | undefined]>([
    ['', 0n],
    ['12', 12n],
    ['+12', 12n],
    ['-1', -1n],
    ['9223372036854775807', 9223372036854775807n],
    ['9223372036854775808', undefined],
    ['1.5', undefined],
    ['x', undefined],
  ])('of %j is %s', (text, number) => {
    expect(revisionOf(revision(1, 0, { annotations: { [REVISION]: text } }))).toBe(number);
  });
});

it('scaleAnnotations note what is wanted and what is allowed, to be read again', () => {
  const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: '25%' } } as const;
  const rs = revision(1, 1, { annotations: scaleAnnotations(webDeployment({ replicas: 10, strategy })) });
  expect([desiredReplicas(rs), maxReplicas(rs)]).toEqual([10, 13]);
  expect(scaleAnnotations(webDeployment({ replicas: 4, strategy: { type: 'Recreate' } }))).toMatchObject({
    'deployment.kubernetes.io/max-replicas': '4',
  });
});
