import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { messageOf, printable, systemClock } from '../core/index.ts';
import { generateSecret } from '../contract/index.ts';
import { variableOf } from '../ground/config/config.ts';
import { resolveBinary, startControlPlane, startRedis } from '../testing/index.ts';
import { findOnPath } from '../testing/process/find-on-path.ts';
import type { OutputLine } from '../testing/process/owned-process.ts';
import { Child } from './child.ts';
import { chosenCluster, type ClusterFlags, refuseBuiltIn } from './chosen-cluster.ts';
import { applyDefinitions, definitionsOf } from './definitions.ts';
import { Family } from './family.ts';
import { functionScript } from './function-script.ts';
import { preflight } from './preflight.ts';
import { replacedControllers } from './replaced-controllers.ts';
import { askForSample, createSample } from './sample.ts';
import { startSettings } from './start-settings.ts';
import { stopSignal } from './stop-signal.ts';
import { formatTrigger } from './trigger-line.ts';
import { addresses, whatNext } from './what-next.ts';

export interface StartFlags extends ClusterFlags {
  readonly functions: readonly string[];
  readonly sample: boolean;
  readonly port: number;
}

/**
 * `levelhook start`: starts all missing parts in order, shows every trigger, and at Ctrl-C or SIGTERM stops these parts
 * in reverse order. Prints `levelhook ready` alone on a line once keys are being reconciled.
 */
export async function startCommand(options: StartFlags): Promise<void> {
  const { signal, release } = stopSignal();
  const over = new AbortController();
  const started: { name: string; stop: () => Promise<void> }[] = [];
  try {
    await bringUp(options, AbortSignal.any([signal, over.signal]), (name, stop) => started.push({ name, stop }));
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    over.abort();
    for (const { name, stop } of started.toReversed()) {
      say(`stopping ${name}`);
      await stop().catch((error: unknown) => say(`${name} did not stop in order: ${messageOf(error)}`));
    }
    release();
  }
}

async function bringUp(
  options: StartFlags,
  signal: AbortSignal,
  started: (name: string, stop: () => Promise<void>) => void,
): Promise<void> {
  const scripts = options.functions.map((name) => [name, functionScript(name)] as const);
  const given = await chosenCluster(options, started);
  await preflight({ port: options.port, kubeconfig: given?.kubeconfig });
  const replaced = replacedControllers(options.functions);
  const settings = startSettings(process.env, { isOwnCluster: given === undefined });
  if (given) {
    say(`cluster: ${given.name}`);
    say(`functions: ${options.functions.join(', ')}`);
  } else if (process.env['KUBECONFIG']) {
    say('KUBECONFIG is not used: --kubeconfig FILE or --context NAME runs the functions on a cluster that exists');
  }
  for (const line of settings.lines) say(line);
  if (given && options.builtInOff !== true) await refuseBuiltIn(given, replaced, systemClock.now());
  const sample = options.sample && (given === undefined || (await askForSample(given.name, signal)));

  const redis = await startRedis({ appendOnly: true, onProgress: say });
  // The server of REDIS_URL goes on.
  if (redis.managed) started('Redis', () => redis.stop());
  const plane = given === undefined ? await ownControlPlane(replaced, signal, started) : undefined;
  const kubeconfig = given?.kubeconfig ?? plane?.kubeconfig ?? '';
  process.stdout.write(addresses({ kubeconfig }));
  const definitions = scripts.flatMap(([, script]) => definitionsOf(script));
  // The definitions in the user's own cluster are left to the user: a function waits for them, and says so.
  if (plane) await applyDefinitions(kubeconfig, definitions);

  const env = {
    ...process.env,
    KUBECONFIG: kubeconfig,
    [variableOf('redisUrl')]: redis.url,
    [variableOf('signingSecrets')]: generateSecret(),
    ...settings.variables,
  };
  const family = new Family({ signal, started, say });
  /** The folders of functions, by URL. */
  const folders = new Map<string, string>();
  for (const [name, script] of scripts) {
    const listening = Promise.withResolvers<string[]>();
    const onLine = (line: OutputLine): void => {
      if ('json' in line && line.json['msg'] === 'listening') listening.resolve(listeningUrls(line.json));
      else showLine(`function ${name}`, line);
    };
    // Without the keys of the cache: functions read encrypted kinds through the gateway.
    const {
      [variableOf('cacheKeys')]: _,
      [variableOf('cacheKeysFile')]: __,
      ...functionEnv
    } = env as NodeJS.ProcessEnv;
    const variables = { ...functionEnv, HOST: '127.0.0.1', PORT: '0' };
    const fn = new Child(`function ${name}`, script, { env: variables, onLine });
    family.add(fn);
    const urls = await patiently(family.unless(listening.promise), `function ${name} to listen`);
    for (const url of urls) folders.set(url, name);
    fn.show();
  }

  const gatewayUrl = Promise.withResolvers<string>();
  const gateway = new Child('the gateway', fileURLToPath(new URL(import.meta.resolve('./levelhook.js'))), {
    args: ['gateway', '--kubeconfig', kubeconfig, '--port', String(options.port)],
    env: {
      ...env,
      [variableOf('functionUrls')]: [...folders.keys()].join(' '),
      [variableOf('logTriggers')]: 'true',
      // The log lines at level info show that it listens, and its work.
      [variableOf('logLevel')]: 'info',
    },
    onLine: (line) => {
      if ('json' in line && line.json['msg'] === 'listening') gatewayUrl.resolve(String(line.json['url']));
      showGatewayLine(line);
    },
  });
  family.add(gateway);
  const url = await family.unless(gatewayUrl.promise);
  process.stdout.write(addresses({ url }));
  await family.unless(untilReady(url, folders, signal));
  gateway.show();
  process.stdout.write('levelhook ready\n');
  const fromSources = import.meta.url.endsWith('.ts');
  process.stdout.write(whatNext({ kubeconfig, url, kubectl: plane?.kubectl, sample, replaced, fromSources }));
  if (sample) await family.unless(createSample(kubeconfig));
  await family.unless(new Promise<never>(() => {}));
}

