import type { Resource } from '../../core/index.ts';
import type { Informer } from '../cache/informer.ts';

/**
 * A kind that a controller watches or reads, as the cluster serves it, and its informers: one for each cached
 * namespace.
 */
export interface ControllerSource {
  readonly resource: Resource;
  readonly informers: readonly Informer[];
  /**
   * No description names it, but keys do: nothing waits until it is complete, since its list may fail for ever. Default
   * false.
   */
  readonly isRelated?: boolean;
}

/** Of all these kinds. */
export function informersOf(sources: readonly ControllerSource[]): Informer[] {
  return sources.flatMap(({ informers }) => informers);
}
