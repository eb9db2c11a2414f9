export {
  ApiError,
  type ApiStatus,
  isExpired,
  isTooLargeResourceVersion,
  orUndefined,
  parseRetryAfter,
  statusFrom,
} from './api-error.ts';
export { boundedFields, boundedText } from './bounded-text.ts';
export { type Clock, systemClock } from './clock.ts';
export { isConnectionRefused, messageOf, UserError } from './errors.ts';
export { type FieldRequirement, formatFieldSelector, parseFieldSelector } from './field-selector.ts';
export {
  formatLabelSelector,
  fulfils,
  type LabelRequirement,
  parseLabelSelector,
  requirementsOf,
  SelectorError,
} from './label-requirement.ts';
export { type LabelSelector, matchesLabels } from './label-selector.ts';
export {
  controllerOf,
  type KubernetesObject,
  keyOf,
  type ObjectMeta,
  type OwnerReference,
} from './kubernetes-object.ts';
export { type LogFields, type Logger, silentLogger } from './logger.ts';
export { formatObjectKey, type ObjectKey, parseObjectKey } from './object-key.ts';
export { formatKind, type GroupVersionKind, groupOf, type Resource, resource, resourcePath } from './resource.ts';
export {
  compareResourceVersions,
  isResourceVersion,
  newestResourceVersion,
  type ResourceVersion,
} from './resource-version.ts';
export {
  type CounterName,
  type GaugeName,
  type HistogramName,
  METRICS,
  type MetricLabels,
  type Metrics,
  silentMetrics,
} from './metrics.ts';
export { type Checkpoint, type CheckpointName, noCheckpoint } from './checkpoint.ts';
