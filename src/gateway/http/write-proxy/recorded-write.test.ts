import { describe, expect, it } from 'vitest';
import { type Resource, resource } from '../../../core/index.ts';
import { requestInfo, type ResourceRequest } from '../cache-api/request-info.ts';
import { recordedWrite, targetOf } from './recorded-write.ts';
import type { RequestOptions } from './request-options.ts';

const known = [resource('v1', 'Pod'), resource('apps/v1', 'Deployment')];
const requestOf = (method: string, path: string): ResourceRequest =>
  requestInfo(method, path, new URLSearchParams()) as ResourceRequest;

const none: RequestOptions = { mentionsDryRun: false, uid: undefined };

function recorded(asked: string, status: number, answer: object, options = none): unknown {
  const [method = '', path = ''] = asked.split(' ');
  const request = requestOf(method, path);
  const target = targetOf(request, known);
  return recordedWrite({
    request,
    target,
    options,
    status,
    text: JSON.stringify(answer),
  });
}

const pod = { apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'x' };
const metadata = { namespace: 'a', name: 'x', uid: 'u', resourceVersion: '7' };
const failure = (code: number, more: object = {}) => ({ kind: 'Status', status: 'Failure', code, ...more });
const PODS = '/api/v1/namespaces/a/pods';
const open = { open: { apiVersion: 'v1', kind: 'Pod', namespace: 'a' } };

