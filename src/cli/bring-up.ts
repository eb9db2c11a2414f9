import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { styleText } from 'node:util';
import { fileURLToPath } from 'node:url';
import { messageOf, printable, systemClock, UserError } from '../core/index.ts';
import { generateSecret } from '../contract/index.ts';
import { variableOf } from '../ground/config/config.ts';
import { resolveBinary, startControlPlane, startRedis } from '../testing/index.ts';
import { findOnPath } from '../testing/process/find-on-path.ts';
import { removeOwnDirectory } from '../testing/process/own-directory.ts';
import { accountFiles } from './account-files.ts';
import { Child } from './child.ts';
import { type ChosenCluster, chosenCluster, type ClusterFlags, refuseBuiltIn } from './chosen-cluster.ts';
import type { Family } from './family.ts';
import type { FunctionProgram } from './function-program.ts';
import { preflight } from './preflight.ts';
import { RunLines } from './run-lines.ts';
import type { LinePart } from './trigger-line.ts';
import { type StartSettings, startSettings } from './start-settings.ts';
import { stopSignal } from './stop-signal.ts';
import { addresses } from './what-next.ts';

/** Registers how a started part is stopped. */
export type Started = (name: string, stop: () => Promise<void>) => void;

/** The parts that functions need, before any function runs. */
export interface Ground {
  readonly kubeconfig: string;
  /** The context and server of a cluster that exists; undefined for a control plane of our own. */
  readonly cluster: string | undefined;
  /** Where kubectl is; undefined for a cluster that exists. */
  readonly kubectl: { readonly directory: string; readonly onPath: boolean } | undefined;
  /** The environment of the gateway. */
  readonly gatewayEnv: NodeJS.ProcessEnv;
  /**
   * The environment of functions: without the keys of the cache, since they read encrypted kinds through the gateway.
   */
  readonly functionEnv: NodeJS.ProcessEnv;
  readonly signingSecret: string;
}

export interface GroundOptions extends ClusterFlags {
  readonly functions: readonly FunctionProgram[];
  /** The built-in controllers that the functions replace. */
  readonly replaced: readonly string[];
  readonly port: number;
}

/** Where the functions are going to run. */
interface ChosenGround {
  /** Undefined: a control plane of our own. */
  readonly cluster: ChosenCluster | undefined;
  readonly settings: StartSettings;
}

/**
 * Runs a command that starts parts, until Ctrl-C, SIGTERM or an error, and then stops the parts in reverse order.
 * @param work starts them. It is rejected when the signal is aborted.
 */
export async function untilStopped(work: (signal: AbortSignal, started: Started) => Promise<void>): Promise<void> {
  const { signal, release } = stopSignal();
  const over = new AbortController();
  const parts: { name: string; stop: () => Promise<void> }[] = [];
  try {
    await work(AbortSignal.any([signal, over.signal]), (name, stop) => parts.push({ name, stop }));
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    over.abort();
    for (const { name, stop } of parts.toReversed()) {
      say(`stopping ${name}`);
      await stop().catch((error: unknown) => say(`${name} did not stop in order: ${messageOf(error)}`));
    }
    release();
  }
}

/**
 * Checks the command line before anything is started, and says which cluster it names.
 * @throws UserError with the first mistake.
 */
export async function chooseGround(options: GroundOptions, started: Started): Promise<ChosenGround> {
  const { functions, port, replaced } = options;
  const given = await chosenCluster(options, started);
  await preflight({ port, kubeconfig: given?.kubeconfig });
  const settings = startSettings(process.env, { isOwnCluster: given === undefined });
  if (given) {
    say(`cluster: ${given.name}`);
    say(`functions: ${functions.map(({ name }) => name).join(', ')}`);
  } else if (process.env['KUBECONFIG']) {
    say('KUBECONFIG is not used: --kubeconfig FILE or --context NAME runs the functions on a cluster that exists');
  }
  for (const line of settings.lines) say(line);
  if (given && options.builtInOff !== true) await refuseBuiltIn(given, replaced, systemClock.now());
  return { cluster: given, settings };
}

/** Where control plane and Redis keep their data between starts. */
export interface DataFlags {
  readonly data: string;
  readonly fresh: boolean;
}

/** Creates the folder of the data, which are of this machine alone. */
async function dataFolder({ data, fresh }: DataFlags): Promise<string> {
  const folder = resolve(data);
  if (fresh) for (const part of ['control-plane', 'redis']) await removeOwnDirectory(join(folder, part));
  mkdirSync(folder, { recursive: true });
  const ignore = join(folder, '.gitignore');
  if (!existsSync(ignore)) writeFileSync(ignore, '*\n');
  return folder;
}

/** Starts Redis, and a control plane unless the command line names a cluster. */
export async function startGround(
  { cluster, settings }: ChosenGround,
  options: DataFlags & { readonly replaced: readonly string[] },
  { signal, started }: { readonly signal: AbortSignal; readonly started: Started },
): Promise<Ground> {
  const { replaced } = options;
  const data = await dataFolder(options);
  const redis = await startRedis({ appendOnly: true, onProgress: say, directory: join(data, 'redis') });
  // The server of REDIS_URL goes on.
  if (redis.managed) started('Redis', () => redis.stop());
  const plane = cluster === undefined ? await ownControlPlane({ replaced, data }, signal, started) : undefined;
  const kubeconfig = cluster?.kubeconfig ?? plane?.kubeconfig ?? '';
  process.stdout.write(addresses({ kubeconfig }));
  const signingSecret = generateSecret();
  const gatewayEnv: NodeJS.ProcessEnv = {
    ...process.env,
    KUBECONFIG: kubeconfig,
    [variableOf('redisUrl')]: redis.url,
    [variableOf('signingSecrets')]: signingSecret,
    ...settings.variables,
  };
  const { [variableOf('cacheKeys')]: _, [variableOf('cacheKeysFile')]: __, ...functionEnv } = gatewayEnv;
  const account = await accountFiles(kubeconfig, data);
  return {
    kubeconfig,
    cluster: cluster?.name,
    kubectl: plane?.kubectl,
    gatewayEnv,
    functionEnv: { ...account, ...functionEnv },
    signingSecret,
  };
}

