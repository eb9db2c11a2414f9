import { beforeEach, describe, expect, it } from 'vitest';
import { type KubernetesObject, resource, silentLogger } from '../core/index.ts';
import type { ApiTransportRequest } from './api-transport.ts';
import { ApiWriter } from './api-writer.ts';
import { EventRecorder } from './event-recorder.ts';

const Site = resource('example.com/v1', 'Site');
const Node = resource('v1', 'Node', { namespaced: false });
const site: KubernetesObject = {
  apiVersion: 'example.com/v1',
  kind: 'Site',
  metadata: { namespace: 'a', name: 'x', uid: 'u', resourceVersion: '7' },
};

let sent: { method: string; path: string; body: Record<string, unknown> }[];
let answer: (request: ApiTransportRequest) => Promise<number> | number;
let warnings: unknown[];

beforeEach(() => {
  sent = [];
  warnings = [];
  answer = () => 201;
});

const log = { ...silentLogger, warn: (fields: object) => void warnings.push(fields) };
/** A writer for a new run. */
function run(): ApiWriter {
  const transport = async (request: ApiTransportRequest) => {
    const body = JSON.parse(request.body ?? '{}') as Record<string, unknown>;
    sent.push({ method: request.method, path: request.path.replace(/[?].*/, ''), body });
    const status = await answer(request);
    const metadata = { namespace: 'a', name: 'e', uid: 'e', resourceVersion: '1' };
    return { status, body: JSON.stringify(status < 300 ? { metadata } : { kind: 'Status', code: status }) };
  };
  return new ApiWriter(transport, { signal: new AbortController().signal, deadlineMs: Date.now() + 10_000 });
}
const recorder = () => new EventRecorder({ component: 'test', now: () => Date.UTC(2026, 0, 1) });

describe('EventRecorder', () => {
  it('writes an event as client-go does', async () => {
    const api = run();
    recorder().about(Site, site, { api, log }).warning('Broken', 'it is broken');
    await api.finish();
    expect(sent).toMatchObject([{ method: 'POST', path: '/api/v1/namespaces/a/events' }]);
    const { metadata, ...body } = sent[0]?.body ?? {};
    expect(metadata).toEqual({ namespace: 'a', name: expect.stringMatching(/^x[.][0-9a-f]{16}$/) });
    expect(body).toEqual({
      apiVersion: 'v1',
      kind: 'Event',
      involvedObject: {
        apiVersion: 'example.com/v1',
        kind: 'Site',
        namespace: 'a',
        name: 'x',
        uid: 'u',
        resourceVersion: '7',
      },
      type: 'Warning',
      reason: 'Broken',
      message: 'it is broken',
      count: 1,
      firstTimestamp: '2026-01-01T00:00:00Z',
      lastTimestamp: '2026-01-01T00:00:00Z',
      source: { component: 'test' },
      reportingComponent: 'test',
    });
  });

  it('tells of cluster-scoped objects in the namespace default', async () => {
    const api = run();
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n', uid: 'n', resourceVersion: '1' } };
    recorder().about(Node, node, { api, log }).normal('Up', 'it is up');
    await api.finish();
    expect(sent[0]?.path).toBe('/api/v1/namespaces/default/events');
    expect(sent[0]?.body['involvedObject']).not.toHaveProperty('namespace');
  });

  it('has one write under way for an event, and one more for all that came meanwhile, of whatever run', async () => {
    const pending = Promise.withResolvers<number>();
    answer = () => pending.promise;
    const own = recorder();
    const [first, second] = [run(), run()];
    own.about(Site, site, { api: first, log }).normal('Done', 'it is done');
    for (let time = 0; time < 3; time += 1) own.about(Site, site, { api: second, log }).normal('Done', 'it is done');
    await new Promise((resolve) => setImmediate(resolve));
    expect(sent).toHaveLength(1);
    answer = () => 200;
    pending.resolve(201);
    await Promise.all([first.finish(), second.finish()]);
    expect(sent.map(({ method, body }) => [method, body['count']])).toEqual([
      ['POST', 1],
      ['PATCH', 4],
    ]);
  });

  it('makes an event anew that is there no more, with its count', async () => {
    const own = recorder();
    for (const status of [201, 404]) {
      answer = ({ method }) => (method === 'PATCH' ? status : 201);
      const api = run();
      own.about(Site, site, { api, log }).normal('Done', 'it is done');
      await api.finish();
    }
    expect(sent.map(({ method, body }) => [method, body['count']])).toEqual([
      ['POST', 1],
      ['PATCH', 2],
      ['POST', 2],
    ]);
    expect(warnings).toEqual([]);
  });

  it('fails nobody, warns, and does not tell later what could not be told', async () => {
    answer = () => 403;
    const own = recorder();
    const api = run();
    own.about(Site, site, { api, log }).normal('Done', 'it is done');
    await api.finish();
    expect(warnings).toMatchObject([{ event: 'Done', type: 'Normal' }]);
    answer = () => 201;
    const next = run();
    own.about(Site, site, { api: next, log }).normal('Done', 'it is done');
    await next.finish();
    expect(sent.map(({ method, body }) => [method, body['count']])).toEqual([
      ['POST', 1],
      ['POST', 2],
    ]);
  });

  it('delays the end of a run by a second at most', async () => {
    answer = () => new Promise(() => {});
    const api = run();
    recorder().about(Site, site, { api, log }).normal('Done', 'it is done');
    await api.finish();
    expect(api.unanswered).toMatchObject([{ kind: 'Event', message: expect.stringContaining('the run ended') }]);
  });
});
