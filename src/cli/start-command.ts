import { existsSync, readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createInterface } from 'node:readline/promises';
import { messageOf, UserError } from '../core/index.ts';
import { generateSecret } from '../contract/index.ts';
import { startControlPlane, startRedis } from '../testing/index.ts';
import { Child, type ChildLine } from './child.ts';
import { createSample } from './sample.ts';
import { formatTrigger } from './trigger-line.ts';

export interface StartOptions {
  readonly kubeconfig?: string;
  readonly functions: readonly string[];
  readonly sample: boolean;
  readonly port: number;
}

/** Beside `src/cli` in the repository, beside `dist/src/cli` in the package. */
const FUNCTIONS = new URL('../../functions/', import.meta.url);
const CONTROLLERS = ['*', '-replicaset-controller'];

/**
 * `levelhook start`: brings up what is missing, in order, shows every trigger, and at Ctrl-C or SIGTERM stops what it
 * started, in reverse. Prints `levelhook ready` alone on a line once keys are being reconciled.
 */
export async function startCommand(options: StartOptions): Promise<void> {
  const stop = new AbortController();
  const interrupt = (): void => stop.abort();
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  const started: { name: string; stop: () => Promise<void> }[] = [];
  try {
    await bringUp(options, stop.signal, (name, end) => started.push({ name, stop: end }));
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    for (const { name, stop: end } of started.toReversed()) {
      say(`stopping ${name}`);
      await end().catch((error: unknown) => say(`${name} did not stop in order: ${messageOf(error)}`));
    }
    process.off('SIGINT', interrupt);
    process.off('SIGTERM', interrupt);
  }
}

async function bringUp(
  options: StartOptions,
  signal: AbortSignal,
  started: (name: string, stop: () => Promise<void>) => void,
): Promise<void> {
  const scripts = options.functions.map((name) => [name, functionScript(name)] as const);
  const given = options.kubeconfig ?? (process.env['KUBECONFIG'] || undefined);
  if (given !== undefined && !existsSync(given)) {
    throw new UserError(`The kubeconfig ${given} does not exist: check --kubeconfig or KUBECONFIG.`);
  }
  const sample = options.sample && (given === undefined || (await askForSample(given)));

  let kubeconfig = given;
  if (kubeconfig === undefined) {
    say('starting a control plane: etcd, kube-apiserver, kube-controller-manager without its ReplicaSet controller');
    const plane = await startControlPlane({
      kubeControllerManager: { controllers: CONTROLLERS },
      onProgress: say,
      signal,
    });
    started('the control plane', () => plane.stop());
    kubeconfig = plane.kubeconfig;
  }
  const redis = await startRedis({ appendOnly: true, onProgress: say });
  started('Redis', () => redis.stop());

  const secret = generateSecret();
  const env = { ...process.env, KUBECONFIG: kubeconfig, REDIS_URL: redis.url, LEVELHOOK_SIGNING_SECRETS: secret };
  const failed = Promise.withResolvers<never>();
  // Handled by every await below; a failure between two of them must not end the process.
  failed.promise.catch(() => {});
  const watch = (child: Child): void => {
    started(child.name, () => child.stop());
    void child.exited.then((code) => {
      if (!signal.aborted) failed.reject(new UserError(`${child.name} ended (${code}): see its last lines above.`));
    });
  };
  const aborted = once(signal);

  const urls = [];
  for (const [name, script] of scripts) {
    const listening = Promise.withResolvers<string>();
    const onLine = (line: ChildLine): void => {
      if ('json' in line && line.json['msg'] === 'listening') listening.resolve(String(line.json['url']));
      else showLine(`function ${name}`, line);
    };
    watch(new Child(`function ${name}`, script, { env: { ...env, HOST: '127.0.0.1', PORT: '0' }, onLine }));
    urls.push(await Promise.race([listening.promise, failed.promise, aborted]));
  }

  const gatewayUrl = Promise.withResolvers<string>();
  const gateway = new Child('gateway', fileURLToPath(new URL(import.meta.resolve('./levelhook.js'))), {
    args: ['gateway', '--kubeconfig', kubeconfig, '--port', String(options.port)],
    env: {
      ...env,
      LEVELHOOK_FUNCTIONS: urls.join(' '),
      LEVELHOOK_LOG_TRIGGERS: 'true',
      // With a Redis and a cluster that began a moment ago nobody can be in the middle of a run.
      LEVELHOOK_NOTHING_IN_FLIGHT: String(given === undefined && redis.managed),
    },
    onLine: (line) => {
      if ('json' in line && line.json['msg'] === 'listening') gatewayUrl.resolve(String(line.json['url']));
      showGatewayLine(line);
    },
  });
  watch(gateway);
  const url = await Promise.race([gatewayUrl.promise, failed.promise, aborted]);
  await Promise.race([untilReady(url, signal), failed.promise, aborted]);
  process.stdout.write('levelhook ready\n');
  if (sample) await createSample(kubeconfig);
  process.stdout.write(whatNext({ kubeconfig, url, sample }));
  await Promise.race([failed.promise, aborted]);
}

