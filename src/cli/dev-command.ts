import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { messageOf, UserError } from '../core/index.ts';
import { type Description, generateSecret } from '../contract/index.ts';
import { importExtractableSecret } from '../contract/signature.ts';
import { variableOf } from '../ground/config/config.ts';
import { describeFunction } from '../gateway/controller/endpoint/describe.ts';
import { Endpoint } from '../gateway/controller/endpoint/endpoint.ts';
import {
  chooseGround,
  type DataFlags,
  type Ground,
  runLines,
  say,
  type Started,
  startGateway,
  type StartedGateway,
  startGround,
  untilStopped,
} from './bring-up.ts';
import type { ClusterFlags } from './chosen-cluster.ts';
import { applyDefinitions, definitionsOf } from './definitions.ts';
import { DevKeys } from './dev-keys.ts';
import { Family } from './family.ts';
import { type FunctionProgram, ownFunction } from './function-program.ts';
import { ReloadedFunction } from './reloaded-function.ts';
import { sameJob } from './same-job.ts';
import { ShellCommand } from './shell-command.ts';
import { watchFolder } from './watched-folder.ts';

export interface DevFlags extends ClusterFlags, DataFlags {
  readonly port: number;
  /** A command line for the shell, which runs once the functions do. Default: `dev` runs until it is stopped. */
  readonly run?: string;
}

/**
 * `levelhook dev`: runs the functions of a project, starts them again when a file changes, and shows every trigger with
 * the log lines of its run. The cluster and Redis stay between starts. With a command to run, such as the tests of the
 * project, it ends with the exit code of this command.
 * @param entries Default: the usual entry in the folder of the command.
 */
export function devCommand(entries: readonly string[], options: DevFlags): Promise<void> {
  return untilStopped((signal, started) => dev(entries, options, signal, started));
}

async function dev(
  entries: readonly string[],
  options: DevFlags,
  signal: AbortSignal,
  started: Started,
): Promise<void> {
  const folder = process.cwd();
  const data = resolve(folder, options.data);
  const functions = (entries.length === 0 ? [undefined] : entries).map((entry) => ownFunction(entry, folder, data));
  const chosen = await chooseGround({ ...options, functions, replaced: [] }, started);
  const ground = await startGround(chosen, { ...options, replaced: [] }, { signal, started });
  const apiToken = generateSecret();
  ground.gatewayEnv[variableOf('apiTokens')] = apiToken;

  const project = new Project(functions, ground, started);
  const stop = new AbortController();
  const family = new Family({ signal: AbortSignal.any([signal, stop.signal]), started, say });
  const changes = changesOf(folder, signal);
  let described = await project.load();
  while (described === undefined) {
    if (options.run !== undefined) throw new UserError(`"${options.run}" did not run: a function has not started.`);
    say('waiting for a change of its files');
    await family.unless(changes.next());
    described = await project.load();
  }
  for (const line of await sameJob(ground, described)) say(line);
  const { lines } = project;
  const { port } = options;
  const names = (): ReadonlyMap<string, string> => project.names;
  const gateway = await startGateway(ground, { port, functions: names(), lines }, { family, signal });
  process.stdout.write('levelhook ready\n');
  if (options.run !== undefined) {
    const command = new ShellCommand(options.run, { ...ground.functionEnv, LEVELHOOK_GATEWAY: gateway.url });
    try {
      process.exitCode = await family.unless(command.ended);
    } finally {
      await command.stop();
    }
    return;
  }
  const keys = new DevKeys({ gateway: gateway.url, apiToken, controllers: () => project.controllers, say });
  keys.listen(() => stop.abort(), signal);
  const follow = async (): Promise<never> => {
    for (;;) {
      await changes.next();
      const before = described;
      described = (await project.load()) ?? before;
      if (JSON.stringify(before) !== JSON.stringify(described)) await restart(gateway, names());
    }
  };
  try {
    await family.unless(follow());
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  }
}

