import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { npmProgram } from '../npm-tools.ts';
import type { Listening } from '../levelhook.ts';
import { TestProcess } from '../process.ts';
import type { PlatformProject } from './platform-project.ts';

/** How the function reaches the apiserver, and with what. */
export interface Account {
  readonly server: string;
  readonly caFile: string;
  readonly token: string;
  readonly kubeconfig: string;
}

export interface PlatformSetting {
  readonly project: PlatformProject;
  readonly account: Account;
  readonly secrets: string;
  /** 0: any free one. */
  readonly port: number;
}

/** A platform that runs functions, with its own runtime on this machine. */
export interface Platform {
  readonly name: string;
  /** Whether it sends the results of a batch one by one. */
  readonly streams: boolean;
  /** Whether its process loses an answer after SIGUSR2. */
  readonly losesAnswers?: boolean;
  /** Whether it tells a function that the caller has hung up. */
  readonly noticesHangUp?: boolean;
  /** Whether its process is the function's own, so that a signal stops it. */
  readonly stopsAtSignal?: boolean;
  /** Starts the example, and resolves when it listens. */
  start(setting: PlatformSetting): Promise<Listening>;
}

/** The variables that all platforms but Node's `serveController` take. */
function variables({ account, secrets, port }: PlatformSetting): Record<string, string> {
  return {
    LEVELHOOK_SIGNING_SECRETS: secrets,
    KUBE_SERVER: account.server,
    KUBE_CA_FILE: account.caFile,
    KUBE_TOKEN: account.token,
    HOST: '127.0.0.1',
    PORT: String(port),
  };
}

async function listening(process: TestProcess): Promise<Listening> {
  const line = await process.line(({ msg }) => msg === 'listening');
  return { process, url: String(line['url']) };
}

/** The environment of `knative/service.yaml`, but for the address: tests listen on loopback. */
const knative: Platform = {
  name: 'Node (Knative)',
  streams: true,
  noticesHangUp: true,
  stopsAtSignal: true,
  start({ project, account, secrets, port }) {
    const named = project.knativeService.spec.template.spec.containers
      .flatMap(({ env }) => env.map(({ name }) => name))
      .toSorted();
    if (named.join() !== 'HOST,LEVELHOOK_SIGNING_SECRETS')
      throw new Error(`service.yaml has other variables: ${named.join()}`);
    const env = {
      HOST: '127.0.0.1',
      LEVELHOOK_SIGNING_SECRETS: secrets,
      PORT: String(port),
      K_SERVICE: 'copies',
      // In place of the pod's files.
      KUBECONFIG: account.kubeconfig,
    };
    return listening(new TestProcess(project.path('knative/main.ts'), [], env, [process.execPath]));
  },
};

const lambda = (name: string, front: 'url' | 'api'): Platform => ({
  name,
  streams: false,
  losesAnswers: true,
  async start(setting) {
    const { path } = await setting.project.bundleForLambda();
    const env = { ...variables(setting), LAMBDA_FRONT: front };
    return listening(new TestProcess('test/harness/platforms/lambda-host.ts', [path], env, [process.execPath]));
  },
});

/** workerd is the runtime under `wrangler dev`. */
const workers: Platform = {
  name: 'Cloudflare Workers',
  streams: true,
  async start(setting) {
    const { project, account, port } = setting;
    const { path } = await project.bundleForWorkers();
    const { LEVELHOOK_SIGNING_SECRETS, KUBE_TOKEN } = variables(setting);
    const bindings = { ...project.wrangler.vars, LEVELHOOK_SIGNING_SECRETS, KUBE_TOKEN, KUBE_SERVER: account.server };
    const config = join(dirname(path), 'config.capnp');
    writeFileSync(config, workerdConfig(project, account, bindings, port));
    const worker = new TestProcess(config, ['--control-fd=1'], {}, [await npmProgram('workerd'), 'serve']);
    const line = await worker.line(({ event }) => event === 'listen');
    return { process: worker, url: `http://127.0.0.1:${String(line['port'])}` };
  },
};

/** Cap'n Proto's text is that of JSON for strings. */
function workerdConfig(project: PlatformProject, account: Account, bindings: object, port: number): string {
  const { compatibility_date: date, compatibility_flags: flags } = project.wrangler;
  const text = (value: unknown): string => JSON.stringify(value);
  const bound = Object.entries(bindings).map(([name, value]) => `(name = ${text(name)}, text = ${text(value)})`);
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["public", "private"], tlsOptions = (
      trustedCertificates = [${text(readFileSync(account.caFile, 'utf8'))}]))),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = ${text(date)},
  compatibilityFlags = [${flags.map(text).join()}],
  bindings = [${bound.join(', ')}],
);
`;
}

const deno: Platform = {
  name: 'Deno',
  streams: true,
  noticesHangUp: true,
  stopsAtSignal: true,
  async start(setting) {
    const { project } = setting;
    const { tasks } = denoSchema.parse(JSON.parse(readFileSync(project.path('deno/deno.json'), 'utf8')));
    const [program, command, ...flags] = tasks.start.split(' ').slice(0, -1);
    if (program !== 'deno' || command !== 'run') throw new Error(`the task is not deno run: ${tasks.start}`);
    // In place of the registry.
    const local = ['--node-modules-dir=manual', '--no-lock', '--cached-only', '--no-prompt'];
    const env = { ...variables(setting), DENO_NO_UPDATE_CHECK: '1', DENO_DIR: project.path('deno/cache') };
    return listening(
      new TestProcess(project.path('deno/main.ts'), [], env, [await npmProgram('deno'), 'run', ...flags, ...local]),
    );
  },
};

const bun: Platform = {
  name: 'Bun',
  streams: true,
  noticesHangUp: true,
  stopsAtSignal: true,
  start: async (setting) =>
    listening(
      new TestProcess(setting.project.path('bun/main.ts'), [], variables(setting), [
        await npmProgram('bun'),
        '--no-install',
      ]),
    ),
};

export const PLATFORMS: readonly Platform[] = [
  knative,
  lambda('AWS Lambda (function URL)', 'url'),
  lambda('AWS Lambda (API Gateway)', 'api'),
  workers,
  deno,
  bun,
];

const denoSchema = z.object({ tasks: z.object({ start: z.string() }) });
