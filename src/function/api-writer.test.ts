import { beforeEach, describe, expect, it } from 'vitest';
import { ApiError, type KubernetesObject, resource } from '../core/index.ts';
import type { ApiTransportRequest } from './api-transport.ts';
import { WRITE_VERBS, type WriteVerb } from '../contract/source.ts';
import { ApiWriter } from './api-writer.ts';
import { DeadlineError, DisruptionBudgetError } from './errors.ts';
import type { WrittenSource } from './source.ts';

const pods = resource('v1', 'Pod');
const sets = resource<KubernetesObject & { spec?: object; status?: object }>('apps/v1', 'ReplicaSet');
const nodes = resource('v1', 'Node', { namespaced: false });

type Answer = { status: number; body: string; retryAfter?: string | null };
let sent: ApiTransportRequest[];
let answers: Answer[];
let abort: AbortController;

beforeEach(() => {
  sent = [];
  answers = [];
  abort = new AbortController();
});

function writer(remainingMs = 10_000): ApiWriter {
  const transport = async (request: ApiTransportRequest): Promise<Answer> => {
    sent.push(request);
    return answers.shift() ?? { status: 500, body: 'no answer was prepared' };
  };
  return new ApiWriter(transport, { signal: abort.signal, deadlineMs: Date.now() + remainingMs });
}
const object = (name: string, resourceVersion: string) => ({
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  metadata: { namespace: 'a', name, uid: `uid-${name}`, resourceVersion },
});
const ok = (body: object): Answer => ({ status: 200, body: JSON.stringify(body) });
const key = { namespace: 'a', name: 'x' };

