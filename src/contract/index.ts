/**
 * `levelhook/contract`: for authors of functions, or of hosts for functions, who do not use the SDK. It has the
 * messages between gateway and function, their signature, and the selection of a list of the cache API. The layout of
 * the cache in Redis, the making of tokens and the limits of a description are internal to the gateway and the SDK,
 * which import them from their files.
 */
export { type IndexSpec } from './cache-layout.ts';
export { encodeSelection } from './cache-query.ts';
export { type CacheScope } from './cache-scope.ts';
export type { CallbackBody } from './callback.ts';
export type { Description, QueueDescription } from './description.ts';
export {
  LEVELHOOK_HEADER,
  type OutcomeBody,
  type RequestResult,
  RESULT_STREAM,
  type RelatedRule,
  type ResultLine,
  type Write,
} from './outcome.ts';
export { type Selection } from './selection.ts';
export {
  generateSecret,
  importSecret,
  sign,
  SignatureError,
  type SignatureHeaders,
  type SigningKey,
  verify,
} from './signature.ts';
export {
  type OwnedDescription,
  type OwnerChoice,
  type Predicate,
  type ReadDescription,
  type ReconciledDescription,
  type SourceDescription,
  type WatchedDescription,
  type WatchMap,
  type WriteVerb,
  type WrittenDescription,
} from './source.ts';
export {
  type CacheLocation,
  type CallbackLocation,
  CONTRACT_VERSION,
  ContractError,
  decodeTrigger,
  type KubernetesLocation,
  type Reason,
  RUN_HEADER,
  type Trigger,
  type TriggerRequest,
  type ViewLocation,
} from './trigger.ts';
export type {
  AdmissionDescription,
  CacheAgeLimit,
  ConversionDescription,
  Review,
  ReviewRequest,
  WebhookDescription,
} from './webhook.ts';
