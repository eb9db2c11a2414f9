import type { CallbackBody, CallbackLocation, KubernetesLocation } from '../contract/index.ts';
import type { WrittenSource } from './source.ts';

/**
 * A run that may go on after the answer to its trigger, as plain JSON. It is no secret, because it grants nothing by
 * itself.
 */
export type RunToken = Omit<CallbackBody, 'version' | 'result'> &
  Pick<CallbackLocation, 'url' | 'maxSeconds'> & {
    /** The only namespace that the run writes to. Default: any, see `writesAcrossNamespaces`. */
    readonly writesTo?: string;
    /** What the run may write. Default: anything, see `ControllerOptions.writes`. */
    readonly writes?: readonly WrittenSource[];
  };

/**
 * The Kubernetes credentials of a run whose ReconcileFunction has `credentials: token` or `proxy`, as plain JSON.
 * **A secret**: pass it only to the process that finishes the run, and never log it.
 */
export interface RunCredentials extends KubernetesLocation {
  readonly run: number;
}
