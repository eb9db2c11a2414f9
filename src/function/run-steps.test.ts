import { describe, expect, it } from 'vitest';
import { type KubernetesObject, resource, systemClock } from '../core/index.ts';
import type { ApiTransport, ApiTransportAnswer } from './api-transport.ts';
import { ApiWriter } from './api-writer.ts';
import type { CacheReader } from './cache-reader.ts';
import { SeenObjects } from './object-changes.ts';
import { RunLog } from './run-log.ts';
import { RunSteps } from './run-steps.ts';

interface Site extends KubernetesObject {
  spec: { text: string };
  status?: { ready: boolean };
}

const Site = resource<Site>('example.com/v1', 'Site');
const ConfigMap = resource('v1', 'ConfigMap');
const Secret = resource('v1', 'Secret');

const siteAt = (resourceVersion: string, text: string): Site => ({
  apiVersion: 'example.com/v1',
  kind: 'Site',
  metadata: { namespace: 'a', name: 'b', uid: 'u', resourceVersion },
  spec: { text },
});

/** What a run notes, with a cache that has these objects and an apiserver that answers so. */
function start(
  has: { cached?: KubernetesObject; answers?: readonly (ApiTransportAnswer | Error)[]; seen?: SeenObjects } = {},
) {
  const log = new RunLog(20, systemClock.now());
  const steps = new RunSteps(log, has.seen ?? new SeenObjects(), ({ kind }) => kind === 'Hidden');
  const reader = {
    get: async () => has.cached && ({ ...has.cached, spec: { ...(has.cached as Site).spec } } as KubernetesObject),
    list: async () => ({ items: [has.cached, has.cached], version: '9' }),
    secondsUnchanged: async () => 7,
  } as unknown as CacheReader;
  const answers = [...(has.answers ?? [])];
  const transport: ApiTransport = async () => {
    const answer = answers.shift();
    if (answer === undefined || answer instanceof Error) throw answer ?? new Error('no more answers');
    return answer;
  };
  const run = { signal: new AbortController().signal, deadlineMs: systemClock.now() + 10_000 };
  const lines = (): string[] => log.lines.map((line) => line.replace(/^\+\d+ ms /, '').replace(/, \d+ ms/, ', N ms'));
  return { cache: steps.cache(reader), api: new ApiWriter(steps.transport(transport), run), lines, log };
}

const answer = (body: unknown, status = 200): ApiTransportAnswer => ({ status, body: JSON.stringify(body) });