describe('what goes on record', () => {
  it('of a write is its object with UID and version, by the name that the apiserver gave it', () => {
    const done = { done: [{ ...pod, uid: 'u', resourceVersion: '7' }] };
    expect(recorded(`POST ${PODS}`, 201, { kind: 'Pod', metadata })).toEqual(done);
    expect(recorded(`PATCH ${PODS}/x/status`, 200, { kind: 'Pod', metadata })).toEqual(done);
    // A Scale has UID and version of its object.
    expect(recorded('PATCH /apis/apps/v1/namespaces/a/deployments/x/scale', 200, { kind: 'Scale', metadata })).toEqual({
      done: [{ apiVersion: 'apps/v1', kind: 'Deployment', namespace: 'a', name: 'x', uid: 'u', resourceVersion: '7' }],
    });
  });

  it('is named as the controller names the kind, whatever version is written', () => {
    const { apiVersion, kind } = targetOf(requestOf('POST', '/apis/apps/v1beta2/namespaces/a/deployments'), known);
    expect({ apiVersion, kind }).toEqual({ apiVersion: 'apps/v1', kind: 'Deployment' });
  });

  it('of a Binding is that the server must be asked for the pods, since the answer does not show the pod', () => {
    const bind = (status: number, answer: object) => recorded('POST /api/v1/namespaces/a/bindings', status, answer);
    expect(bind(201, { kind: 'Status', status: 'Success', code: 201 })).toEqual({ unclear: open.open });
    expect(bind(504, failure(504))).toEqual(open);
    expect(bind(409, failure(409))).toBeUndefined();
  });

  it('of an Event is its object as the controller reads it, in whatever group it is written', () => {
    const [core, grouped] = [resource('v1', 'Event'), resource('events.k8s.io/v1', 'Event')];
    const apiVersionOf = (path: string, kinds: readonly Resource[]): string =>
      targetOf(requestOf('POST', path), kinds).apiVersion;
    const [inCore, inGroup] = ['/api/v1/namespaces/a/events', '/apis/events.k8s.io/v1/namespaces/a/events'];
    expect(apiVersionOf(inGroup, [core])).toBe('v1');
    expect(apiVersionOf(inCore, [grouped])).toBe('events.k8s.io/v1');
    expect(apiVersionOf(inCore, [grouped, core])).toBe('v1');
    expect(apiVersionOf(inGroup, [core, grouped])).toBe('events.k8s.io/v1');
  });

  it('of a delete is the UID, and whether the object is gone', () => {
    const deleted = { ...pod, uid: 'u', deleted: true };
    expect(recorded(`DELETE ${PODS}/x`, 200, { kind: 'Pod', metadata })).toEqual({ done: [deleted] });
    const status = { kind: 'Status', status: 'Success', details: { uid: 'u' } };
    expect(recorded(`DELETE ${PODS}/x`, 200, status)).toEqual({ done: [{ ...deleted, gone: true }] });
    const items = [{ metadata }, { metadata: { ...metadata, name: 'y', uid: 'v' } }];
    expect(recorded(`DELETE ${PODS}`, 200, { kind: 'PodList', items })).toEqual({
      done: [deleted, { ...deleted, name: 'y', uid: 'v' }],
    });
    const removed = { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 0 };
    expect(recorded(`PATCH ${PODS}/x`, 200, { kind: 'Pod', metadata: removed })).toEqual({
      done: [{ ...deleted, gone: true }],
    });
  });

  it('of a delete of very many objects is that the server must be asked, since Redis keeps each entry', () => {
    const items = (count: number, name = '') =>
      Array.from({ length: count }, (_, at) => ({ metadata: { ...metadata, name: `x${at}${name}`, uid: `u${at}` } }));
    const remove = (found: object[]) => recorded(`DELETE ${PODS}`, 200, { kind: 'PodList', items: found });
    expect(remove(items(100))).toHaveProperty('done.length', 100);
    expect(remove(items(101))).toEqual({ unclear: open.open });
    expect(remove(items(100, 'x'.repeat(200)))).toEqual({ unclear: open.open });
    expect(remove(items(1, '名'.repeat(6000)))).toEqual({ unclear: open.open });
  });

  it('of an eviction is the pod that it names by UID; else the server is asked what there is', () => {
    const success = { kind: 'Status', status: 'Success' };
    expect(recorded(`POST ${PODS}/x/eviction`, 201, success, { ...none, uid: 'u' })).toEqual({
      done: [{ ...pod, uid: 'u', deleted: true }],
    });
    expect(recorded(`POST ${PODS}/x/eviction`, 201, success)).toEqual({ unclear: open.open });
  });

  it('of a dry run is what the server says, and of a delete that there may have been one', () => {
    const dry = { mentionsDryRun: true, uid: 'u' };
    const created = { kind: 'Pod', metadata: { namespace: 'a', name: 'x', uid: 'u' } };
    expect(recorded(`POST ${PODS}`, 201, created, dry)).toBeUndefined();
    const done = { done: [{ ...pod, uid: 'u', resourceVersion: '7' }] };
    expect(recorded(`POST ${PODS}`, 201, { kind: 'Pod', metadata }, dry)).toEqual(done);
    expect(recorded(`PATCH ${PODS}/x`, 200, { kind: 'Pod', metadata }, dry)).toEqual(done);
    const removed = { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 0 };
    const success = { kind: 'Status', status: 'Success', details: { uid: 'u' } };
    expect(recorded(`PATCH ${PODS}/x`, 200, { kind: 'Pod', metadata: removed }, dry)).toEqual({ unclear: open.open });
    expect(recorded(`DELETE ${PODS}/x`, 200, success, dry)).toEqual({ unclear: open.open });
    const items = [{ metadata }];
    expect(recorded(`DELETE ${PODS}`, 200, { kind: 'PodList', items }, dry)).toEqual({ unclear: open.open });
    expect(recorded(`POST ${PODS}/x/eviction`, 201, success, dry)).toEqual({ unclear: open.open });
  });

  it('of an answer that does not name the object is that there was a write', () => {
    expect(recorded(`POST ${PODS}`, 200, { kind: 'Status', status: 'Success' })).toEqual({ unclear: open.open });
    expect(recorded(`DELETE ${PODS}`, 200, { kind: 'Status', status: 'Success' })).toEqual({ unclear: open.open });
  });

  it.each([400, 403, 404, 409, 422, 429])('of a %i is nothing', (code) => {
    expect(recorded(`PATCH ${PODS}/x`, code, failure(code))).toBeUndefined();
  });

  it('of an error after which the write may have taken effect is that it has no answer', () => {
    for (const code of [500, 502, 504]) expect(recorded(`PATCH ${PODS}/x`, code, failure(code))).toEqual(open);
    expect(recorded(`PATCH ${PODS}/x`, 503, failure(503, { reason: 'ServiceUnavailable' }))).toBeUndefined();
    expect(recorded(`DELETE ${PODS}`, 409, failure(409))).toEqual(open);
    // Before the first delete, unless the refusal is that of one object.
    const message =
      'pods is forbidden: User "f" cannot deletecollection resource "pods" in API group "" in the namespace "a"';
    expect(recorded(`DELETE ${PODS}`, 403, failure(403, { message }))).toBeUndefined();
    const ofOne = 'admission webhook "w" denied the request: ' + message;
    expect(recorded(`DELETE ${PODS}`, 403, failure(403, { message: ofOne }))).toEqual(open);
    const budgets = failure(500, { message: 'This pod has more than one PodDisruptionBudget' });
    expect(recorded(`POST ${PODS}/x/eviction`, 500, budgets)).toBeUndefined();
  });
});
