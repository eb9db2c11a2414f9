import type { Setting } from './levelhook.ts';
import { type Line, TestProcess } from './process.ts';

/** The seer's controller name. */
export const SEER = 'seer';
/** How many runs a ConfigMap with this in its data gets. */
export const ROUNDS = 'rounds';

/** What one run saw of what the run before had written. */
export interface Sight {
  readonly msg: 'saw';
  readonly parent: string;
  readonly round: number;
  /** The pod that it had made was not in the cache. */
  readonly missed: boolean;
  /** The pod that it had deleted was there as before. */
  readonly undead: boolean;
}

export async function startSeer(setting: Setting, namespace: string): Promise<{ process: TestProcess; url: string }> {
  const process = new TestProcess('test/harness/seer-function.ts', [], {
    LEVELHOOK_SIGNING_SECRETS: setting.secret,
    REDIS_URL: setting.redisUrl,
    KUBECONFIG: setting.kubeconfig,
    PORT: '0',
    SEER_NAMESPACE: namespace,
  });
  const line = await process.line(({ msg }) => msg === 'listening');
  return { process, url: String(line['url']) };
}

export function sightsOf({ lines }: TestProcess): Sight[] {
  return lines.filter((line): line is Line & Sight => line['msg'] === 'saw');
}
