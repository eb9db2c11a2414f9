import type { Controller } from 'levelhook/function';
import { taintEviction } from './eviction.ts';
import { nodeLifecycle } from './lifecycle.ts';
import type { NodeSettings } from './settings.ts';
import { nodeZones } from './zone-controller.ts';

/** The three controllers of nodes. One app serves them. */
export function nodeControllers(settings: NodeSettings): readonly Controller[] {
  return [nodeLifecycle(settings), nodeZones(settings), taintEviction];
}