/** The gateway asks a configured function for its declaration at its start alone. */
async function restart(gateway: StartedGateway, functions: ReadonlyMap<string, string>): Promise<void> {
  say('the declaration has changed: the gateway starts again');
  await gateway.restart(functions);
}

/** The functions of the folder, as they run now. */
class Project {
  readonly lines = runLines();
  /** The entries of the functions, by URL. */
  readonly names = new Map<string, string>();
  /** The names of the controllers. */
  controllers: readonly string[] = [];
  readonly #ground: Ground;
  readonly #functions: ReadonlyMap<FunctionProgram, ReloadedFunction>;
  /** The definitions that were applied last, by file. */
  readonly #definitions = new Map<string, string>();
  readonly #urls = new Map<FunctionProgram, readonly string[]>();
  /** What the controllers have declared last, by URL. */
  #described: Readonly<Record<string, Description>> = {};

  constructor(functions: readonly FunctionProgram[], ground: Ground, started: Started) {
    const { functionEnv: env } = ground;
    this.#ground = ground;
    const { lines } = this;
    this.#functions = new Map(
      functions.map((program) => {
        const fn = new ReloadedFunction({ program, env, onLine: (line) => lines.fn(program.name, line), say });
        started(`function ${program.name}`, () => fn.stop());
        return [program, fn];
      }),
    );
  }

  /**
   * Applies the definitions that have changed, and starts the functions from their files as they are now. A wrong
   * file is reported, and the program that runs keeps running.
   * @returns what the functions declare, by URL; undefined when one of them has never run.
   */
  async load(): Promise<Record<string, Description> | undefined> {
    await this.#apply().catch((error: unknown) => say(messageOf(error)));
    for (const [program, fn] of this.#functions) {
      const again = this.#urls.has(program);
      try {
        this.#urls.set(program, await fn.reload());
        if (again) say(`${program.name} started again`);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        say(`${error.message}${again ? ' The version before it goes on.' : ''}`);
      }
    }
    if (this.#urls.size < this.#functions.size) return undefined;
    this.names.clear();
    for (const [{ name }, urls] of this.#urls) for (const url of urls) this.names.set(url, name);
    const found: Record<string, Description> = {};
    for (const url of this.names.keys()) {
      // A declaration that is wrong is mended with the next change. Until then the one before it holds.
      const description = (await this.#describe(url)) ?? this.#described[url];
      if (description) found[url] = description;
    }
    this.#described = found;
    this.controllers = Object.values(found).map(({ name }) => name);
    return found;
  }

  /** Says why there is no description. */
  async #describe(url: string): Promise<Description | undefined> {
    const endpoint = new Endpoint(url, [await importExtractableSecret(this.#ground.signingSecret)], { connections: 1 });
    try {
      return await describeFunction(endpoint);
    } catch (error) {
      say(`function ${this.names.get(url) ?? url} does not describe itself (${messageOf(error)})`);
      return undefined;
    } finally {
      await endpoint.close();
    }
  }

  /** The definitions in a cluster that exists are left to the user. */
  async #apply(): Promise<void> {
    const { cluster, kubeconfig } = this.#ground;
    if (cluster !== undefined) return;
    const folders = new Set([process.cwd(), ...[...this.#functions.keys()].map(({ folder }) => folder)]);
    const files = [...folders].flatMap(definitionsOf);
    for (const file of files) {
      const text = readFileSync(file, 'utf8');
      if (this.#definitions.get(file) === text) continue;
      await applyDefinitions(kubeconfig, [file]);
      this.#definitions.set(file, text);
    }
  }
}

/**
 * Watches the files of a folder. `next` resolves at the next change, or at once when one came since the last call.
 */
function changesOf(folder: string, signal: AbortSignal): { next(): Promise<void> } {
  let change = Promise.withResolvers<void>();
  watchFolder(folder, () => change.resolve(), signal);
  return {
    async next() {
      await change.promise;
      change = Promise.withResolvers<void>();
    },
  };
}
