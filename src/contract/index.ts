export {
  controllerIndex,
  declaredIndex,
  decodeEntry,
  encodeEntry,
  gatewayKeys,
  indexEntriesOf,
  type IndexSpec,
  indexValues,
  KEPT_OUT_INDEX,
  namespaceIndex,
  type ObjectEntry,
  orphanIndex,
  type ViewKeys,
  viewKeys,
  viewPrefix,
} from './cache-layout.ts';
export { decodeSelection, encodeSelection } from './cache-query.ts';
export {
  allows,
  type CacheClaims,
  type CacheScope,
  createCacheToken,
  importTokenKey,
  TokenError,
  type TokenKey,
  tokenKeyId,
  verifyCacheToken,
} from './cache-token.ts';
export type { CallbackBody } from './callback.ts';
export type { Description, QueueDescription } from './description.ts';
export { LEVELHOOK_HEADER, type OutcomeBody, type RequestResult, type Write } from './outcome.ts';
export { isLoopback, isSecureUrl } from './secure-url.ts';
export { checkFields, indexesOf, isSelected, type Selection } from './selection.ts';
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
  MAX_CEL_LENGTH,
  MAX_DESCRIPTION_BYTES,
  MAX_EXPRESSIONS,
  MAX_INDEXES,
  MAX_PREDICATE_DEPTH,
  MAX_PREDICATE_LEAVES,
  MAX_PREDICATE_NODES,
  MAX_SELECTOR_REQUIREMENTS,
  MAX_SELECTOR_VALUES,
  MAX_SOURCES,
  type OwnedDescription,
  type OwnerChoice,
  type Predicate,
  type ReadDescription,
  type ReconciledDescription,
  type SourceDescription,
  type WatchedDescription,
  type WatchMap,
} from './source.ts';
export {
  type CacheLocation,
  type CallbackLocation,
  CONTRACT_VERSION,
  ContractError,
  decodeTrigger,
  type Reason,
  type Trigger,
  type TriggerRequest,
  type ViewLocation,
} from './trigger.ts';
