import { type Listening, type Setting, startFunctionProcess } from './levelhook.ts';

/** The scaler's controller name. */
export const SCALER = 'scaler';
/** The time of a run. */
export const SCALER_TIMEOUT_SECONDS = 3;
/** A ConfigMap with this in its data gets as many pods. */
export const REPLICAS = 'replicas';

/** The scaler function as a process of its own. @param pauseMs after each create. */
export function startScaler(
  setting: Setting,
  { namespace, pauseMs = 0 }: { namespace: string; pauseMs?: number },
): Promise<Listening> {
  const variables = { SCALER_NAMESPACE: namespace, SCALER_PAUSE_MS: String(pauseMs) };
  return startFunctionProcess(setting, 'test/harness/scaler-function.ts', { variables });
}
