import { expect, it } from 'vitest';
import { resource } from '../../../core/index.ts';
import type { View } from '../../informer/cache/view.ts';
import { KeyScope } from '../handlers/key-scope.ts';
import type { EventSources } from './event-sources.ts';
import { KeyObjects } from './key-objects.ts';

const pods = resource('v1', 'Pod');

/** The objects of the keys of a controller whose cache has none. */
function objects({ ageMs, synced = true }: { readonly ageMs: number | undefined; readonly synced?: boolean }) {
  const view = {
    contains: () => true,
    objects: { heads: async () => [undefined], keptOutReason: async () => undefined },
  } as unknown as View;
  return new KeyObjects({
    resource: pods,
    events: { reconciled: {}, scope: new KeyScope(pods, {}, [view]) } as unknown as EventSources,
    informers: [{ view, synced, ageMs: async () => ageMs }],
    budget: { inTurn: async (work) => work() },
  });
}

it.each([
  [{ ageMs: 70_000 }, { state: 'absent' }],
  // A kind that the server does not serve has no objects.
  [{ ageMs: undefined }, { state: 'absent' }],
  [
    { ageMs: undefined, synced: false },
    { state: 'unknown', reason: 'the cache is not complete yet' },
  ],
  [{ ageMs: 7_200_000 }, { state: 'unknown', reason: 'the cache lacks it, and shows the apiserver of 7200 s ago' }],
])('an object that the cache lacks, while it is as %j: %j', async (cache, expected) => {
  expect(await objects(cache).of('default/a')).toEqual(expected);
});
