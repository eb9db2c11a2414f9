import type { Resource, ControllerOrigin } from '../../../core/index.ts';
import type { CacheScope, Description, SigningKey } from '../../../contract/index.ts';
import type { ParsedExpressions } from '../cel/parsed-expressions.ts';
import type { FunctionAccount } from '../access/account-tokens.ts';
import type { EndpointRules } from '../endpoint/endpoint-rules.ts';

/** Everything needed to run a controller, wherever it was declared. */
export interface ControllerSpec {
  /**
   * Names its queue, its metrics and its tokens, in the whole cluster: the function's own name when the operator has
   * configured its URL, `namespace.name` of a ReconcileFunction. A name has no dot, so neither can be taken for the
   * other.
   */
  readonly id: string;
  readonly origin: ControllerOrigin;
  /**
   * The owner of its tokens: the object that declares it by UID, the ServiceAccount of its function by UID, and its
   * endpoint. If one of these differs it is another function, even under the same name. All configured functions have
   * the same, since no tenant can declare one.
   */
  readonly declaration: string;
  /** The UID of the object that declares it, whose queue it has; undefined for a configured function. */
  readonly uid?: string;
  /** Whose share of processor time, memory and indexes it draws on. Default: one of its own. */
  readonly tenant?: string;
  readonly description: Description;
  /** Further kinds, which keys have named at run time: watched with the map `related`. Default: none. */
  readonly related?: readonly Resource[];
  readonly url: string;
  /** Where its triggers may be sent. Default: see `EndpointOptions`. */
  readonly rules?: EndpointRules;
  /** The keys that sign its triggers. */
  readonly keys: readonly SigningKey[];
  /** See `EndpointOptions`. */
  readonly ca?: string | undefined;
  /** Its function's. Default: a configured function has none. */
  readonly account?: FunctionAccount;
  /** The part of its kinds that its function may read. Default: everything that is cached of them. */
  readonly scope?: CacheScope;
  /**
   * The description's expressions, as far as they have been parsed. Default: they are parsed when the controller is
   * made.
   */
  readonly parsed?: ParsedExpressions;
  /** Pauses its keys before the first of them runs. Default: its queue is left as it is, paused or not. */
  readonly paused?: boolean;
}
