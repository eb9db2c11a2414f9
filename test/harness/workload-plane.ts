import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { replacedControllers } from '../../src/cli/replaced-controllers.ts';
import { type ControlPlane, type RedisServer, startControlPlane, startRedis } from '../../src/testing/index.ts';
import { AuditLog } from './audit-log.ts';
import { Cluster } from './cluster.ts';
import { eventually } from './eventually.ts';
import { applyManifests, serviceAccountKubeconfig } from './identity.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startFunctionProcess,
  startGateway,
  untilIdle,
  untilReady,
} from './levelhook.ts';
import { TestProcess } from './process.ts';
import type { Started } from './started.ts';

const run = promisify(execFile);

export const WORKLOAD_FUNCTIONS = ['replicaset', 'deployment'] as const;
export const ENDPOINT_FUNCTIONS = ['endpointslice', 'endpoints', 'endpointslice-mirroring'] as const;
/** All that have an `rbac.yaml`. */
export const PLANE_FUNCTIONS = [...WORKLOAD_FUNCTIONS, ...ENDPOINT_FUNCTIONS, 'namespace', 'node-lifecycle'] as const;
export type PlaneFunction = (typeof PLANE_FUNCTIONS)[number];

export interface WorkloadPlaneOptions {
  /** Their controllers are off in kube-controller-manager. Default: `WORKLOAD_FUNCTIONS`. */
  readonly functions?: readonly PlaneFunction[];
  /** The functions' controllers are on in kube-controller-manager too. Default false. */
  readonly besideBuiltIn?: boolean;
  /** Simulated nodes. */
  readonly nodes: number;
  /** Further controllers of kube-controller-manager that are off. Default: none. */
  readonly withoutControllers?: readonly string[];
  /** More of each function's variables. Default: none. */
  readonly functionVariables?: Readonly<Record<string, string>>;
  /** More flags for kube-apiserver. Default: none. */
  readonly apiserverArguments?: readonly string[];
  /** More flags for kube-controller-manager. Default: none. */
  readonly controllerManagerArguments?: readonly string[];
  /** More of the gateway's variables. Default: none. */
  readonly gatewayVariables?: Readonly<Record<string, string>>;
}

/**
 * A control plane with simulated nodes in which functions of ours stand in for controllers of kube-controller-manager,
 * with an audit log of what ServiceAccounts did: those of the functions and of the gateway, which have the rights of
 * their `rbac.yaml` and no other, and those of kube-controller-manager's controllers. The functions and the gateway do
 * not run until `startLine`.
 */
export class WorkloadPlane {
  readonly functions = new Map<string, Listening>();
  gateway!: Listening;
  readonly plane: ControlPlane;
  readonly redis: RedisServer;
  readonly audit: AuditLog;
  /** The administrator's. */
  readonly cluster: Cluster;
  readonly #options: Required<WorkloadPlaneOptions>;
  readonly #started: Started;
  readonly #setting: Setting;
  readonly #kubeconfigs: ReadonlyMap<string, string>;
  #builtIn: TestProcess | undefined;

  private constructor(from: {
    plane: ControlPlane;
    redis: RedisServer;
    audit: AuditLog;
    cluster: Cluster;
    options: Required<WorkloadPlaneOptions>;
    started: Started;
    kubeconfigs: ReadonlyMap<string, string>;
  }) {
    this.plane = from.plane;
    this.redis = from.redis;
    this.audit = from.audit;
    this.cluster = from.cluster;
    this.#options = from.options;
    this.#started = from.started;
    this.#kubeconfigs = from.kubeconfigs;
    // The manifests allow the Lease of the default key prefix only.
    const keyPrefix = 'levelhook';
    this.#setting = { ...createSetting({ kubeconfig: from.plane.kubeconfig, redisUrl: from.redis.url }), keyPrefix };
  }

