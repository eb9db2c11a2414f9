import { beforeEach, describe, expect, it } from 'vitest';
import { type KubernetesObject, resource } from '../core/index.ts';
import type { ApiTransportRequest } from './api-transport.ts';
import { ApiWriter } from './api-writer.ts';
import { ensureFinalizer, removeFinalizer } from './finalizers.ts';

const Site = resource('example.com/v1', 'Site');
const OURS = 'example.com/ours';
const site = (resourceVersion: string, finalizers?: string[], uid = 'u'): KubernetesObject => ({
  apiVersion: 'example.com/v1',
  kind: 'Site',
  metadata: { namespace: 'a', name: 'x', uid, resourceVersion, ...(finalizers ? { finalizers } : {}) },
});

let sent: ApiTransportRequest[];
/** The apiserver's next answers: objects, or status codes. */
let answers: (KubernetesObject | number)[];
let api: ApiWriter;

beforeEach(() => {
  sent = [];
  answers = [];
  const transport = async (request: ApiTransportRequest) => {
    sent.push(request);
    const answer = answers.shift() ?? 500;
    if (typeof answer === 'object') return { status: 200, body: JSON.stringify(answer) };
    return { status: answer, body: JSON.stringify({ kind: 'Status', code: answer }) };
  };
  api = new ApiWriter(transport, { signal: new AbortController().signal, deadlineMs: Date.now() + 10_000 });
});

const bodies = () =>
  sent.filter(({ method }) => method === 'PATCH').map(({ body }) => JSON.parse(body ?? '') as unknown);

describe('finalizers', () => {
  it('are written as a list of one version', async () => {
    answers = [site('2', ['theirs', OURS])];
    expect(await ensureFinalizer(api, Site, site('1', ['theirs']), OURS)).toEqual(site('2', ['theirs', OURS]));
    expect(bodies()).toEqual([{ metadata: { resourceVersion: '1', finalizers: ['theirs', OURS] } }]);
  });

  it('cost no request when there is nothing to change', async () => {
    const object = site('1', [OURS]);
    expect(await ensureFinalizer(api, Site, object, OURS)).toBe(object);
    const without = site('1');
    expect(await removeFinalizer(api, Site, without, OURS)).toBe(without);
    expect(sent).toEqual([]);
  });

  it('are decided anew on the live object after a conflict', async () => {
    answers = [409, site('5', ['late', OURS]), site('6', ['late'])];
    expect(await removeFinalizer(api, Site, site('1', [OURS]), OURS)).toEqual(site('6', ['late']));
    expect(bodies()).toEqual([
      { metadata: { resourceVersion: '1', finalizers: [] } },
      { metadata: { resourceVersion: '5', finalizers: ['late'] } },
    ]);
  });

  it('need no write when somebody else has done it meanwhile', async () => {
    answers = [409, site('5', [OURS])];
    expect(await ensureFinalizer(api, Site, site('1'), OURS)).toEqual(site('5', [OURS]));
    expect(sent.map(({ method }) => method)).toEqual(['PATCH', 'GET']);
  });

  it('are given up after five conflicts', async () => {
    answers = Array.from({ length: 9 }, (_, at) => (at % 2 ? site(String(at)) : 409));
    await expect(ensureFinalizer(api, Site, site('1'), OURS)).rejects.toMatchObject({ code: 409 });
    expect(bodies()).toHaveLength(5);
  });

  it.each<[string, (KubernetesObject | number)[]]>([
    ['gone at once', [404]],
    ['gone after a conflict', [409, 404]],
    ['another one of its name', [409, site('9', [OURS], 'another')]],
  ])('of an object that is %s: removed for all that anybody knows, but not there', async (_, given) => {
    answers = [...given];
    expect(await removeFinalizer(api, Site, site('1', [OURS]), OURS)).toBeUndefined();
    answers = [...given];
    await expect(ensureFinalizer(api, Site, site('1'), OURS)).rejects.toMatchObject({ code: 404, reason: 'NotFound' });
  });

  it.each([403, 422])('are refused as the apiserver refuses them (%i)', async (code) => {
    answers = [code];
    await expect(ensureFinalizer(api, Site, site('1'), OURS)).rejects.toMatchObject({ code });
  });
});
