import { setTimeout as sleep } from 'node:timers/promises';
import { MEMORY_VARIABLES } from '../../src/cli/child.ts';
import { generateSecret } from '../../src/contract/index.ts';
import { TestProcess } from './process.ts';
import type { Program } from './program.ts';
import { eventually } from './eventually.ts';

/** What the processes of one test have in common. */
export interface Setting {
  readonly kubeconfig: string;
  readonly redisUrl: string;
  /** The test's own; `uniqueName()` makes one. */
  readonly keyPrefix: string;
  readonly secret: string;
}

let count = 0;

/** A name for a namespace or a key prefix that no other test has. */
export function uniqueName(stem: string): string {
  count += 1;
  return `${stem}-${process.pid.toString(36)}-${count}-${Date.now().toString(36)}`;
}

export function createSetting(from: { kubeconfig: string; redisUrl: string }): Setting {
  return { ...from, keyPrefix: uniqueName('test'), secret: generateSecret() };
}

/** A program, and where it listens. */
export interface Listening<P extends Program = TestProcess> {
  readonly process: P;
  readonly url: string;
  /** Of each controller of a function that has several. Default: `url` alone. */
  readonly urls?: readonly string[];
}

export interface FunctionProcessOptions {
  /** Default 0: any free one. */
  readonly port?: number;
  /** More of its environment. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** One of our functions as a process of its own. */
export function startFunction(setting: Setting, name = 'replicaset', port = 0): Promise<Listening> {
  return startFunctionProcess(setting, `functions/${name}/node.ts`, { port });
}

/** The environment of a function: its secret, and how it reaches Redis and the apiserver. */
export function functionVariables({ secret, redisUrl, kubeconfig }: Setting): Record<string, string> {
  return { LEVELHOOK_SIGNING_SECRETS: secret, REDIS_URL: redisUrl, KUBECONFIG: kubeconfig };
}

/** A script that serves a function, as a process of its own, which `levelhook start` would start so, too. */
export async function startFunctionProcess(
  setting: Setting,
  script: string,
  { port = 0, variables = {} }: FunctionProcessOptions = {},
): Promise<Listening> {
  const process = new TestProcess(script, [], {
    ...functionVariables(setting),
    HOST: '127.0.0.1',
    PORT: String(port),
    ...MEMORY_VARIABLES,
    ...variables,
  });
  const line = await process.line(({ msg }) => msg === 'listening');
  const url = String(line['url']);
  const { paths } = line;
  return { process, url, ...(Array.isArray(paths) ? { urls: paths.map((path) => url + String(path)) } : {}) };
}

/** The environment of a gateway with default settings. @param variables more of it. */
export function gatewayVariables(
  setting: Setting,
  functionUrls: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return {
    REDIS_URL: setting.redisUrl,
    LEVELHOOK_KEY_PREFIX: setting.keyPrefix,
    LEVELHOOK_SIGNING_SECRETS: setting.secret,
    LEVELHOOK_FUNCTIONS: functionUrls.join(' '),
    LEVELHOOK_LOG_TRIGGERS: 'true',
    // The cluster is shared: the gateway would read the ReconcileFunctions of other tests.
    LEVELHOOK_RECONCILE_FUNCTIONS: 'none',
    ...variables,
  };
}

/**
 * A gateway as a process of its own, which need not be ready yet. A test that neither kills nor measures the process
 * opens one in its own (`opened.ts`), which takes a third of the time.
 * @param variables more of its environment.
 */
export async function startGateway(
  setting: Setting,
  functionUrls: readonly string[],
  variables: Readonly<Record<string, string>> = {},
  script = 'src/cli/levelhook.js',
): Promise<Listening> {
  const process = new TestProcess(script, ['gateway', '--kubeconfig', setting.kubeconfig, '--port', '0'], {
    ...MEMORY_VARIABLES,
    ...gatewayVariables(setting, functionUrls, variables),
  });
  const line = await process.line(({ msg }) => msg === 'listening');
  return { process, url: String(line['url']) };
}

export async function untilReady(gatewayUrl: string, limitMs = 60_000): Promise<void> {
  await eventually(async () => {
    const answer = await fetch(`${gatewayUrl}/readyz`);
    if (!answer.ok) throw new Error(await answer.text());
  }, limitMs);
}

/**
 * A gateway deletes queued wakeups from the outbox within this time. A gateway that is killed earlier leaves them, and
 * the next gateway queues them again.
 */
export const QUEUED_WAKEUPS_MS = 500;

/**
 * Until no run waits or is in flight, as the queues' records have it: whatever ran has its outcome on record, and what
 * its function wrote to its output has been read.
 */
export async function untilIdle(gatewayUrl: string, limitMs = 60_000): Promise<void> {
  await eventually(async () => {
    const text = await (await fetch(`${gatewayUrl}/metrics`)).text();
    if (/^levelhook_redis_read 0$/m.test(text)) throw new Error('the gateway does not know its queues');
    const busy = text
      .split('\n')
      .filter((line) => /^(workqueue_depth|controller_runtime_active_workers)\{.*\} [1-9]/.test(line));
    if (busy.length > 0) throw new Error(busy.join('\n'));
  }, limitMs);
  // It is in this process' pipe by now, and may come after the metrics that were asked for.
  await sleep(10);
}
