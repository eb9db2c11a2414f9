export {
  ApiError,
  controllerOf,
  formatJson,
  isControlledBy,
  type KubernetesObject,
  keyOf,
  type LabelSelector,
  type Logger,
  matchesLabels,
  messageOf,
  type ObjectKey,
  type ObjectMeta,
  type OwnerIdentity,
  type OwnerReference,
  parseJson,
  type Resource,
  resource,
  SelectorError,
} from '../core/index.ts';
export type {
  CacheLocation,
  IndexSpec,
  OwnerChoice,
  Predicate,
  Reason,
  ViewLocation,
  WatchMap,
  WriteVerb,
} from '../contract/index.ts';
export type { ApiTransport } from './api-transport.ts';
export type {
  AppliedObject,
  ApplyOptions,
  DeleteCollectionOptions,
  DeleteOptions,
  Fields,
  LiveListOptions,
  LiveSelection,
  NewObject,
  Patch,
  Scale,
} from './api-types.ts';
export { ApiWriter } from './api-writer.ts';
export type { CacheReader, KeptOut, ListOptions, ListResult, OpenCache } from './cache-reader.ts';
export {
  type Condition,
  findStatusCondition,
  isStatusConditionFalse,
  isStatusConditionTrue,
  type NewCondition,
  removeStatusCondition,
  setStatusCondition,
} from '../core/index.ts';
export {
  type Context,
  type Controller,
  controller,
  type ControllerOptions,
  type Reconcile,
  type ReconcileRequest,
  type Result,
} from './controller.ts';
export { type DiscoveredResource, discoverResources, type Discovery } from './discovery.ts';
export { equal, type TypeWithQuantities } from './equal.ts';
export { DeadlineError, DisruptionBudgetError, RetryAfterError, TerminalError } from './errors.ts';
export { EventRecorder, type EventRecorderOptions, type ObjectEvents } from './event-recorder.ts';
export { ensureFinalizer, removeFinalizer } from './finalizers.ts';
export { fetchTransport, type FetchTransportOptions } from './fetch-transport.ts';
export { createFunctionApp, type FunctionApp, type FunctionAppOptions } from './function-app.ts';
export { type CacheFetch, httpCache, HttpReader, type HttpReaderOptions } from './http-reader.ts';
export { controllerReference, OwnerError, setControllerReference } from './owner.ts';
export type { RunCredentials, RunToken } from './run-token.ts';
export {
  and,
  annotationChanged,
  cel,
  generationChanged,
  labelChanged,
  labelsMatch,
  not,
  or,
  type OwnedSource,
  type ReadSource,
  type ReconciledSource,
  type RelatedSource,
  resourceVersionChanged,
  type Source,
  type WatchedSource,
  type WrittenSource,
} from './source.ts';
export type { ReviewContext, Webhook } from './webhook.ts';
