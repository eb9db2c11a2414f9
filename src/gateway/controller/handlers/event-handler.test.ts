import { expect, it } from 'vitest';
import { type KubernetesObject, type ObjectMeta, resource } from '../../../core/index.ts';
import type { Predicate } from '../../../contract/index.ts';
import type { View } from '../../informer/cache/view.ts';
import { enqueueObject, EventSource } from './event-handler.ts';
import { KeyScope } from './key-scope.ts';
import { EventPredicate } from './predicate.ts';

const pods = resource('v1', 'Pod');
const noCel = (): never => {
  throw new Error('there is no expression');
};

function pod(name: string, more: Partial<ObjectMeta> = {}): KubernetesObject {
  return { ...pods, metadata: { namespace: 'n', name, uid: 'u', resourceVersion: '1', generation: 1, ...more } };
}

it('remembers the last event of an object that the predicate has left out, and which part of it did', () => {
  const predicate = new EventPredicate(
    { all: [{ labelSelector: { matchLabels: { app: 'web' } } }, { changed: 'generation' }] },
    noCel,
  );
  const source = new EventSource(pods, predicate);
  const view = { contains: () => true } as unknown as View;
  const handler = enqueueObject('web', source, new KeyScope(pods, {}, [view]));
  const labels = { app: 'web' };
  const update = (
    name: string,
    resourceVersion: string,
    generation = 1,
    own: Partial<ObjectMeta> = { labels },
  ): number =>
    handler.handle({
      type: 'updated',
      old: pod(name, own),
      object: pod(name, { ...own, resourceVersion, generation }),
    }).length;

  expect(update('a', '2')).toBe(0);
  expect(source.droppedOf('n/a')).toEqual({ type: 'updated', resourceVersion: '2', by: 'all.1.changed' });
  expect(update('b', '3', 2, {})).toBe(0);
  expect(source.droppedOf('n/b')).toMatchObject({ resourceVersion: '3', by: 'all.0.labelSelector' });
  // Its last event has passed.
  expect(update('a', '4', 2)).toBe(1);
  expect(source.droppedOf('n/a')).toBeUndefined();
  // A pause passes each predicate.
  const annotations = { 'levelhook.dev/paused': 'true' };
  const paused = pod('b', { annotations, resourceVersion: '5' });
  expect(handler.handle({ type: 'updated', old: pod('b'), object: paused })).toHaveLength(1);
  expect(source.droppedOf('n/b')).toBeUndefined();
  // Few are remembered: a kind may have very many objects.
  for (let at = 0; at < 150; at += 1) update(`p${at}`, '9');
  expect([49, 50, 149].map((at) => source.droppedOf(`n/p${at}`) !== undefined)).toEqual([false, true, true]);
});

it.each<[Predicate, string]>([
  [{ changed: 'generation' }, 'changed'],
  // All of its parts have refused.
  [{ any: [{ changed: 'generation' }, { changed: 'labels' }] }, 'any'],
  [{ all: [{ changed: 'resourceVersion' }, { any: [{ changed: 'labels' }] }] }, 'all.1.any'],
  [{ not: { changed: 'resourceVersion' } }, 'not'],
])('names the part of %j that has refused an event: %s', (predicate, by) => {
  const source = new EventSource(pods, new EventPredicate(predicate, noCel));
  const view = { contains: () => true } as unknown as View;
  const handler = enqueueObject('web', source, new KeyScope(pods, {}, [view]));
  handler.handle({ type: 'updated', old: pod('a'), object: pod('a', { resourceVersion: '2' }) });
  expect(source.droppedOf('n/a')?.by).toBe(by);
});