function functionScript(name: string): string {
  for (const file of ['node.ts', 'node.js']) {
    const script = new URL(`${name}/${file}`, FUNCTIONS);
    if (/^[a-z0-9-]+$/.test(name) && existsSync(script)) return fileURLToPath(script);
  }
  const there = readdirSync(FUNCTIONS).filter((entry) => existsSync(new URL(`${entry}/node.ts`, FUNCTIONS)));
  throw new UserError(`There is no function "${name}" in functions/: there is ${there.join(', ') || 'none'}.`);
}

async function askForSample(kubeconfig: string): Promise<boolean> {
  if (!process.stdin.isTTY) return false;
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const answer = await terminal.question(
      `Create the sample ReplicaSet default/hello in the cluster of ${kubeconfig}? [y/N] `,
    );
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

async function untilReady(url: string, signal: AbortSignal): Promise<void> {
  let shown = '';
  for (let tries = 0; !signal.aborted; tries += 1) {
    const answer = await fetch(`${url}/readyz`, { signal }).catch(() => undefined);
    if (answer?.ok) return;
    const waitingFor = ((await answer?.text()) ?? '')
      .split('\n')
      .filter((line) => line.startsWith('[-]'))
      .join('; ');
    if (waitingFor !== shown && tries > 20) say(`waiting for ${(shown = waitingFor)}`);
    await sleep(100, undefined, { signal });
  }
}

function whatNext({ kubeconfig, url, sample }: { kubeconfig: string; url: string; sample: boolean }): string {
  return [
    '',
    `  kubeconfig  ${kubeconfig}`,
    `  dashboard   ${url}/dashboard`,
    `  health      ${url}/readyz?verbose`,
    `  metrics     ${url}/metrics`,
    '',
    '  In another terminal:',
    `    export KUBECONFIG=${kubeconfig}`,
    ...(sample ? ['    kubectl scale replicaset hello --replicas=10', '    kubectl delete pod -l app=hello'] : []),
    '    kubectl get replicasets,pods -A',
    '',
    '  Every trigger is shown below: time, controller, key, why, how long, what came of it. Ctrl-C stops everything.',
    '',
    '',
  ].join('\n');
}

function showGatewayLine(line: ChildLine): void {
  if ('json' in line && line.json['msg'] === 'trigger') process.stdout.write(`${formatTrigger(line.json)}\n`);
  else showLine('gateway', line);
}

/** Of a child's log only what somebody should look at: warnings, errors, and what is not a log line. */
function showLine(name: string, line: ChildLine): void {
  if ('text' in line) return say(`${name}: ${line.text}`);
  const { level, msg, error, reason } = line.json;
  const serious = typeof level === 'number' ? level >= 40 : level === 'warn' || level === 'error';
  if (serious) say(`${name}: ${String(msg)}${error || reason ? ` (${String(error ?? reason)})` : ''}`);
}

function once(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(new Error('interrupted'));
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  promise.catch(() => {});
  return promise;
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}
