import { afterEach, describe, expect, it, vi } from 'vitest';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import type { Informer } from '../../informer/cache/informer.ts';
import { ReadingTimes } from '../cache-api/reading-time.ts';
import { dashboardData, type DashboardParts } from './dashboard-data.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

const clock = { now: () => 0, wallNow: () => 0 };

function dataOf(parts: object, times = new ReadingTimes(new InstantClock())) {
  const options = { checks: new Map(), unavailable: () => undefined, clock, times, traceUrl: () => undefined };
  return dashboardData({ parts: () => parts as unknown as DashboardParts, ...options });
}

it.each([
  ['at rest', { ageMs: 70_000, unappliedMs: 0, isTaken: true }, 0],
  ['with an event that waits', { ageMs: 70_000, unappliedMs: 20_000, isTaken: true }, 20_000],
  ['whose watch has brought nothing for two hours', { ageMs: 7_200_000, unappliedMs: 0, isTaken: true }, 7_200_000],
  ['that another gateway fills', { ageMs: 70_000, unappliedMs: 0, isTaken: false }, 0],
  ['that no gateway fills', { ageMs: 7_200_000, unappliedMs: 0, isTaken: false }, 7_200_000],
  ['that is not complete', { ageMs: undefined, unappliedMs: 0, isTaken: true }, undefined],
])('a view %s is shown as late as it is', async (_, { ageMs, ...known }, behindMs) => {
  const objects = { size: async () => 0, encrypted: false };
  const record = { progress: async () => ({ version: '1' }), lastList: async () => undefined };
  const informer = { name: 'v1/Pod', synced: true, view: { objects, record }, ageMs: async () => ageMs, ...known };
  const data = dataOf({
    manager: {
      controllers: { known: () => new Map() },
      informers: { all: () => [informer as unknown as Informer] },
    },
  });
  expect(await data.views()).toMatchObject([{ name: 'v1/Pod', behindMs }]);
});

it('no gateway is known to lead while the Lease that was seen last has expired', () => {
  const election = { identity: 'a_1', leader: 'a_1', isLeading: () => false, warning: undefined };
  expect(dataOf({ election }).gateway()).toEqual({ role: 'follower', identity: 'a_1', leader: 'a_1' });
  const expired = { ...election, warning: 'no gateway has renewed the Lease' };
  expect(dataOf({ election: expired }).gateway()).toEqual({ role: 'follower', identity: 'a_1', leader: '' });
});

it('a key waits for its function while the circuit of its controller is open', async () => {
  const status = { key: 'shop/a', queued: true, backlog: false, waits: [] };
  const controller = {
    circuit: { sinceMs: 0, untilMs: 9, reason: 'the function does not answer' },
    queue: { inspector: { status: async () => status } },
    objects: { resource: {}, of: async () => ({ state: 'cached' }) },
    endpoint: {},
    cacheAccess: {},
    reconciledViews: [],
  };
  const data = dataOf({ manager: { controllers: { known: () => new Map([['web', controller]]) } } });
  const visitor = { client: 'ann', readRefusal: async () => undefined };
  expect(await data.controller('web')?.status(visitor, 'shop/a')).toEqual({
    ...status,
    object: { state: 'cached' },
    waits: [{ reason: 'breaker', untilMs: 9 }],
  });
});

it.each([
  ['none that is due and none that fails', {}, undefined],
  ['one that is due', { oldestDueMs: 0 }, 0],
  ['one that fails', { oldestFailingMs: 90_000 }, 90_000],
  ['one that fails for longer than another is due', { oldestDueMs: 4000, oldestFailingMs: 90_000 }, 90_000],
  ['one that is due for longer than another fails', { oldestDueMs: 90_000, oldestFailingMs: 4000 }, 90_000],
])('the oldest key of a controller with %s has the longer of both ages: %o', async (_, ages, oldestMs) => {
  const controller = {
    queue: { inspector: { levels: async () => ages }, history: { samples: async () => [] } },
    description: { for: { apiVersion: 'v1', kind: 'ConfigMap' } },
    sources: {},
    failures: {},
  };
  const controllers = { known: () => new Map([['web', controller]]), get: () => undefined };
  const data = dataOf({ manager: { controllers, progress: { stalled: () => undefined } } });
  expect(await data.controllers()).toMatchObject([{ oldestMs }]);
});

