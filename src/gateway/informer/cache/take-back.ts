import { keyOf, tenantNamed } from '../../../core/index.ts';
import { LEFT_OUT_INDEX } from '../../../contract/cache-layout.ts';
import { cachedKey } from '../../../contract/node/cached-name.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';
import type { EventBuffer } from '../reflector/event-buffer.ts';
import type { ListWatch } from '../reflector/list-watch.ts';
import type { Transform } from '../reflector/watch-event.ts';
import type { View } from './view.ts';

export interface TakeBackOptions {
  readonly view: View;
  readonly buffer: EventBuffer;
  readonly listWatch: ListWatch;
  readonly transform: Transform | undefined;
  readonly signal: AbortSignal;
}

/**
 * Reads the objects of a namespace, or of the cluster (''), again that were left out for want of memory, and gives them
 * to the buffer, which holds few of them at a time: the events of all others come between them. Ends early when the
 * namespace is left out again.
 * @throws when the apiserver or Redis does not answer, or the signal is aborted.
 */
export async function takeBack(
  namespace: string,
  { view, buffer, listWatch, transform, signal }: TakeBackOptions,
): Promise<void> {
  const payer = view.payerOf(namespace || undefined);
  const slice = new TimeSlice(tenantNamed(payer), signal);
  const place = namespace === '' ? listWatch : listWatch.in(namespace);
  for await (const { items, bytes, weight } of place.pages('', signal)) {
    const keys = items.map((item) => cachedKey(keyOf(item)));
    const heads = await view.objects.heads(keys, { index: LEFT_OUT_INDEX });
    slice.restart();
    for (const [at, object] of items.entries()) {
      if (view.leftOut(payer) !== undefined) return;
      if (!heads[at]?.indexEntries.includes(LEFT_OUT_INDEX)) continue;
      transform?.object(object);
      buffer.push({ kind: 'back', object }, Math.ceil(bytes / items.length), Math.ceil(weight / items.length));
      if (slice.isOver) await slice.next();
      slice.throwIfEnded();
    }
    await buffer.low(signal);
  }
}
