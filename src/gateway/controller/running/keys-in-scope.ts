import type { KubernetesObject } from '../../../core/index.ts';
import type { TimeSlice } from '../../../ground/time-slice.ts';
import type { View } from '../../informer/cache/view.ts';
import type { KeyScope, ViewPart } from '../handlers/key-scope.ts';

export interface KeysWanted {
  /** Only keys of this namespace. Default: of all namespaces in the scope. */
  readonly namespace?: string;
  /** Only keys of objects that pass. Objects are read only for this test and for a selector of the scope. */
  readonly passes?: ((object: KubernetesObject) => boolean) | undefined;
  /** The slice of the work that reads the keys. Default: a new slice of the gateway's own work. */
  readonly slice?: TimeSlice;
}

const CHUNK = 250;
/** How many objects are read at a time: each may have megabytes. */
export const OBJECTS = 50;

/** Keys of a controller that the cache holds, some at a time. */
export async function* keysInScope(
  scope: KeyScope,
  { namespace, passes, slice }: KeysWanted = {},
): AsyncGenerator<string[], void, undefined> {
  for (const viewPart of scope.viewParts(namespace)) {
    for await (const all of keysOfPart(viewPart)) {
      const keys = passes || scope.labelSelector ? await selected(viewPart.view, all, scope, { passes, slice }) : all;
      if (keys.length > 0) yield keys;
    }
  }
}

/** All keys in this part of a view, some at a time. */
export async function* keysOfPart({ view, namespace }: ViewPart): AsyncGenerator<string[]> {
  yield* view.objects.keys(CHUNK, namespace);
}

async function selected(
  view: View,
  keys: readonly string[],
  scope: KeyScope,
  { passes, slice }: { [each in 'passes' | 'slice']: KeysWanted[each] },
): Promise<string[]> {
  const found: string[] = [];
  for (let from = 0; from < keys.length; from += OBJECTS) {
    await view.objects.visit(
      keys.slice(from, from + OBJECTS),
      (key, object) => {
        if (object !== undefined && scope.selects(object) && (passes?.(object) ?? true)) found.push(key);
      },
      slice,
    );
  }
  return found;
}
