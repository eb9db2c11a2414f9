import type { CallbackBody, CallbackLocation, KubernetesLocation } from '../contract/index.ts';

/**
 * A run that may go on after the answer to its trigger, as plain JSON. It is no secret, and opens nothing by itself.
 */
export type RunToken = Omit<CallbackBody, 'version' | 'result'> & Pick<CallbackLocation, 'url' | 'maxSeconds'>;

/**
 * With what a run reads live and writes if its ReconcileFunction says `credentials: token` or `proxy`, as plain JSON.
 * **A secret**: hand it only to the process that finishes the run, and log it nowhere.
 */
export interface RunCredentials extends KubernetesLocation {
  readonly run: number;
}
