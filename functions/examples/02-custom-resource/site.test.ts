import { ConfigMap } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { beforeEach, expect, it } from 'vitest';
import { site } from './site.ts';
import { Site } from './sites.example.com-v1.ts';

const home = {
  apiVersion: 'example.com/v1',
  kind: 'Site',
  metadata: { namespace: 'a', name: 'home', generation: 1 },
  spec: { pages: { index: 'Welcome', news: '1 < 2 & so on' } },
};
const key = { namespace: 'a', name: 'home' };
const pagesKey = { namespace: 'a', name: 'home-pages' };

let apiserver: MemoryApiserver;
const run = () => runReconciler(site, key, { apiserver });
const ready = () => apiserver.object(Site, key)?.status?.conditions?.[0];

beforeEach(() => {
  apiserver = new MemoryApiserver({ objects: [home] });
});

it('writes the pages and says so, and then leaves both alone', async () => {
  expect((await run()).writes).toMatchObject([
    { verb: 'create', resource: 'configmaps', ...pagesKey },
    { verb: 'update', resource: 'sites', subresource: 'status', ...key },
  ]);
  expect(apiserver.object(ConfigMap, pagesKey)?.data).toEqual({
    'index.html': '<!doctype html><p>Welcome</p>',
    'news.html': '<!doctype html><p>1 &lt; 2 &amp; so on</p>',
  });
  expect(apiserver.object(Site, key)?.status).toMatchObject({ pages: 2 });
  expect(ready()).toMatchObject({ type: 'Ready', status: 'True', observedGeneration: 1 });
  expect((await run()).writes).toEqual([]);
});

it.each([{ a: '1', 'a-b': '2' }, {}])(
  'writes nothing when the apiserver sends the pages in its own way: %j',
  async (pages) => {
    apiserver = new MemoryApiserver({ objects: [{ ...home, spec: { pages } }] });
    await run();
    const written = apiserver.object(ConfigMap, pagesKey);
    if (!written) throw new Error('no pages were written');
    // Sorts the names, and drops empty data.
    const { data = {}, ...rest } = written;
    const entries = Object.entries(data).toSorted(([a], [b]) => (a < b ? -1 : 1));
    apiserver.put(entries.length > 0 ? { ...rest, data: Object.fromEntries(entries) } : rest);
    expect((await run()).writes).toEqual([]);
  },
);

it('puts right what another client has changed', async () => {
  await run();
  const pages = apiserver.object(ConfigMap, pagesKey);
  if (pages) apiserver.put({ ...pages, data: {} });
  expect((await run()).writes).toMatchObject([{ verb: 'update', ...pagesKey }]);
});

it('does not touch the object of another owner, says so, and does not try again by itself', async () => {
  apiserver.put({ apiVersion: 'v1', kind: 'ConfigMap', metadata: pagesKey, data: { a: 'mine' } });
  const { outcome, writes } = await run();
  expect(outcome).toMatchObject({ status: 'terminal', message: 'the ConfigMap home-pages belongs to another owner' });
  expect(writes).toMatchObject([{ verb: 'update', subresource: 'status' }]);
  expect(ready()).toMatchObject({ status: 'False', reason: 'NameTaken' });
});
