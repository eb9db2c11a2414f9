import type { Setting } from './levelhook.ts';
import { TestProcess } from './process.ts';

/** The scaler's controller name. */
export const SCALER = 'scaler';
/** The time of a run. */
export const SCALER_TIMEOUT_SECONDS = 3;
/** A ConfigMap with this in its data gets as many pods. */
export const REPLICAS = 'replicas';

/** The scaler function as a process of its own. @param pauseMs after each create. */
export async function startScaler(
  setting: Setting,
  { namespace, pauseMs = 0 }: { namespace: string; pauseMs?: number },
): Promise<{ process: TestProcess; url: string }> {
  const process = new TestProcess('test/harness/scaler-function.ts', [], {
    LEVELHOOK_SIGNING_SECRETS: setting.secret,
    REDIS_URL: setting.redisUrl,
    KUBECONFIG: setting.kubeconfig,
    PORT: '0',
    SCALER_NAMESPACE: namespace,
    SCALER_PAUSE_MS: String(pauseMs),
  });
  const line = await process.line(({ msg }) => msg === 'listening');
  return { process, url: String(line['url']) };
}