describe('ApiWriter', () => {
  it('sends each kind of write as the apiserver wants it', async () => {
    answers = ['1', '2', '3', '4', '5', '6', '7'].map((version) => ok(object('x', version)));
    const api = writer();
    const unknown = { ...object('x', '1'), spec: { fieldOfTomorrow: 1 } };
    await api.create(sets, { metadata: { namespace: 'a', generateName: 'x-' }, spec: {} });
    await api.replace(sets, unknown);
    await api.replace(sets, unknown, 'status');
    await api.patch(sets, key, { type: 'merge', body: { spec: {} } });
    await api.patch(sets, key, { type: 'strategic', body: {} }, 'status');
    await api.patch(sets, key, { type: 'json', body: [{ op: 'remove', path: '/x' }] });
    await api.apply(sets, { metadata: { namespace: 'a', name: 'x' } }, { fieldManager: 'me & you', force: true });
    const root = '/apis/apps/v1/namespaces/a/replicasets';
    expect(
      sent.map(({ method, path, contentType }) => [method, path.replace(/timeout=\d+ms/, 'T'), contentType]),
    ).toEqual([
      ['POST', `${root}?T`, 'application/json'],
      ['PUT', `${root}/x?T`, 'application/json'],
      ['PUT', `${root}/x/status?T`, 'application/json'],
      ['PATCH', `${root}/x?T`, 'application/merge-patch+json'],
      ['PATCH', `${root}/x/status?T`, 'application/strategic-merge-patch+json'],
      ['PATCH', `${root}/x?T`, 'application/json-patch+json'],
      ['PATCH', `${root}/x?fieldManager=me%20%26%20you&force=true&T`, 'application/apply-patch+yaml'],
    ]);
    expect(JSON.parse(sent[0]?.body ?? '')).toEqual({
      apiVersion: 'apps/v1',
      kind: 'ReplicaSet',
      metadata: { namespace: 'a', generateName: 'x-' },
      spec: {},
    });
    expect(JSON.parse(sent[1]?.body ?? '')).toEqual(unknown);
    expect(JSON.parse(sent[5]?.body ?? '')).toEqual([{ op: 'remove', path: '/x' }]);
  });

  it('remembers every acknowledged write, with the version that the apiserver answered', async () => {
    answers = [
      ok(object('x', '5')),
      ok({ ...object('n', '6'), metadata: { name: 'n', uid: 'u', resourceVersion: '6' } }),
    ];
    const api = writer();
    await api.create(sets, { metadata: { namespace: 'a', name: 'x' } });
    await api.patch(nodes, { name: 'n' }, { type: 'merge', body: {} });
    expect(api.writes).toEqual([
      { apiVersion: 'apps/v1', kind: 'ReplicaSet', namespace: 'a', name: 'x', uid: 'uid-x', resourceVersion: '5' },
      { apiVersion: 'v1', kind: 'Node', name: 'n', uid: 'u', resourceVersion: '6' },
    ]);
  });

  it.each<[string, object, object]>([
    [
      'a Status, when the object is gone',
      { kind: 'Status', status: 'Success', details: { name: 'x', kind: 'pods', uid: 'gone' } },
      { deleted: true, gone: true },
    ],
    [
      'the object, while it is being deleted',
      { ...object('x', '9'), kind: 'Pod', metadata: { ...object('x', '9').metadata, uid: 'gone' } },
      { deleted: true },
    ],
  ])('remembers a delete that is answered with %s', async (_what, body, kind) => {
    answers = [ok(body)];
    const api = writer();
    await api.delete(pods, key, { preconditions: { uid: 'gone' }, propagationPolicy: 'Background' });
    expect(api.writes).toEqual([{ apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'x', uid: 'gone', ...kind }]);
    expect(JSON.parse(sent[0]?.body ?? '')).toEqual({
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      preconditions: { uid: 'gone' },
      propagationPolicy: 'Background',
    });
  });

  const deleting = { deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 0 };
  it.each<[string, object, boolean]>([
    ['the last finalizer of an object that is being deleted', deleting, true],
    ['one of its finalizers', { ...deleting, finalizers: ['other'] }, false],
    ['nothing from a pod that has time to end', { ...deleting, deletionGracePeriodSeconds: 30 }, false],
  ])('remembers an update that takes away %s: gone %s', async (_what, metadata, gone) => {
    // The apiserver's answer then has the version from before the update.
    answers = [ok({ ...object('x', '5'), metadata: { ...object('x', '5').metadata, ...metadata } })];
    const api = writer();
    await api.patch(sets, key, { type: 'merge', body: {} });
    const write = { apiVersion: 'apps/v1', kind: 'ReplicaSet', ...key, uid: 'uid-x' };
    expect(api.writes).toEqual([{ ...write, ...(gone ? { deleted: true, gone: true } : { resourceVersion: '5' }) }]);
  });

  it.each([
    [['kubernetes'], { resourceVersion: '5' }],
    [[], { deleted: true, gone: true }],
  ])('knows that a Namespace with the finalizers %j in its spec stays or goes', async (finalizers, write) => {
    const namespace = { apiVersion: 'v1', kind: 'Namespace', spec: { finalizers } };
    const metadata = { name: 'x', uid: 'u', resourceVersion: '5', ...deleting };
    answers = [ok({ ...namespace, metadata })];
    const api = writer();
    const of = resource('v1', 'Namespace', { namespaced: false });
    await api.replace(of, { ...namespace, metadata }, 'finalize');
    expect(sent[0]).toMatchObject({ method: 'PUT' });
    expect(sent[0]?.path).toMatch(/^[/]api[/]v1[/]namespaces[/]x[/]finalize[?]timeout=/);
    expect(api.writes).toEqual([{ apiVersion: 'v1', kind: 'Namespace', name: 'x', uid: 'u', ...write }]);
  });

  it('asks for metadata alone, of each page', async () => {
    const metadata = { name: 'x', uid: 'u' };
    const partial = { apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata', metadata };
    answers = [
      ok({ metadata: { resourceVersion: '7', continue: 'c1' }, items: [partial] }),
      ok({ metadata: { resourceVersion: '7' }, items: [] }),
    ];
    const { items } = await writer().listMetadata(sets, { namespace: 'a' });
    expect(items).toEqual([{ apiVersion: 'apps/v1', kind: 'ReplicaSet', metadata }]);
    const type = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';
    expect(sent.map(({ accept }) => accept)).toEqual([type, type]);
  });

  it('lists by pages, gives items their kind, and begins anew when the list has expired', async () => {
    const page = (names: string[], more: object = {}) =>
      ok({ metadata: { resourceVersion: '7', ...more }, items: names.map((name) => ({ metadata: { name } })) });
    answers = [page(['a'], { continue: 'c1' }), page(['b'])];
    const selector = { labelSelector: { matchLabels: { app: 'web' } }, fieldSelector: 'metadata.name!=z' };
    const listed = await writer().list(sets, { namespace: 'a', ...selector, pageSize: 1 });
    const item = (name: string) => ({ apiVersion: 'apps/v1', kind: 'ReplicaSet', metadata: { name } });
    expect(listed).toEqual({ items: [item('a'), item('b')], version: '7' });
    const root = '/apis/apps/v1/namespaces/a/replicasets?labelSelector=app%3Dweb&fieldSelector=metadata.name%21%3Dz';
    expect(sent.map(({ path }) => path)).toEqual([`${root}&limit=1`, `${root}&limit=1&continue=c1`]);

    sent = [];
    const expired = { status: 410, body: '{"kind":"Status","reason":"Expired","code":410}' };
    answers = [page(['a'], { continue: 'c1' }), expired, page(['a', 'b', 'c'])];
    expect((await writer().list(nodes)).items).toHaveLength(3);
    expect(sent.at(-1)?.path).toBe('/api/v1/nodes?');
    answers = [ok({ metadata: { resourceVersion: '7' }, items: null })];
    expect(await writer().list(nodes)).toEqual({ items: [], version: '7' });
    await expect(writer().list(nodes, { labelSelector: 'a in' })).rejects.toThrow('unable to parse');
  });

  it('remembers each object of a deleted collection, and none of an answer that does not say', async () => {
    const items = ['x', 'y'].map((name) => object(name, '5'));
    answers = [ok({ kind: 'PodList', metadata: {}, items })];
    const api = writer();
    expect(await api.deleteCollection(pods, { namespace: 'a', labelSelector: 'app=web', gracePeriodSeconds: 0 })).toBe(
      2,
    );
    expect(sent[0]?.path).toMatch(/^[/]api[/]v1[/]namespaces[/]a[/]pods[?]labelSelector=app%3Dweb&limit=500&timeout=/);
    expect(JSON.parse(sent[0]?.body ?? '')).toMatchObject({ kind: 'DeleteOptions', gracePeriodSeconds: 0 });
    expect(api.writes.map(({ name, uid, deleted }) => [name, uid, deleted])).toEqual([
      ['x', 'uid-x', true],
      ['y', 'uid-y', true],
    ]);
  });

  it('deletes a collection by pages', async () => {
    const page = (name: string, more: object = {}) => ok({ metadata: more, items: [object(name, '1')] });
    answers = [page('x', { continue: 'c1' }), page('y', { continue: 'c2' }), page('z')];
    const api = writer();
    expect(await api.deleteCollection(sets, { namespace: 'a' })).toBe(3);
    const continued = sent.map(({ path }) => new URL(path, 'http://x').searchParams.get('continue'));
    expect(continued).toEqual([null, 'c1', 'c2']);
    expect(api.writes.map(({ name }) => name)).toEqual(['x', 'y', 'z']);
  });

  it.each([
    [403, 1],
    [400, 1],
    [500, 1],
    [401, 0],
    [404, 0],
    [405, 0],
    [410, 0],
  ])('after a deleteCollection refused with %i knows of %i writes that may have been done', async (status, doubts) => {
    answers = [{ status, body: '{}' }];
    const api = writer();
    await expect(api.deleteCollection(pods, { namespace: 'a' })).rejects.toMatchObject({ code: status });
    expect(api.unanswered).toHaveLength(doubts);
  });

  describe('evict', () => {
    const pod = { metadata: { namespace: 'a', name: 'x', uid: 'u' } };
    const status = (code: number, message: string, causes: object[] = []): Answer => ({
      status: code,
      body: JSON.stringify({ kind: 'Status', code, message, details: { causes } }),
    });

    it('evicts this pod and no other of its name, and remembers it as deleted', async () => {
      answers = [{ status: 201, body: '{"kind":"Status","status":"Success"}' }];
      const api = writer();
      await api.evict(pod, { gracePeriodSeconds: 3 });
      expect(sent[0]?.path).toMatch(/^[/]api[/]v1[/]namespaces[/]a[/]pods[/]x[/]eviction[?]timeout=/);
      expect(JSON.parse(sent[0]?.body ?? '')).toMatchObject({
        apiVersion: 'policy/v1',
        deleteOptions: { gracePeriodSeconds: 3, preconditions: { uid: 'u' } },
      });
      expect(api.writes).toEqual([
        { apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'x', uid: 'u', deleted: true },
      ]);
    });

    it.each([
      ['7', 7],
      [null, 10],
    ])(
      'tells of a budget in the way, with the time to wait (%s), and does not wait itself',
      async (retryAfter, wait) => {
        const refused = status(429, 'Cannot evict', [{ reason: 'DisruptionBudget', message: 'needs 2 healthy' }]);
        answers = [{ ...refused, retryAfter }];
        const api = writer();
        const error: unknown = await api.evict(pod).catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(DisruptionBudgetError);
        expect(error).toMatchObject({ retryAfterSeconds: wait, message: 'a/x cannot be evicted now: needs 2 healthy' });
        expect([sent.length, api.writes, api.unanswered]).toEqual([1, [], []]);
      },
    );

    it('waits when it is the apiserver that is busy', async () => {
      answers = [
        { ...status(429, 'busy'), retryAfter: '0' },
        { status: 201, body: '{"kind":"Status"}' },
      ];
      const api = writer();
      await api.evict(pod);
      expect(api.writes).toHaveLength(1);
    });

    it('is sure that nothing was done where several budgets select the pod', async () => {
      answers = [
        status(500, 'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.'),
      ];
      const api = writer();
      await expect(api.evict(pod)).rejects.toMatchObject({ code: 500 });
      expect(api.unanswered).toEqual([]);
    });
  });

  it('reads and sets the scale, and remembers the object that it is of', async () => {
    const scale = {
      kind: 'Scale',
      metadata: object('x', '8').metadata,
      spec: { replicas: 3 },
      status: { replicas: 1 },
    };
    answers = [ok(scale), { status: 404, body: '{"code":404}' }, ok(scale)];
    const api = writer();
    expect(await api.getScale(sets, key)).toEqual(scale);
    expect(await api.getScale(sets, key)).toBeUndefined();
    await api.setScale(sets, key, 3, { resourceVersion: '7' });
    expect(sent[2]).toMatchObject({ method: 'PATCH', contentType: 'application/merge-patch+json' });
    expect(sent[2]?.path).toMatch(/^[/]apis[/]apps[/]v1[/]namespaces[/]a[/]replicasets[/]x[/]scale[?]/);
    expect(JSON.parse(sent[2]?.body ?? '')).toEqual({ metadata: { resourceVersion: '7' }, spec: { replicas: 3 } });
    const write = { apiVersion: 'apps/v1', kind: 'ReplicaSet', ...key, uid: 'uid-x', resourceVersion: '8' };
    expect(api.writes).toEqual([write]);
  });

  it('applies the status alone, if asked to', async () => {
    answers = [ok(object('x', '8'))];
    const applied = { metadata: key, status: { replicas: 1 } };
    await writer().apply(sets, applied, { fieldManager: 'me', subresource: 'status' });
    expect(sent[0]?.path).toMatch(/[/]replicasets[/]x[/]status[?]fieldManager=me&force=false&/);
  });

  it('waits at its end for the work that it was told of, and for no more than a second', async () => {
    answers = [ok(object('x', '5'))];
    const api = writer();
    api.waitUntil(api.create(sets, { metadata: { namespace: 'a', name: 'x' } }));
    api.waitUntil(Promise.reject(new Error('it does not matter')));
    await api.finish();
    expect(api.writes).toHaveLength(1);
    await expect(api.get(pods, key)).rejects.toBeInstanceOf(DeadlineError);
  });

  it('does not know at its end what becomes of a write that nobody waits for, and does not abort it', async () => {
    const pending = Promise.withResolvers<Answer>();
    const api = new ApiWriter(() => pending.promise, { signal: abort.signal, deadlineMs: Date.now() + 10_000 });
    const forgotten = api.create(sets, { metadata: { namespace: 'a', name: 'x' } });
    await api.finish();
    expect(api.unanswered).toMatchObject([{ kind: 'ReplicaSet', message: expect.stringContaining('the run ended') }]);
    pending.resolve(ok(object('x', '5')));
    expect((await forgotten).metadata.name).toBe('x');
    expect(api.unanswered).toHaveLength(1);
  });

  it('remembers nothing that was refused, or only read', async () => {
    answers = [
      { status: 409, body: '{"kind":"Status","reason":"Conflict","message":"changed","code":409}' },
      { status: 404, body: '{"kind":"Status","reason":"NotFound","code":404}' },
      ok(object('x', '5')),
    ];
    const api = writer();
    await expect(api.replace(sets, object('x', '1'))).rejects.toMatchObject({ code: 409, message: 'changed' });
    await expect(api.delete(sets, key)).rejects.toBeInstanceOf(ApiError);
    expect(await api.get(sets, key)).toEqual(object('x', '5'));
    expect(api.writes).toEqual([]);
  });

  it('reads live, and undefined when there is nothing', async () => {
    answers = [
      { status: 404, body: '{"kind":"Status","code":404}' },
      { status: 403, body: '{"kind":"Status","code":403}' },
    ];
    const api = writer();
    expect(await api.get(pods, key)).toBeUndefined();
    await expect(api.get(pods, key)).rejects.toMatchObject({ code: 403 });
    expect(sent[0]).toMatchObject({ method: 'GET', path: '/api/v1/namespaces/a/pods/x' });
    expect(sent[0]).not.toHaveProperty('body');
  });

  it('waits and repeats what the apiserver put off, when there is time for it', async () => {
    answers = [{ status: 429, body: '', retryAfter: '0' }, ok(object('x', '5'))];
    const api = writer();
    await api.create(sets, { metadata: { namespace: 'a', name: 'x' } });
    expect(sent.map(({ method, body }) => [method, body])).toEqual([
      ['POST', sent[0]?.body],
      ['POST', sent[0]?.body],
    ]);
    expect(api.writes).toHaveLength(1);
  });

  it.each([
    ['60', 60_000],
    [null, undefined],
  ])('tells when the apiserver put it off for longer, or for no time (%s)', async (retryAfter, retryAfterMs) => {
    answers = [{ status: 429, body: '', retryAfter }];
    await expect(writer().create(pods, { metadata: { name: 'x' } })).rejects.toMatchObject({ code: 429, retryAfterMs });
    expect(sent).toHaveLength(1);
  });

  it('has the apiserver give up a write at the deadline, to the millisecond', async () => {
    answers = [ok(object('x', '1'))];
    await writer(1234).create(sets, { metadata: { namespace: 'a', name: 'x' } });
    const ms = Number(/[?&]timeout=(\d+)ms$/.exec(sent[0]?.path ?? '')?.[1]);
    expect(ms).toBeLessThanOrEqual(1234);
    expect(ms).toBeGreaterThan(1000);
    expect(sent[0]?.signal).toBe(abort.signal);
  });

  it('writes to one namespace alone when it is told so, and reads anywhere', async () => {
    const transport = async (request: ApiTransportRequest): Promise<Answer> => {
      sent.push(request);
      return ok({ ...object('x', '1'), items: [] });
    };
    const run = { signal: abort.signal, deadlineMs: Date.now() + 10_000 };
    const api = new ApiWriter(transport, run, { namespace: 'a' });
    const there = { namespace: 'ab', name: 'x' };
    const outside = { ...object('x', '1'), metadata: { ...object('x', '1').metadata, namespace: 'ab' } };
    for (const write of [
      () => api.create(pods, { metadata: there }),
      () => api.replace(sets, outside, 'status'),
      () => api.patch(pods, there, { type: 'merge', body: {} }, 'status'),
      () => api.apply(pods, { metadata: there }, { fieldManager: 'm' }),
      () => api.setScale(sets, there, 1),
      () => api.delete(pods, there),
      () => api.deleteCollection(pods, { namespace: 'ab' }),
      () => api.evict({ metadata: { ...there, uid: 'u' } }),
      () => api.create(nodes, { metadata: { name: 'a' } }),
      () => api.delete(nodes, { name: 'a' }),
    ]) {
      await expect(write()).rejects.toThrow('writes to the namespace of its key alone, a.');
    }
    expect(sent).toEqual([]);
    await api.list(pods);
    await api.get(pods, there);
    await api.create(pods, { metadata: key });
    await api.replace(sets, object('x', '1'), 'status');
    await api.delete(pods, key);
    await api.deleteCollection(pods, { namespace: 'a' });
    expect(sent).toHaveLength(6);
  });

  it('sends the writes that are declared, and no others', async () => {
    const transport = async (request: ApiTransportRequest): Promise<Answer> => {
      sent.push(request);
      return ok({ ...object('x', '1'), items: [] });
    };
    const run = { signal: abort.signal, deadlineMs: Date.now() + 10_000 };
    const bounded = (...writes: readonly WrittenSource[]) => new ApiWriter(transport, run, { writes });
    const namespaces = resource('v1', 'Namespace', { namespaced: false });
    const own = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a', uid: 'u', resourceVersion: '1' } };
    // Namespaces and objects may have the names of resources.
    const pod = { namespace: 'namespaces', name: 'pods' };
    const all: readonly [Omit<WrittenSource, 'verbs'>, WriteVerb, (api: ApiWriter) => Promise<unknown>][] = [
      [{ resource: pods }, 'create', (api) => api.create(pods, { metadata: pod })],
      [{ resource: sets }, 'update', (api) => api.replace(sets, object('x', '1'))],
      [{ resource: sets, subresource: 'status' }, 'update', (api) => api.replace(sets, object('x', '1'), 'status')],
      [{ resource: pods }, 'patch', (api) => api.patch(pods, pod, { type: 'merge', body: {} })],
      [{ resource: pods }, 'patch', (api) => api.apply(pods, { metadata: pod }, { fieldManager: 'm' })],
      [{ resource: sets, subresource: 'scale' }, 'patch', (api) => api.setScale(sets, key, 1)],
      [{ resource: pods }, 'delete', (api) => api.delete(pods, pod)],
      [{ resource: pods }, 'deletecollection', (api) => api.deleteCollection(pods, { namespace: 'namespaces' })],
      [{ resource: pods, subresource: 'eviction' }, 'create', (api) => api.evict({ metadata: { ...pod, uid: 'u' } })],
      [{ resource: namespaces, subresource: 'finalize' }, 'update', (api) => api.replace(namespaces, own, 'finalize')],
      [{ resource: namespaces }, 'delete', (api) => api.delete(namespaces, { name: 'status' })],
    ];
    for (const [source, verb, write] of all) {
      sent = [];
      await write(bounded({ ...source, verbs: [verb] }));
      expect(sent, verb).toHaveLength(1);
      const others = WRITE_VERBS.filter((each) => each !== verb);
      for (const api of [
        bounded({ ...source, verbs: others }),
        bounded({ ...source, subresource: 'other', verbs: [verb] }),
        bounded({ ...source, resource: resource('other/v1', source.resource.kind), verbs: [verb] }),
        bounded({ ...source, verbs: [verb], namespaces: ['other'] }),
        bounded(),
      ]) {
        await expect(write(api)).rejects.toThrow(`the writes of this controller have no ${verb} of `);
      }
      expect(sent, verb).toHaveLength(1);
    }
    await expect(bounded().replace(sets, object('x', '1'), 'status')).rejects.toThrow(
      "is not sent: the writes of this controller have no update of replicasets/status. Add { resource: ReplicaSet, subresource: 'status', verbs: ['update'] } to them",
    );
    sent = [];
    await bounded().list(pods);
    await bounded({ resource: pods, verbs: ['delete'], namespaces: ['namespaces'] }).delete(pods, pod);
    expect(sent).toHaveLength(2);
  });

  it('sends nothing after the deadline, nor after an abort, by any method', async () => {
    const late = writer(0);
    const aborted = writer();
    abort.abort();
    for (const api of [late, aborted]) {
      await expect(api.get(pods, key)).rejects.toBeInstanceOf(DeadlineError);
      await expect(api.create(pods, { metadata: {} })).rejects.toBeInstanceOf(DeadlineError);
      await expect(api.replace(sets, object('x', '1'))).rejects.toBeInstanceOf(DeadlineError);
      await expect(api.patch(pods, key, { type: 'merge', body: {} })).rejects.toBeInstanceOf(DeadlineError);
      await expect(api.apply(pods, { metadata: { ...key } }, { fieldManager: 'm' })).rejects.toBeInstanceOf(
        DeadlineError,
      );
      await expect(api.delete(pods, key)).rejects.toBeInstanceOf(DeadlineError);
    }
    expect(sent).toEqual([]);
  });
});
