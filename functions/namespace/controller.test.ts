import { resource } from 'levelhook/function';
import { ConfigMap, NetworkPolicy, Pod, Secret } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler, testContext } from 'levelhook/testing/reconciler';
import { beforeEach, describe, expect, it } from 'vitest';
import { namespace } from './controller.ts';
import { Namespace } from './namespace.ts';

const key = { name: 'test' };
const longAgo = '2026-01-01T00:00:00Z';
const secondsAgo = (seconds: number): string => new Date(Date.now() - seconds * 1000).toISOString();
const OK = { status: 'False' };

let apiserver: MemoryApiserver;
const run = (attempt = 1) => runReconciler(namespace, key, { apiserver, attempt });
const found = () => apiserver.object(Namespace, key);
const conditions = () =>
  found()?.status?.conditions?.map(({ type, status }) => [type.replace('Namespace', ''), status]);
const condition = (type: string) => found()?.status?.conditions?.find((each) => each.type === type);
const asked = () =>
  apiserver.writes.map(({ verb, resource: of, subresource }) => [verb, of, subresource].join(' ').trim());

beforeEach(() => {
  apiserver = new MemoryApiserver();
});

function given(metadata: object = { deletionTimestamp: longAgo }, finalizers = ['kubernetes']): void {
  const status = { phase: 'Terminating' };
  apiserver.put({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { ...key, ...metadata },
    spec: { finalizers },
    status,
  });
}

function content(
  kind: string,
  name: string,
  parts: { apiVersion?: string; metadata?: object; [part: string]: unknown } = {},
) {
  const { apiVersion = 'v1', metadata, ...rest } = parts;
  apiserver.put({ apiVersion, kind, metadata: { namespace: 'test', name, ...metadata }, ...rest });
}