  static async start(started: Started, given: WorkloadPlaneOptions): Promise<WorkloadPlane> {
    const options = {
      functions: WORKLOAD_FUNCTIONS,
      besideBuiltIn: false,
      withoutControllers: [],
      gatewayVariables: {},
      functionVariables: {},
      apiserverArguments: [],
      controllerManagerArguments: [],
      ...given,
    };
    const { functions, besideBuiltIn, withoutControllers, nodes } = options;
    const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
    const audit = await AuditLog.create({ userGroups: ['system:serviceaccounts'] });
    started.add(() => audit.remove());
    const redis = await startRedis({ appendOnly: true, ignoreEnvironment: true, onProgress });
    started.add(() => redis.stop());
    const off = [...(besideBuiltIn ? [] : replacedControllers(functions)), ...withoutControllers];
    const plane = await startControlPlane({
      kubeControllerManager: {
        controllers: ['*', ...off.map((name) => `-${name}`)],
        extraArguments: options.controllerManagerArguments,
      },
      kwokNodes: nodes,
      apiserverArguments: [...audit.apiserverArguments, ...options.apiserverArguments],
      onProgress,
    });
    started.add(() => plane.stop());
    const cluster = await Cluster.connect(plane.kubeconfig);
    started.add(() => cluster.close());
    await applyManifests(plane, ['infra/rbac/gateway.yaml', ...functions.map((name) => `functions/${name}/rbac.yaml`)]);
    const kubeconfigs = new Map<string, string>();
    for (const name of ['gateway', ...functions]) {
      kubeconfigs.set(name, await serviceAccountKubeconfig(plane, name));
    }
    return new WorkloadPlane({ plane, redis, audit, cluster, options, started, kubeconfigs });
  }

  /** Starts the functions and the gateway, and waits until it is ready. */
  async startLine(): Promise<void> {
    for (const name of this.#options.functions) await this.startFunction(name);
    await this.startGateway();
    await untilReady(this.gateway.url);
  }

  /**
   * Until no run waits or is in flight. The endpoint functions run a key at most once a second: a key that waits for
   * that is neither queued nor running.
   */
  async untilIdle(): Promise<void> {
    const { url } = this.gateway;
    await untilIdle(url);
    const debounced = ENDPOINT_FUNCTIONS.filter((name) => this.#options.functions.includes(name));
    await eventually(async () => {
      for (const name of debounced) {
        const { keys } = (await (await fetch(`${url}/queues/${name}/keys?list=waiting`)).json()) as { keys: unknown[] };
        if (keys.length > 0) throw new Error(`keys of ${name} wait: ${JSON.stringify(keys)}`);
      }
    });
    await untilIdle(url);
  }

  /** Starts a function, again at the URL that it had before. */
  async startFunction(name: string): Promise<void> {
    const before = this.functions.get(name);
    const port = before ? Number(new URL(before.url).port) : 0;
    const variables = this.#options.functionVariables;
    const script = `functions/${name}/node.ts`;
    const served = this.#started.keep(await startFunctionProcess(this.#settingOf(name), script, { port, variables }));
    this.functions.set(name, served);
  }

  /** Starts a gateway. Does not wait until it is ready. */
  async startGateway(variables: Readonly<Record<string, string>> = {}): Promise<void> {
    const urls = [...this.functions.values()].flatMap(({ url, urls }) => urls ?? [url]);
    const all = { ...this.#options.gatewayVariables, ...variables };
    this.gateway = this.#started.keep(await startGateway(this.#settingOf('gateway'), urls, all));
  }

  /** Kills the functions and the gateway. */
  async killLine(): Promise<void> {
    for (const { process } of [this.gateway, ...this.functions.values()]) await process.kill('SIGKILL');
  }

  /** Starts kube-controller-manager again with all of its controllers, also the ones that functions replace. */
  async startBuiltIn(): Promise<TestProcess> {
    const part = 'kube-controller-manager';
    const { stdout } = await run('ps', ['-ww', '-o', 'args=', '-p', String(this.plane.pid(part))]);
    const [program = '', ...given] = stdout.trim().split(' ');
    await this.plane.kill(part);
    const args = given.map((each) => (each.startsWith('--controllers=') ? '--controllers=*' : each));
    this.#builtIn = this.#started.keep({ process: new TestProcess(program, args, {}, ['env']) }).process;
    return this.#builtIn;
  }

  /** Kills the kube-controller-manager of `startBuiltIn`. */
  async killBuiltIn(): Promise<void> {
    await this.#builtIn?.kill('SIGKILL');
  }

  /** What gateway and functions wrote, for the message of a failed assertion. */
  output(characters = 20_000): string {
    const served = [['gateway', this.gateway] as const, ...this.functions];
    return served.map(([name, { process }]) => `--- ${name}\n${process.output.slice(-characters)}`).join('\n');
  }

  #settingOf(name: string): Setting {
    return { ...this.#setting, kubeconfig: this.#kubeconfigs.get(name) ?? '' };
  }
}
