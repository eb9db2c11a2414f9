import type { Setting } from './levelhook.ts';
import { type Line, TestProcess } from './process.ts';

/** The recorder's controller name. */
export const RECORDER = 'recorder';

/** One run of the recorder function. */
export interface ReconcileRecord {
  readonly msg: 'reconciled';
  /** The ConfigMap's name. */
  readonly key: string;
  /** As the run read it from the cache; null when it was not there. */
  readonly resourceVersion: string | null;
  /** On `machineMs`' clock, before anything was read. */
  readonly startedAtMs: number;
  readonly attempt: number;
}

export interface RecorderOptions {
  /** Only ConfigMaps of this namespace are recorded. */
  readonly namespace: string;
  /** Default 0: any free one. */
  readonly port?: number;
  /** How long each run takes after its record. Default 0. */
  readonly delayMs?: number;
  /** The time of a run, and so of the wait for an outcome that was lost. Default 4. */
  readonly timeoutSeconds?: number;
  /** How far its clock goes wrong. Default 0. */
  readonly clockOffsetSeconds?: number;
  /** More of its environment. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** The recorder function as a process of its own. */
export async function startRecorder(
  setting: Setting,
  { namespace, port = 0, delayMs = 0, timeoutSeconds = 4, clockOffsetSeconds = 0, variables = {} }: RecorderOptions,
): Promise<{ process: TestProcess; url: string }> {
  const process = new TestProcess('test/harness/recorder-function.ts', [], {
    LEVELHOOK_SIGNING_SECRETS: setting.secret,
    REDIS_URL: setting.redisUrl,
    KUBECONFIG: setting.kubeconfig,
    HOST: '127.0.0.1',
    PORT: String(port),
    RECORDER_NAMESPACE: namespace,
    RECORDER_DELAY_MS: String(delayMs),
    RECORDER_TIMEOUT_SECONDS: String(timeoutSeconds),
    RECORDER_CLOCK_OFFSET_SECONDS: String(clockOffsetSeconds),
    ...variables,
  });
  const line = await process.line(({ msg }) => msg === 'listening');
  return { process, url: String(line['url']) };
}

/** What recorders have told so far, in the order of the list and of each one's output. */
export function recordsOf(...recorders: readonly TestProcess[]): ReconcileRecord[] {
  return recorders.flatMap(({ lines }) => lines.filter(isRecord));
}

function isRecord(line: Line): line is Line & ReconcileRecord {
  return line['msg'] === 'reconciled';
}