/** The URLs of a function's controllers: the function's own, or one for each path. */
function listeningUrls({ url, paths }: Readonly<Record<string, unknown>>): string[] {
  return Array.isArray(paths) ? paths.map((path) => `${String(url)}${String(path)}`) : [String(url)];
}

async function ownControlPlane(
  replaced: readonly string[],
  signal: AbortSignal,
  started: (name: string, stop: () => Promise<void>) => void,
): Promise<{ kubeconfig: string; kubectl: { directory: string; onPath: boolean } }> {
  const without = replaced.length > 0 ? ` without its ${replaced.join(' and ')}` : '';
  say(`starting a control plane: etcd, kube-apiserver, kube-controller-manager${without}`);
  const controllers = ['*', ...replaced.map((name) => `-${name}`)];
  const progress = { onProgress: say, signal };
  const kubectl = findOnPath(['kubectl'], process.env['PATH']);
  const plane = await startControlPlane({ kubeControllerManager: { controllers }, ...progress });
  started('the control plane', () => plane.stop());
  const directory = dirname(kubectl ?? (await resolveBinary('kubectl', progress)));
  return { kubeconfig: plane.kubeconfig, kubectl: { directory, onPath: kubectl !== undefined } };
}

/** Prints a line when a wait takes long. */
function patiently<T>(promise: Promise<T>, what: string): Promise<T> {
  const timer = setTimeout(() => say(`still waiting for ${what}`), 5000);
  return promise.finally(() => clearTimeout(timer));
}

async function untilReady(url: string, folders: ReadonlyMap<string, string>, signal: AbortSignal): Promise<void> {
  let shown = '';
  for (let tries = 0; !signal.aborted; tries += 1) {
    const answer = await fetch(`${url}/readyz`, { signal }).catch(() => undefined);
    if (answer?.ok) return;
    const found = ((await answer?.text()) ?? '')
      .split('\n')
      .filter((line) => line.startsWith('[-]'))
      .map((line) => line.slice(3))
      .join('; ');
    const waitingFor = [...folders].reduce((text, [at, name]) => text.replaceAll(at, `function ${name}`), found);
    if (waitingFor !== '' && waitingFor !== shown && tries > 20) say(`waiting: ${(shown = waitingFor)}`);
    await sleep(100, undefined, { signal });
  }
}

function showGatewayLine(line: OutputLine): void {
  if ('json' in line && line.json['msg'] === 'trigger')
    process.stdout.write(printable(`${formatTrigger(line.json)}\n`));
  else showLine('gateway', line);
}

/** Shows only warnings, errors, and text that is no log line. */
function showLine(name: string, line: OutputLine): void {
  if ('text' in line) return say(`${name}: ${line.text}`);
  const { level, msg, error, reason } = line.json;
  const serious = typeof level === 'number' ? level >= 40 : level === 'warn' || level === 'error';
  if (serious) say(`${name}: ${String(msg)}${error || reason ? ` (${String(error ?? reason)})` : ''}`);
}

function say(text: string): void {
  process.stderr.write(printable(`${text}\n`));
}
