import { parseObjectKey } from '../../../core/index.ts';
import type { View } from '../../informer/cache/view.ts';
import { isPaused } from '../handlers/paused.ts';

/** The keys among these whose objects ask for a pause by their annotation. @param views of the reconciled kind. */
export async function pausedAmong(views: readonly View[], keys: readonly string[]): Promise<Set<string>> {
  const paused = new Set<string>();
  for (const view of views) {
    const inView = keys.filter((key) => view.contains(parseObjectKey(key).namespace));
    const entries = await view.objects.recentEntries(inView);
    inView.forEach((key, at) => isPaused(entries[at]) && paused.add(key));
  }
  return paused;
}