it('a page of objects takes time of its visitor for each object that it looks at', async () => {
  const time = new InstantClock();
  vi.spyOn(performance, 'now').mockImplementation(() => time.now());
  const times = new ReadingTimes(time);
  const stored = {
    key: 'shop/a',
    decode: () => {
      time.advance(5);
      return { metadata: { namespace: 'shop', name: 'a' } };
    },
  };
  const reader = {
    state: async () => ({}),
    select: async function* () {
      yield Array.from({ length: 1000 }, () => stored);
    },
  };
  const resource = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps', namespaced: true };
  const view = { resource, objects: { encrypted: false }, location: {}, reader: () => reader };
  const data = dataOf({ manager: { informers: { all: () => [{ name: 'v1/ConfigMap', view }] } } }, times);
  const visitor = { client: 'ann', readRefusal: async () => undefined };
  const shown = await data.view('v1/ConfigMap')?.list(visitor, { labels: 'app=none' }, { after: '', limit: 50 });
  expect(shown).toEqual({ kind: 'shown', objects: [], next: undefined });
  expect(time.sleeps).not.toEqual([]);
  expect(() => times.ofVisitor('ann').check()).toThrow('take too much of the processor');
  times.ofVisitor('ben').check();
});

it('an object takes time of its visitor, on its page and on that of its key', async () => {
  const paid: string[] = [];
  const times = {
    ofVisitor: (tenant: string) => ({
      tenant,
      pace: async <T>(work: () => T): Promise<T> => {
        paid.push(tenant);
        return work();
      },
    }),
  } as unknown as ReadingTimes;
  const decode = () => {
    paid.push('decoded');
    return { metadata: { namespace: 'shop', name: 'a' } };
  };
  const resource = { apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps', namespaced: true };
  const objects = { encrypted: false, first: async () => [{ decode }] };
  const view = { name: 'v1/ConfigMap', resource, objects, location: {}, contains: () => true };
  const web = { name: 'web', reconciledViews: [view], endpoint: {}, cacheAccess: {}, description: { for: resource } };
  const informers = { all: () => [{ name: 'v1/ConfigMap', view }] };
  const client = { json: async () => Promise.reject(new Error('it is away')) };
  const data = dataOf({ manager: { controllers: { known: () => new Map([['web', web]]) }, informers }, client }, times);
  const visitor = (client: string) => ({ client, readRefusal: async () => undefined });
  expect(await data.view('v1/ConfigMap')?.get(visitor('ann'), 'shop/a')).toMatchObject({ kind: 'shown' });
  expect(await data.controller('web')?.object(visitor('ben'), 'shop/a')).toMatchObject({ serverError: 'it is away' });
  expect(paid).toEqual(['ann', 'decoded', 'ben', 'decoded']);
});

describe('a visitor who may not read the objects of a kind', () => {
  const refusal = 'you may not list them';
  const asked: object[] = [];
  const refused = {
    client: 'ann',
    readRefusal: async ({ namespace }: { readonly namespace?: string | undefined }) => {
      asked.push({ namespace });
      return namespace === 'open' ? undefined : refusal;
    },
  };
  /** A view that fails where it is read. */
  const unread = new Proxy({}, { get: () => () => expect.fail('it was read') });
  const objects = {
    encrypted: false,
    keys: async function* () {
      yield ['shop/a', 'open/a'];
    },
    first: () => expect.fail('it was read'),
  };
  const resource = { apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps', namespaced: true };
  const view = { name: 'v1/ConfigMap', resource, objects, indexer: unread, location: {}, contains: () => true };
  const controller = {
    name: 'web',
    reconciledViews: [view],
    hasInScope: () => true,
    description: { for: resource },
    endpoint: {},
    cacheAccess: {},
  };
  const known = new Map([['web', controller]]);
  const data = dataOf({ manager: { controllers: { known: () => known }, informers: { all: () => [{ view }] } } });

  it('learns nothing of the objects around one', async () => {
    expect(await data.controller('web')?.around(refused, 'shop/a')).toBeUndefined();
    expect(asked.at(-1)).toEqual({ namespace: 'shop' });
  });

  it('sees the keys of objects where they may be read, and the reason elsewhere', async () => {
    const page = { after: '', limit: 9 };
    const web = data.controller('web');
    expect(await web?.keys(refused, { namespace: '', name: '' }, page)).toEqual({ kind: 'hidden', reason: refusal });
    expect(await web?.keys(refused, { namespace: 'shop', name: '' }, page)).toEqual({
      kind: 'hidden',
      reason: refusal,
    });
    expect(await web?.keys(refused, { namespace: 'open', name: '' }, page)).toMatchObject({ kind: 'shown' });
  });

  it('finds what may be read', async () => {
    const found = await data.search(refused, 'a');
    expect(found.objects).toEqual([{ view: 'v1/ConfigMap', key: 'open/a', controllers: ['web'] }]);
  });

  it('finds no Secret, whoever asks', async () => {
    const secrets = { ...view, name: 'v1/Secret', resource: { ...resource, kind: 'Secret', plural: 'secrets' } };
    const admin = { client: 'ben', readRefusal: async () => undefined };
    const informers = { all: () => [{ view: secrets }] };
    const all = dataOf({ manager: { controllers: { known: () => new Map() }, informers } });
    expect(await all.search(admin, 'a')).toEqual({ objects: [], isWhole: true });
  });
});
