import { beforeEach, describe, expect, it } from 'vitest';
import { ApiError, type KubernetesObject, resource } from '../core/index.ts';
import { type ApiTransportRequest, ApiWriter } from './api-writer.ts';
import { DeadlineError } from './errors.ts';

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

  it.each<[string, object]>([
    [
      'a Status, when the object is gone',
      { kind: 'Status', status: 'Success', details: { name: 'x', kind: 'pods', uid: 'gone' } },
    ],
    [
      'the object, while it is being deleted',
      { ...object('x', '9'), kind: 'Pod', metadata: { ...object('x', '9').metadata, uid: 'gone' } },
    ],
  ])('remembers a delete that is answered with %s', async (_what, body) => {
    answers = [ok(body)];
    const api = writer();
    await api.delete(pods, key, { preconditions: { uid: 'gone' }, propagationPolicy: 'Background' });
    expect(api.writes).toEqual([
      { apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'x', uid: 'gone', deleted: true },
    ]);
    expect(JSON.parse(sent[0]?.body ?? '')).toEqual({
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      preconditions: { uid: 'gone' },
      propagationPolicy: 'Background',
    });
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

  it('sends nothing after the deadline, nor after an abort, by any method', async () => {
    const late = writer(0);
    const aborted = writer();
    abort.abort();
    for (const api of [late, aborted]) {
      await expect(api.get(pods, key)).rejects.toBeInstanceOf(DeadlineError);
      await expect(api.create(pods, { metadata: {} })).rejects.toBeInstanceOf(DeadlineError);
      await expect(api.replace(sets, object('x', '1'))).rejects.toBeInstanceOf(DeadlineError);
      await expect(api.patch(pods, key, { type: 'merge', body: {} })).rejects.toBeInstanceOf(DeadlineError);
      await expect(api.apply(pods, { metadata: { name: 'x' } }, { fieldManager: 'm' })).rejects.toBeInstanceOf(
        DeadlineError,
      );
      await expect(api.delete(pods, key)).rejects.toBeInstanceOf(DeadlineError);
    }
    expect(sent).toEqual([]);
  });
});
