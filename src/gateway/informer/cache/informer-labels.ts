import { groupOf, type MetricLabels, versionOf } from '../../../core/index.ts';
import type { View } from './view.ts';

/**
 * The labels of client-go's informers (component-base's `metrics/prometheus/clientgo/fifo`). `name` tells informers of
 * one resource apart: it is the view's name.
 */
export function informerLabels({ name, resource }: Pick<View, 'name' | 'resource'>): MetricLabels {
  return { name, group: groupOf(resource), version: versionOf(resource), resource: resource.plural };
}