async function ownControlPlane(
  { replaced, data }: { readonly replaced: readonly string[]; readonly data: string },
  signal: AbortSignal,
  started: Started,
): Promise<{ kubeconfig: string; kubectl: { directory: string; onPath: boolean } }> {
  const progress = { onProgress: say, signal };
  const hasManager = await resolveBinary('kube-controller-manager', progress).then(
    () => true,
    (error: unknown) => {
      if (!(error instanceof UserError)) throw error;
      say(`${error.message}. Without it nothing deletes the children of an owner, and there are no ServiceAccounts.`);
      return false;
    },
  );
  const without = replaced.length > 0 ? ` without its ${replaced.join(' and ')}` : '';
  const manager = hasManager ? `, kube-controller-manager${without}` : '';
  say(`starting a control plane: etcd, kube-apiserver${manager}`);
  const controllers = ['*', ...replaced.map((name) => `-${name}`)];
  const kubectl = findOnPath(['kubectl'], process.env['PATH']);
  const plane = await startControlPlane({
    kubeControllerManager: hasManager && { controllers },
    directory: join(data, 'control-plane'),
    ...progress,
  });
  started('the control plane', () => plane.stop());
  const directory = dirname(kubectl ?? (await resolveBinary('kubectl', progress)));
  return { kubeconfig: plane.kubeconfig, kubectl: { directory, onPath: kubectl !== undefined } };
}

export interface StartedGateway {
  readonly url: string;
  /** Stops the process in order, and starts one with these functions at the same address. */
  restart(functions: ReadonlyMap<string, string>): Promise<void>;
}

/**
 * Starts the gateway. Resolves when it is ready.
 * @param functions names by URL.
 */
export async function startGateway(
  ground: Ground,
  options: { readonly port: number; readonly functions: ReadonlyMap<string, string>; readonly lines: RunLines },
  { family, signal }: { readonly family: Family; readonly signal: AbortSignal },
): Promise<StartedGateway> {
  const { gatewayEnv, kubeconfig } = ground;
  let running: Child | undefined;
  const start = async (port: number, functions: ReadonlyMap<string, string>): Promise<string> => {
    const listening = Promise.withResolvers<string>();
    const script = fileURLToPath(new URL(import.meta.resolve('./levelhook.js')));
    const args = ['gateway', '--kubeconfig', kubeconfig, '--port', String(port)];
    const gateway = new Child('the gateway', [process.execPath, ...process.execArgv, script, ...args], {
      env: {
        ...gatewayEnv,
        [variableOf('functionUrls')]: [...functions.keys()].join(' '),
        [variableOf('logTriggers')]: 'true',
        // The log lines at level info show that it listens, and its work.
        [variableOf('logLevel')]: 'info',
      },
      onLine: (line) => {
        if ('json' in line && line.json['msg'] === 'listening') listening.resolve(String(line.json['url']));
        options.lines.gateway(line);
      },
    });
    running = gateway;
    family.add(gateway);
    return family.unless(listening.promise);
  };
  const untilReady = async (url: string, functions: ReadonlyMap<string, string>): Promise<void> => {
    await family.unless(ready(url, functions, signal));
    running?.show();
  };
  const url = await start(options.port, options.functions);
  process.stdout.write(addresses({ url }));
  await untilReady(url, options.functions);
  return {
    url,
    async restart(functions) {
      await running?.stop();
      await untilReady(await start(Number(new URL(url).port), functions), functions);
    },
  };
}

/** Asks the gateway until it is ready, and prints each new reason why it is not. */
async function ready(url: string, functions: ReadonlyMap<string, string>, signal: AbortSignal): Promise<void> {
  let shown = '';
  for (let tries = 0; !signal.aborted; tries += 1) {
    const answer = await fetch(`${url}/readyz`, { signal }).catch(() => undefined);
    if (answer?.ok) return;
    const found = ((await answer?.text()) ?? '')
      .split('\n')
      .filter((line) => line.startsWith('[-]'))
      .map((line) => line.slice(3))
      .join('; ');
    const waitingFor = [...functions].reduce((text, [at, name]) => text.replaceAll(at, `function ${name}`), found);
    if (waitingFor !== '' && waitingFor !== shown && tries > 20) say(`waiting: ${(shown = waitingFor)}`);
    await sleep(100, undefined, { signal });
  }
}

/** Triggers and log lines go to stdout, all else that the command says to stderr. */
export function runLines(): RunLines {
  return new RunLines({
    print: (line) => process.stdout.write(`${line.map(styled).join('')}\n`),
    // 0: a terminal that does not know its size.
    columns: () => process.stdout.columns || undefined,
    say,
    nowMs: () => systemClock.now(),
  });
}

const STYLES = { good: 'green', bad: 'red', quiet: 'dim' } as const;

/** With its colour at a terminal that has colours, unless NO_COLOR is set. */
function styled({ text, tone }: LinePart): string {
  const shown = printable(text);
  return tone === undefined ? shown : styleText(STYLES[tone], shown, { stream: process.stdout });
}

export function say(text: string): void {
  process.stderr.write(printable(`${text}\n`));
}
