import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { parse, stringify } from 'yaml';
import { type ControlPlane, resolveBinary } from '../../src/testing/index.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** The namespace of the ServiceAccounts in `infra/rbac`, `functions/NAME/rbac.yaml` and examples. */
const NAMESPACE = 'levelhook';

/** How the apiserver calls a ServiceAccount of ours. */
export function userOf(name: string): string {
  return `system:serviceaccount:${NAMESPACE}:${name}`;
}

/** Applies manifests, as an administrator would. Relative paths are from the root of this repository. */
export async function applyManifests(plane: Pick<ControlPlane, 'kubeconfig'>, files: readonly string[]): Promise<void> {
  await kubectl(plane, ['apply', ...files.flatMap((file) => ['-f', resolve(ROOT, file)])]);
}

/** A kubeconfig with a token of a ServiceAccount of ours, good for a day; it goes when the control plane goes. */
export async function serviceAccountKubeconfig(plane: ControlPlane, name: string): Promise<string> {
  const token = (await kubectl(plane, ['create', 'token', name, `--namespace=${NAMESPACE}`, '--duration=24h'])).trim();
  const config = parse(await readFile(plane.kubeconfig, 'utf8')) as { users: { user: object }[] };
  for (const each of config.users) each.user = { token };
  const path = join(plane.directory, `${name}.service-account.kubeconfig`);
  await writeFile(path, stringify(config), { mode: 0o600 });
  return path;
}

async function kubectl(plane: Pick<ControlPlane, 'kubeconfig'>, args: readonly string[]): Promise<string> {
  const { stdout } = await run(await resolveBinary('kubectl'), [`--kubeconfig=${plane.kubeconfig}`, ...args]);
  return stdout;
}
