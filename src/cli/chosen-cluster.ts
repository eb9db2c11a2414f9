import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { ApiError, messageOf, resource, resourcePath, UserError } from '../core/index.ts';
import { ApiClient } from '../ground/apiserver/api-client.ts';
import { loadCredentials } from '../ground/apiserver/credentials.ts';
import { kubeconfigOf, readDefaultLogin, readLogin } from '../kubeconfig/kubeconfig.ts';

/** A cluster that the command line names. */
export interface ChosenCluster {
  /** The path of a kubeconfig whose current context is this cluster. */
  readonly kubeconfig: string;
  /** The context and its server, for display. */
  readonly name: string;
}

export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly builtInOff?: boolean;
}

/**
 * The cluster that `--kubeconfig` or `--context` names. KUBECONFIG alone does not count, because many people have it
 * set, and the functions write to the cluster. `--context` without `--kubeconfig` looks in the files that kubectl
 * reads.
 * @param started registers the removal of the temporary kubeconfig.
 * @returns undefined when the command line names no cluster.
 */
export async function chosenCluster(
  { kubeconfig, context }: ClusterFlags,
  started: (name: string, stop: () => Promise<void>) => void,
): Promise<ChosenCluster | undefined> {
  if (kubeconfig === undefined && context === undefined) return undefined;
  const login = await (kubeconfig === undefined
    ? readDefaultLogin(process.env, context)
    : readLogin(kubeconfig, context));
  if (!login)
    throw new UserError(`There is no kubeconfig with the context "${context}": name its file by --kubeconfig.`);
  const name = `the context ${login.context} at ${login.cluster.server}`;
  if (kubeconfig !== undefined && context === undefined) return { kubeconfig: resolve(kubeconfig), name };
  const directory = await mkdtemp(join(tmpdir(), 'levelhook-kubeconfig-'));
  started('the kubeconfig', () => rm(directory, { recursive: true, force: true }));
  await chmod(directory, 0o700);
  const path = join(directory, 'kubeconfig');
  await writeFile(path, kubeconfigOf(login), { mode: 0o600 });
  return { kubeconfig: path, name };
}

interface Lease {
  readonly spec?: {
    readonly holderIdentity?: string | null;
    readonly renewTime?: string | null;
    readonly leaseDurationSeconds?: number | null;
  };
}

const LEASE = resource('coordination.k8s.io/v1', 'Lease');
/** The clocks of the cluster and of this machine differ by less than this. */
const CLOCKS_MS = 300_000;

/**
 * Refuses a cluster that may run the controllers which the functions replace: both would undo each other's work. A
 * kube-controller-manager does not publish which controllers it runs, so any live one is refused.
 * @param replaced names of its controllers.
 */
export async function refuseBuiltIn(cluster: ChosenCluster, replaced: readonly string[], nowMs: number): Promise<void> {
  if (replaced.length === 0) return;
  const controllers = replaced.join(' and ');
  const advice = `When it is started with --controllers=*,${replaced.map((each) => `-${each}`).join(',')}, add --built-in-off.`;
  const credentials = await loadCredentials(cluster.kubeconfig);
  try {
    const path = resourcePath(LEASE, { namespace: 'kube-system', name: 'kube-controller-manager' });
    const { spec } = await new ApiClient(credentials).json<Lease>({ path });
    const { holderIdentity, renewTime, leaseDurationSeconds } = spec ?? {};
    const endMs = Date.parse(renewTime ?? '') + (leaseDurationSeconds ?? 0) * 1000 + CLOCKS_MS;
    if (!holderIdentity || !(endMs > nowMs)) return;
  } catch (error) {
    if (error instanceof ApiError && error.reason === 'NotFound') return;
    throw new UserError(
      `Whether ${cluster.name} runs the ${controllers} itself is not known (${messageOf(error)}). ${advice}`,
    );
  } finally {
    await credentials.close();
  }
  throw new UserError(
    `The cluster of ${cluster.name} has a kube-controller-manager, whose ${controllers} would work on the same objects. ${advice}`,
  );
}
