export { acrossCopies } from './across-copies.ts';
export {
  ApiError,
  type ApiStatus,
  isExpired,
  isTooLargeResourceVersion,
  isUncertain,
  orUndefined,
  parseRetryAfter,
  statusFrom,
} from './api-error.ts';
export { backoffMs, type BackoffRange } from './backoff.ts';
export { BodyBuffer, isScattered } from './body-buffer.ts';
export { isCredentialName, redacted } from './redacted.ts';
export { boundedFields, boundedText, isPrintable, printable, textWithin } from './bounded-text.ts';
export { type Clock, systemClock } from './clock.ts';
export {
  type Condition,
  findStatusCondition,
  isStatusConditionFalse,
  isStatusConditionTrue,
  type NewCondition,
  removeStatusCondition,
  setStatusCondition,
} from './conditions.ts';
export { NewestMap } from './newest-map.ts';
export {
  type ControllerOrigin,
  idOf,
  namespaceOfTenant,
  objectNamed,
  originOf,
  tenantNamed,
  tenantOf,
} from './controller-id.ts';
export {
  isConnectionRefused,
  isUnreachable,
  messageOf,
  UnavailableError,
  UserError,
  withoutPackage,
} from './errors.ts';
export { type FieldRequirement, formatFieldSelector, parseFieldSelector } from './field-selector.ts';
export { formatBody, formatJson, parseJson, stringEnd } from './json.ts';
export {
  formatLabelSelector,
  fulfils,
  type LabelRequirement,
  parseLabelSelector,
  requirementsOf,
  SelectorError,
} from './label-requirement.ts';
export { asLabelSelector, type LabelSelector, matchesLabels } from './label-selector.ts';
export {
  controllerOf,
  isControlledBy,
  isRemovedByUpdate,
  type KubernetesObject,
  keyOf,
  type ObjectMeta,
  type OwnerIdentity,
  type OwnerReference,
} from './kubernetes-object.ts';
export { type AdmittedLine, LimitedLines } from './limited-lines.ts';
export { type LogFields, type Logger, silentLogger } from './logger.ts';
export { decodeObjectKey, formatObjectKey, namespaceOfKey, type ObjectKey, parseObjectKey } from './object-key.ts';
export {
  apiVersionPath,
  formatKind,
  groupOf,
  groupPath,
  type GroupVersionKind,
  type Resource,
  resource,
  resourcePath,
  versionOf,
} from './resource.ts';
export {
  fieldAt,
  isApiVersion,
  isDns1035Label,
  isDnsSubdomain,
  isFieldPath,
  isFormattedKind,
  isKind,
  isLabelKey,
  isName,
  isNamedName,
  MAX_NAMED,
  isNamespace,
  isUid,
  ownValue,
  shown,
} from './names.ts';
export {
  compareResourceVersions,
  isResourceVersion,
  newestResourceVersion,
  type ResourceVersion,
} from './resource-version.ts';
export { METRICS } from './metric-definitions.ts';
export {
  type CounterName,
  type GaugeName,
  type HistogramName,
  type MetricLabels,
  type Metrics,
  silentMetrics,
} from './metrics.ts';
export { type RequestSource, SharedRoom, sourceName } from './shared-room.ts';
export { TenantTurns } from './tenant-turns.ts';
export { TokenBucket, type TokenRate } from './token-bucket.ts';
export { type Checkpoint, type CheckpointName, noCheckpoint } from './checkpoint.ts';
export type { Runtime } from './runtime.ts';
export { spanIdOf, type TracedRun, type TracedTrigger, traceFields, traceIdOf, type Traces } from './traces.ts';