describe('the steps of a run: the cache', () => {
  it('name the object and its version, or that there is none', async () => {
    const { cache, lines } = start({ cached: siteAt('7', 'one') });
    expect(await cache.get(Site, { namespace: 'a', name: 'b' })).toEqual(siteAt('7', 'one'));
    const empty = start();
    expect(await empty.cache.get(Site, { namespace: 'a', name: 'b' })).toBeUndefined();
    expect(lines()).toEqual(['cache get example.com/v1/Site a/b: version 7']);
    expect(empty.lines()).toEqual(['cache get example.com/v1/Site a/b: none']);
  });

  it('are one line for reads of a kind one after the other, and another after something else', async () => {
    const { cache, lines } = start({ cached: siteAt('7', 'one') });
    for (const name of ['b', 'c', 'd', 'e', 'f']) await cache.get(Site, { namespace: 'a', name });
    await cache.get(ConfigMap, { namespace: 'a', name: 'x' });
    await cache.get(Site, { namespace: 'a', name: 'b' });
    expect(lines().map((line) => line.replace(/ \(since.*\)/, ''))).toEqual([
      'cache get example.com/v1/Site a/b: version 7, a/c: version 7, a/d: version 7 and 2 more',
      'cache get v1/ConfigMap a/x: version 7',
      'cache get example.com/v1/Site a/b: version 7',
    ]);
  });

  it('have the selection of a list, its length and its version', async () => {
    const { cache, lines } = start({ cached: siteAt('7', 'one') });
    await cache.list(Site);
    await cache.list(Site, { namespace: 'a', labelSelector: 'app=web', fieldSelector: 'spec.text=one' });
    expect(await cache.secondsUnchanged(Site, { namespace: 'a', name: 'b' }, 'spec.text')).toBe(7);
    expect(lines()).toEqual([
      'cache list example.com/v1/Site: 2 at 9',
      'cache list example.com/v1/Site in a, labels app=web, fields spec.text=one: 2 at 9',
    ]);
  });

  it('say what has changed since a run in this process has read the object, but for Secrets', async () => {
    const seen = new SeenObjects();
    await start({ cached: siteAt('7', 'one'), seen }).cache.get(Site, { namespace: 'a', name: 'b' });
    const { cache, lines } = start({ cached: siteAt('9', 'two'), seen });
    const read = await cache.get(Site, { namespace: 'a', name: 'b' });
    if (read) read.spec.text = 'changed by the author';
    expect(lines()).toEqual([
      'cache get example.com/v1/Site a/b: version 9 (since the last run here: spec.text "one" → "two")',
    ]);
    for (const value of ['one', 'two']) {
      const cached = { ...siteAt(value, value), kind: 'Secret', apiVersion: 'v1' };
      const of = start({ cached, seen });
      await of.cache.get(Secret, { namespace: 'a', name: 'b' });
      expect(of.lines()).toEqual([`cache get v1/Secret a/b: version ${value}`]);
    }
  });
});

describe('the steps of a run: the apiserver', () => {
  const path = '/apis/example.com/v1/namespaces/a/sites/b';

  it('show what a write has changed of the object that the run has read', async () => {
    const after = { ...siteAt('8', 'one'), status: { ready: true } };
    const { cache, api, lines } = start({ cached: siteAt('7', 'one'), answers: [answer(after), answer(after)] });
    const site = await cache.get(Site, { namespace: 'a', name: 'b' });
    if (!site) throw new Error('the cache has the site');
    site.status = { ready: true };
    await api.replace(Site, site, 'status');
    await api.patch(Site, { namespace: 'a', name: 'b' }, { type: 'merge', body: { spec: {} } });
    expect(lines()).toEqual([
      'cache get example.com/v1/Site a/b: version 7',
      `PUT ${path}/status, N ms: status was added: {"ready":true}`,
      `PATCH ${path}, N ms: nothing has changed`,
    ]);
  });

  it('show what is sent when the run has not read the object, without its name', async () => {
    const { api, lines } = start({ answers: [answer(siteAt('8', 'one')), answer(siteAt('9', 'two')), answer({})] });
    await api.create(Site, { metadata: { namespace: 'a', name: 'b', labels: { x: 'y' } }, spec: { text: 'one' } });
    const options = { fieldManager: 'me' };
    await api.apply(Site, { metadata: { namespace: 'a', name: 'b' }, spec: { text: 'two' } }, options);
    await api.delete(Site, { namespace: 'a', name: 'b' });
    expect(lines()).toEqual([
      'POST /apis/example.com/v1/namespaces/a/sites, N ms: {"metadata":{"name":"b","labels":{"x":"y"}},"spec":{"text":"one"}}',
      `PATCH ${path}?fieldManager=me&force=false, N ms: {"metadata":{"name":"b"},"spec":{"text":"two"}}`,
      `DELETE ${path}, N ms`,
    ]);
  });

  it('show a refusal, and a request without an answer', async () => {
    const refusal = { kind: 'Status', status: 'Failure', code: 409, reason: 'Conflict', message: 'it has changed' };
    const { api, lines } = start({ answers: [answer(refusal, 409), new Error('the connection broke')] });
    await expect(api.delete(Site, { namespace: 'a', name: 'b' })).rejects.toThrow('it has changed');
    await expect(api.get(Site, { namespace: 'a', name: 'b' })).rejects.toThrow('broke');
    expect(lines()).toEqual([
      `DELETE ${path}, N ms: 409 it has changed`,
      `GET ${path}, N ms: no answer: the connection broke`,
    ]);
  });

  it.each([
    ['a Secret', Secret],
    ['a kind that is encrypted in the cache', resource('example.com/v1', 'Hidden')],
  ])('have no value of %s', async (_, hidden) => {
    const { apiVersion, kind } = hidden;
    const at = (version: string, value: string) => ({
      apiVersion,
      kind,
      metadata: { namespace: 'a', name: 'b', uid: 'u', resourceVersion: version },
      data: { password: value },
    });
    const key = { namespace: 'a', name: 'b' };
    const { api, lines } = start({
      answers: [answer(at('1', 's3cret')), answer(at('1', 's3cret')), answer(at('2', 's4cret'))],
    });
    await api.create(hidden, { metadata: key });
    await api.get(hidden, key);
    await api.patch(hidden, key, { type: 'merge', body: { data: { password: 's4cret' } } });
    const [created = '', got = '', patched = ''] = lines();
    expect(created).toMatch(/^POST \S+, N ms$/);
    expect(got).toMatch(/^GET \S+, N ms$/);
    expect(patched).toMatch(/^PATCH \S+, N ms: data\.password was changed$/);
    expect(lines().join()).not.toContain('cret"');
  });

  it('an object of a cluster and the status of one have the same path; a list has none', async () => {
    const Node = resource('v1', 'Node', { namespaced: false });
    const node = (version: string, ready: boolean) => ({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n', uid: 'u', resourceVersion: version },
      status: { ready },
    });
    const list = { apiVersion: 'v1', kind: 'NodeList', metadata: { resourceVersion: '5' }, items: [] };
    const { api, lines } = start({ answers: [answer(list), answer(node('1', false)), answer(node('2', true))] });
    await api.list(Node);
    await api.get(Node, { name: 'n' });
    await api.patch(Node, { name: 'n' }, { type: 'merge', body: {} }, 'status');
    expect(lines()).toEqual([
      'GET /api/v1/nodes?limit=500, N ms',
      'GET /api/v1/nodes/n, N ms',
      'PATCH /api/v1/nodes/n/status, N ms: status.ready false → true',
    ]);
  });
});

