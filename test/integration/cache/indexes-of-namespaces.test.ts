import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { declaredIndex, type MadeIndex, namespaceIndex, viewKeys } from '../../../src/contract/cache-layout.ts';
import type { IndexSpec } from '../../../src/contract/index.ts';
import type { Selection } from '../../../src/contract/selection.ts';
import { backfill, boundedIndexes } from '../../../src/gateway/informer/cache/backfill.ts';
import type { Lookup } from '../../../src/gateway/informer/cache/change.ts';
import { resolveLookup, unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { createView } from '../../harness/views.ts';

const Web = resource('example.com/v1', 'Web');
const REF = 'field:spec.ref';
const SELECTOR = 'selector:spec.selector';
const NAMESPACES = ['a', 'b', 'c'];

/** In each namespace ten that refer to `x`, and ten that refer to something else. */
const webs: KubernetesObject[] = NAMESPACES.flatMap((namespace) =>
  Array.from({ length: 20 }, (_, at) => {
    const metadata = { namespace, name: `web${at}`, uid: `uid-${namespace}-${at}`, resourceVersion: String(at + 2) };
    const ref = at < 10 ? 'x' : `other${at}`;
    return { apiVersion: 'example.com/v1', kind: 'Web', metadata, spec: { ref, selector: { app: ref } } };
  }),
);

const referring = (namespaces: readonly string[]): string[] =>
  namespaces.flatMap((namespace) => Array.from({ length: 10 }, (_, at) => `${namespace}/web${at}`)).toSorted();

describe.each(['as objects are written', 'by a backfill'])(
  'an index whose users read one namespace, filled %s',
  (how) => {
    let redis: Redis;
    let view: View;

    beforeAll(async () => {
      redis = await connectRedis(inject('redisUrl'));
      view = createView(redis, Web);
      await view.writer.claim('writer');
      const { kept } = boundedIndexes([{ specs: [REF, SELECTOR], namespaces: ['a'], tenant: 'a.' }]);
      if (how !== 'by a backfill') view.indexer.maintain(kept);
      await applierOf(view).apply(listOf('900', webs));
      const read = vi.spyOn(view.objects, 'eachEncoded');
      await backfill(view, kept, new AbortController().signal);
      expect(read.mock.calls.flatMap(([keys]) => keys).filter((key) => !key.startsWith('a/'))).toEqual([]);
      read.mockRestore();
    });
    afterAll(async () => {
      await view.discard();
      redis.disconnect();
    });

    it('has no entry for objects of other namespaces', async () => {
      for (const { key, entry } of (await entriesOf(view)).filter(({ key: each }) => !each.startsWith('a/'))) {
        expect(
          entry.indexEntries.filter((each) => each.includes('=')),
          key,
        ).toEqual([]);
      }
      const { indexPrefix } = viewKeys(view.location.prefix);
      const found = await redis.smembers(indexPrefix + declaredIndex(REF, 'x'));
      expect(found.toSorted()).toEqual(referring(['a']));
    });

    it.each([
      ['a', 10],
      ['b', 20],
      [undefined, undefined],
    ])('gives readers of the namespace %s the right objects', async (namespace, candidates) => {
      const selection: Selection = { index: { spec: REF, value: 'x' }, ...(namespace ? { namespace } : {}) };
      const reader = view.reader();
      for (const most of [Infinity, 0]) {
        const state = await reader.state(selection, most);
        if (!state) throw new Error('the view is not complete');
        const found: string[] = [];
        for await (const batch of reader.select(selection, { state })) found.push(...batch.map(({ key }) => key));
        expect(found.toSorted()).toEqual(referring(namespace ? [namespace] : NAMESPACES));
        // Only in the namespace the index says which they are.
        expect(state.keys?.length).toBe(most === 0 ? undefined : candidates);
      }
    });

    it.each([['a'], ['b'], [undefined]])('gives lookups in the namespace %s the right keys', async (namespace) => {
      const entries = namespace ? [namespaceIndex(namespace)] : [];
      const { prefix } = view.location;
      const byField: Lookup = { view: prefix, entries: [...entries, declaredIndex(REF, 'x')], declared: REF };
      const selector = { path: 'spec.selector', labels: { app: 'x' } };
      const bySelector: Lookup = { view: prefix, entries, declared: SELECTOR, selector };
      for (const lookup of [byField, bySelector]) {
        const found = await resolveLookup(view, lookup, unlimitedLookups);
        expect(found.toSorted()).toEqual(referring(namespace ? [namespace] : NAMESPACES));
      }
    });
  },
);

async function entriesOf(view: View) {
  const keys = webs.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  const entries = await view.objects.entries(keys);
  return keys.map((key, at) => ({ key, entry: entries[at] ?? { indexEntries: ['absent='] } }));
}

describe('indexes of several namespaces', () => {
  let redis: Redis;
  let view: View;

  beforeAll(async () => {
    redis = await connectRedis(inject('redisUrl'));
  });
  afterAll(() => redis.disconnect());

  const declaredIn = (namespace: string, ...specs: IndexSpec[]): MadeIndex[] =>
    boundedIndexes([{ specs, namespaces: [namespace], tenant: `${namespace}.` }]).kept;

  it('are complete one after the other, whatever the tenant of the first one declares meanwhile', async () => {
    view = createView(redis, Web);
    await view.writer.claim('writer');
    await applierOf(view).apply(listOf('900', webs));
    const own = [...declaredIn('b', REF), ...declaredIn('c', REF, SELECTOR)];
    let changes = 0;
    /** The tenant of `a` declares another index before each look. */
    const wanted = (): MadeIndex[] => [...declaredIn('a', `label:l${(changes += 1)}`), ...own];
    const walked = new Set<string | undefined>();
    for (let at = 0; at < NAMESPACES.length; at += 1) {
      const isFilled = await backfill(view, wanted(), new AbortController().signal, { wanted, walked });
      expect(isFilled).toBe(false);
    }
    expect((await view.indexer.complete()).toSorted()).toEqual(own.toSorted());
    const { indexPrefix } = viewKeys(view.location.prefix);
    const found = await redis.smembers(indexPrefix + declaredIndex(REF, 'x'));
    expect(found.toSorted()).toEqual(referring(['b', 'c']));
    // And it can be completed.
    const specs = [...declaredIn('a', 'labels'), ...own].toSorted();
    expect(await backfill(view, specs, new AbortController().signal, { walked })).toBe(true);
    expect(await view.indexer.complete()).toEqual(specs);
    expect(await view.indexer.incomplete()).toEqual([]);
    await view.discard();
  });
});
