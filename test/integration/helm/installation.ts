import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { type ControlPlane, resolveBinary, startControlPlane } from '../../../src/testing/index.ts';
import { Cluster } from '../../harness/cluster.ts';
import { helmFolder } from '../../harness/helm.ts';
import type { Started } from '../../harness/started.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const run = promisify(execFile);

/** A control plane with kube-controller-manager and without nodes, and what a user calls: helm, kubectl and a shell. */
export class Installation {
  readonly plane: ControlPlane;
  readonly cluster: Cluster;
  /** As the user's shell has it. */
  readonly environment: Readonly<Record<string, string>>;

  private constructor(plane: ControlPlane, cluster: Cluster, environment: Record<string, string>) {
    this.plane = plane;
    this.cluster = cluster;
    this.environment = environment;
  }

  static async start(started: Started, apiserverArguments: readonly string[] = []): Promise<Installation> {
    const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
    const helm = await helmFolder(onProgress);
    const kubectl = dirname(await resolveBinary('kubectl', { onProgress }));
    const plane = await startControlPlane({ kubeControllerManager: true, apiserverArguments, onProgress });
    started.add(() => plane.stop());
    const cluster = await Cluster.connect(plane.kubeconfig);
    started.add(() => cluster.close());
    const home = await started.directory();
    await mkdir(join(home, 'home'));
    const PATH = [helm, kubectl, dirname(process.execPath), process.env['PATH']].join(delimiter);
    return new Installation(plane, cluster, { PATH, HOME: join(home, 'home'), KUBECONFIG: plane.kubeconfig });
  }

  /** @returns what it prints. @throws Error with what it says on stderr. */
  helm(args: readonly string[], cwd = ROOT): Promise<string> {
    return this.#run('helm', args, cwd);
  }

  kubectl(args: readonly string[]): Promise<string> {
    return this.#run('kubectl', args, ROOT);
  }

  /** A command line, in the repository's root. */
  shell(text: string): Promise<string> {
    return this.#run('bash', ['-c', `set -euo pipefail\n${text}`], ROOT);
  }

  /** Every object of the cluster as `resource namespace/name`, without Events, and what the apiserver derives. */
  async objects(): Promise<string[]> {
    const names = (await this.kubectl(['api-resources', '--verbs=list,get', '--output=name'])).trim().split('\n');
    const listed = names.filter((name) => !/^(events|componentstatuses|apiservices)(\.|$)/.test(name));
    const path = '{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}';
    const text = await this.kubectl(['get', listed.join(','), '--all-namespaces', `--output=jsonpath=${path}`]);
    return [...new Set(text.trim().split('\n'))].toSorted();
  }

  async #run(command: string, args: readonly string[], cwd: string): Promise<string> {
    try {
      const { stdout } = await run(command, args, { cwd, env: { ...this.environment }, maxBuffer: 64e6 });
      return stdout;
    } catch (error) {
      const { stderr = '' } = error as { stderr?: string };
      throw new Error(`${command} ${args.join(' ')}: ${stderr}`, { cause: error });
    }
  }
}