it('a line of a request that is under way says so', async () => {
  const log = new RunLog(20, systemClock.now());
  const steps = new RunSteps(log, new SeenObjects(), () => false);
  const pending = Promise.withResolvers<ApiTransportAnswer>();
  const sent = steps.transport(() => pending.promise)({ method: 'GET', path: '/version', signal: AbortSignal.abort() });
  expect(log.lines).toEqual([expect.stringMatching(/^\+\d+ ms GET \/version: no answer yet$/)]);
  pending.resolve(answer({}));
  await sent;
});

it('an object with 10,000 levels fails no run: its step says that it cannot be shown', async () => {
  const deep = (version: string): string =>
    `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"namespace":"a","name":"b","uid":"u","resourceVersion":"${version}"},"spec":${'{"a":'.repeat(10_000)}${version}${'}'.repeat(10_000)}}`;
  const answers = ['1', '2'].map((version) => ({ status: 200, body: deep(version) }));
  const { api, cache, lines } = start({ cached: JSON.parse(deep('1')) as Site, answers });
  await cache.get(Site, { namespace: 'a', name: 'b' }).catch(() => {});
  await api.get(Site, { namespace: 'a', name: 'b' });
  await api.patch(Site, { namespace: 'a', name: 'b' }, { type: 'merge', body: {} });
  expect(lines()).toEqual([
    'cache get example.com/v1/Site a/b: version 1',
    'GET /apis/example.com/v1/namespaces/a/sites/b, N ms',
    expect.stringMatching(/^a step that cannot be shown: /),
  ]);
});