describe('the namespace controller', () => {
  it('leaves a Namespace alone that is not being deleted, without a request', async () => {
    given({});
    content('ConfigMap', 'kept');
    expect((await run()).outcome).toEqual({ status: 'done', writes: [] });
    expect(apiserver.requests.filter(({ resource: of }) => of !== 'namespaces')).toEqual([]);
    expect(apiserver.writes).toEqual([]);
  });

  it('deletes all that is in it, and nothing elsewhere, says so, and lets it go', async () => {
    given();
    content('ConfigMap', 'a');
    content('ConfigMap', 'b');
    content('NetworkPolicy', 'n', { apiVersion: 'networking.k8s.io/v1' });
    apiserver.put({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'other', name: 'kept' } });
    expect((await run()).outcome.status).toBe('done');
    expect(found()).toBeUndefined();
    expect(apiserver.objects(ConfigMap).map(({ metadata }) => metadata.name)).toEqual(['kept']);
    expect(apiserver.objects(NetworkPolicy)).toEqual([]);
    expect(asked().toSorted()).toEqual([
      'deletecollection configmaps',
      'deletecollection networkpolicies',
      'patch namespaces status',
      'update namespaces finalize',
    ]);
  });

  it('waits five seconds from the deletion on, since other apiservers may still let objects in', async () => {
    given({ deletionTimestamp: secondsAgo(1) });
    content('ConfigMap', 'a');
    const { outcome } = await run();
    const { requeueAfterSeconds = 0 } = outcome as { requeueAfterSeconds?: number };
    expect(requeueAfterSeconds).toBeGreaterThan(0);
    expect(requeueAfterSeconds).toBeLessThanOrEqual(4);
    expect(apiserver.writes).toEqual([]);
  });

  it.each([
    ['another one of its name', { uid: 'another', deletionTimestamp: longAgo }],
    ['another one that is not being deleted', { uid: 'another' }],
  ])('deletes nothing when the live Namespace is %s', async (_, metadata) => {
    given();
    const old = new MemoryApiserver({ objects: apiserver.objects(Namespace) });
    const { cache } = testContext({ apiserver: old, cached: [Namespace] });
    apiserver.remove(Namespace, key);
    given(metadata);
    content('ConfigMap', 'kept');
    expect((await runReconciler(namespace, key, { apiserver, cache })).outcome.status).toBe('done');
    expect(apiserver.writes).toEqual([]);
  });

  it('does nothing when the live Namespace is gone or finalized', async () => {
    given({ deletionTimestamp: longAgo, finalizers: ['theirs'] }, []);
    content('ConfigMap', 'a');
    expect((await run()).outcome).toEqual({ status: 'done', writes: [] });
    expect(apiserver.writes).toEqual([]);
  });

  it('deletes the pods first, and nothing else while there are any', async () => {
    given({ deletionTimestamp: secondsAgo(6) });
    content('Pod', 'a', { spec: { nodeName: 'n', terminationGracePeriodSeconds: 40 }, status: { phase: 'Running' } });
    content('Pod', 'ended', {
      spec: { nodeName: 'n', terminationGracePeriodSeconds: 90 },
      status: { phase: 'Failed' },
    });
    content('ConfigMap', 'needed');
    // The conditions are new in the first run.
    expect((await run()).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 5 });
    expect((await run()).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 21 });
    expect(apiserver.objects(Pod).map(({ metadata }) => metadata.name)).toEqual(['a']);
    expect(apiserver.objects(ConfigMap)).toHaveLength(1);
    expect(condition('NamespaceContentRemaining')?.message).toBe(
      'Some resources are remaining: pods. has 1 resource instances',
    );
    apiserver.remove(Pod, { namespace: 'test', name: 'a' });
    await run();
    expect(found()).toBeUndefined();
  });

  it('looks again soon, also for a pod that may take for ever', async () => {
    given({ deletionTimestamp: secondsAgo(6) });
    const spec = { nodeName: 'n', terminationGracePeriodSeconds: 9223372036854775807n };
    content('Pod', 'a', { spec, status: { phase: 'Running' } });
    // Its conditions are new, and then they are not.
    expect((await run()).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 5 });
    expect((await run()).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 300 });
  });

  it('does not go on when the pods cannot be deleted', async () => {
    given();
    content('Pod', 'a');
    content('ConfigMap', 'needed');
    apiserver.fail({ verb: 'deletecollection', resource: 'pods' }, { code: 403, message: 'no' });
    expect((await run()).outcome).toMatchObject({ status: 'error', message: 'no' });
    expect(apiserver.objects(ConfigMap)).toHaveLength(1);
    expect(condition('NamespaceDeletionContentFailure')?.message).toBe(
      'Failed to delete all resource types, 1 remaining: no',
    );
  });

  it('tries again soon for pods that are there after their time', async () => {
    given();
    content('Pod', 'a', { spec: { nodeName: 'n', terminationGracePeriodSeconds: 40 }, status: { phase: 'Running' } });
    expect((await run()).outcome).toMatchObject({
      status: 'error',
      message: 'unexpected items still remain in namespace: test for gvr: /v1, Resource=pods',
    });
    expect(conditions()).toContainEqual(['DeletionContentFailure', 'True']);
  });

  it('waits for finalizers, without deleting again what they hold, and then is done', async () => {
    given();
    const held = { finalizers: ['example.com/a', 'example.com/b'] };
    content('ConfigMap', 'a', { metadata: held });
    content('ConfigMap', 'b', { metadata: { finalizers: ['example.com/a'] } });
    expect((await run()).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 5 });
    expect((await run()).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 8 });
    expect(conditions()).toEqual([
      ['DeletionDiscoveryFailure', 'False'],
      ['DeletionGroupVersionParsingFailure', 'False'],
      ['DeletionContentFailure', 'False'],
      ['ContentRemaining', 'True'],
      ['FinalizersRemaining', 'True'],
    ]);
    expect(condition('NamespaceFinalizersRemaining')?.message).toBe(
      'Some content in the namespace has finalizers remaining: example.com/a in 2 resource instances, example.com/b in 1 resource instances',
    );
    apiserver.clearRequests();
    expect((await run()).outcome).toMatchObject({ requeueAfterSeconds: 8, writes: [] });
    expect(apiserver.writes).toEqual([]);
    for (const name of ['a', 'b']) apiserver.remove(ConfigMap, { namespace: 'test', name });
    await run();
    expect(found()).toBeUndefined();
  });

  it('takes the finalizers of the garbage collector away, in each run', async () => {
    given();
    content('ConfigMap', 'a', { metadata: { deletionTimestamp: longAgo, finalizers: ['foregroundDeletion'] } });
    await run();
    expect(found()).toBeUndefined();
  });

  it('does what can be done when one kind fails, says which, and fails', async () => {
    given();
    content('ConfigMap', 'a');
    content('Secret', 's');
    apiserver.fail({ verb: 'deletecollection', resource: 'configmaps' }, { code: 500, message: 'etcd is away' });
    expect((await run()).outcome).toMatchObject({ status: 'error', message: 'etcd is away' });
    expect(apiserver.objects(Secret)).toEqual([]);
    expect(conditions()).toContainEqual(['DeletionContentFailure', 'True']);
    expect((await run(2)).outcome.status).toBe('done');
    expect(found()).toBeUndefined();
  });

  it.each([
    [1, undefined],
    [14, undefined],
    [15, 60],
    [100, 60],
  ])('after %i failures in a row waits for %s s at most', async (attempt, retryAfterSeconds) => {
    given();
    apiserver.fail({ verb: 'get', resource: 'apis' }, { code: 503 });
    const { outcome } = await run(attempt);
    expect((outcome as { retryAfterSeconds?: number }).retryAfterSeconds).toBe(retryAfterSeconds);
    expect(outcome.status).toBe('error');
  });

  it('deletes nothing when it does not know the kinds', async () => {
    given();
    content('ConfigMap', 'a');
    apiserver.fail({ verb: 'get', resource: 'apis' }, { code: 503, message: 'not now' });
    expect((await run()).outcome).toMatchObject({ status: 'error', message: 'not now' });
    expect(asked()).toEqual(['patch namespaces status']);
    expect(condition('NamespaceDeletionDiscoveryFailure')).toMatchObject({ status: 'True', message: 'not now' });
  });

  it.each(['list', 'deletecollection'] as const)('takes a kind that is gone at its %s for empty', async (verb) => {
    given();
    content('ConfigMap', 'a');
    const of = resource('example.com/v1', 'Site');
    content('Site', 's', { apiVersion: 'example.com/v1' });
    // From the last request before it disappears.
    apiserver.intercept = (request) => {
      if (request.resource !== 'sites' || request.verb !== verb) return undefined;
      apiserver.remove(of, { namespace: 'test', name: 's' });
      return { code: 404 };
    };
    expect((await run()).outcome.status).toBe('done');
    expect(found()).toBeUndefined();
  });

  it('deletes one by one where a collection cannot be deleted', async () => {
    given();
    content('ConfigMap', 'a');
    content('ConfigMap', 'b');
    apiserver.fail({ verb: 'deletecollection', resource: 'configmaps' }, { code: 405 });
    apiserver.fail({ verb: 'delete', resource: 'configmaps', name: 'a' }, { code: 404 });
    expect((await run()).outcome).toMatchObject({ status: 'error' });
    expect(asked().filter((each) => each === 'delete configmaps')).toHaveLength(2);
    expect((await run()).outcome.status).toBe('done');
    expect(found()).toBeUndefined();
  });

  it('meets kinds that come while it works, before it lets the Namespace go', async () => {
    given();
    content('ConfigMap', 'a');
    const of = resource('late.example.com/v1', 'Late');
    apiserver.intercept = ({ verb, resource: plural }) => {
      // In the middle, after the discovery.
      const isNow = verb === 'deletecollection' && plural === 'configmaps';
      if (isNow) content('Late', 'l', { apiVersion: 'late.example.com/v1' });
      return undefined;
    };
    expect((await run()).outcome.status).toBe('done');
    expect(apiserver.objects(of)).toEqual([]);
    expect(asked()).toContain('deletecollection lates');
    expect(found()).toBeUndefined();
  });

  it('leaves finalizers of others in place, and has nothing to do any more then', async () => {
    given({ deletionTimestamp: longAgo }, ['theirs', 'kubernetes']);
    await run();
    expect(found()?.spec?.finalizers).toEqual(['theirs']);
    expect(conditions()?.map(([, status]) => status)).toEqual(Array.from({ length: 5 }, () => OK.status));
    apiserver.clearRequests();
    await run();
    expect(apiserver.writes).toEqual([]);
  });

  it('writes the finalizers of others each once and in order, as kube-controller-manager', async () => {
    given({ deletionTimestamp: longAgo }, ['z.example/a', 'kubernetes', 'a.example/z', 'z.example/a']);
    await run();
    expect(found()?.spec?.finalizers).toEqual(['a.example/z', 'z.example/a']);
  });

  it('says the phase first when the apiserver has not', async () => {
    apiserver.put({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { ...key, deletionTimestamp: longAgo },
      spec: { finalizers: ['kubernetes'] },
    });
    content('ConfigMap', 'a', { metadata: { finalizers: ['held'] } });
    await run();
    expect(found()?.status?.phase).toBe('Terminating');
  });

  it('finalizes the live Namespace after a conflict, and takes none for a failure of its conditions', async () => {
    given();
    apiserver.fail({ verb: 'patch', subresource: 'status' }, { code: 409 });
    apiserver.fail({ verb: 'update', subresource: 'finalize' }, { code: 409 });
    expect((await run()).outcome.status).toBe('done');
    expect(found()).toBeUndefined();
    expect(asked()).toEqual(['patch namespaces status', 'update namespaces finalize', 'update namespaces finalize']);
  });

  it('does not finalize another one of its name after a conflict', async () => {
    given();
    apiserver.intercept = ({ subresource }) => {
      if (subresource !== 'finalize') return undefined;
      apiserver.remove(Namespace, key);
      given({ uid: 'another', deletionTimestamp: longAgo });
      return { code: 409 };
    };
    expect((await run()).outcome.status).toBe('done');
    expect(found()?.spec?.finalizers).toEqual(['kubernetes']);
  });
});
