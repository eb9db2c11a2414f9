export {
  ApiError,
  controllerOf,
  type KubernetesObject,
  keyOf,
  type LabelSelector,
  type Logger,
  matchesLabels,
  messageOf,
  type ObjectKey,
  type ObjectMeta,
  type OwnerReference,
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
} from '../contract/index.ts';
export { type ApiTransport, ApiWriter, type DeleteOptions, type NewObject, type Patch } from './api-writer.ts';
export type { CacheReader, ListOptions, ListResult, OpenCache } from './cache-reader.ts';
export {
  type Context,
  type Controller,
  controller,
  type ControllerOptions,
  controllerReference,
  type Reconcile,
  type ReconcileRequest,
  type Result,
} from './controller.ts';
export { DeadlineError, RetryAfterError, TerminalError } from './errors.ts';
export { fetchTransport, type FetchTransportOptions } from './fetch-transport.ts';
export { createFunctionApp, type FunctionAppOptions } from './function-app.ts';
export { type CacheFetch, httpCache, HttpReader, type HttpReaderOptions } from './http-reader.ts';
export type { RunHandle } from './run-handle.ts';
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
  resourceVersionChanged,
  type Source,
  type WatchedSource,
} from './source.ts';
