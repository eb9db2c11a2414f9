import type { CallbackBody, CallbackLocation } from '../contract/index.ts';

/**
 * A run that may go on after the answer to its trigger, as plain JSON. It is no secret, and opens nothing by itself.
 */
export type RunToken = Omit<CallbackBody, 'version' | 'result'> & Pick<CallbackLocation, 'url' | 'maxSeconds'>;
