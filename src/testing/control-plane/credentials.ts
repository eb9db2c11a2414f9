import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';

import { stringify } from 'yaml';

import { UserError } from '../../core/errors.ts';
import type { ControlPlaneUser } from './control-plane.ts';
import { adminName, type PlaneFiles } from './plane-files.ts';

/** Tokens and groups of users, by user name. */
export type UserTokens = ReadonlyMap<string, { readonly token: string; readonly groups: readonly string[] }>;

/** The parts' users have the names that the apiserver's bootstrap RBAC roles are bound to. */
const ownUsers: readonly ControlPlaneUser[] = [
  { name: adminName, groups: ['system:masters'] },
  { name: 'system:kube-controller-manager' },
  { name: 'system:kube-scheduler' },
];

/**
 * A token for the admin, for each part and for each of `users`. Throws `UserError` when a name occurs twice.
 * @param known tokens by user name, which these users keep.
 */
export function createCredentials(
  users: readonly ControlPlaneUser[],
  known: Readonly<Record<string, string>> = {},
): UserTokens {
  const credentials = new Map<string, { token: string; groups: readonly string[] }>();
  for (const { name, groups = [] } of [...ownUsers, ...users]) {
    if (credentials.has(name)) throw new UserError(`There are two users "${name}" in this control plane: rename one`);
    credentials.set(name, { token: known[name] ?? randomBytes(24).toString('hex'), groups });
  }
  return credentials;
}

/** Writes the token file for `--token-auth-file`: a CSV of token, user, uid and groups. */
export async function writeTokenFile(file: string, credentials: UserTokens): Promise<void> {
  const lines = [...credentials].map(([name, { token, groups }]) =>
    [token, name, name, groups.join(',')].map((field) => `"${field.replaceAll('"', '""')}"`).join(','),
  );
  await writeFile(file, `${lines.join('\n')}\n`, { mode: 0o600 });
}

/** Writes each user's kubeconfig, with no references to other files, so that it may be copied elsewhere. */
export async function writeKubeconfigs(
  files: PlaneFiles,
  server: string,
  ca: string,
  credentials: UserTokens,
): Promise<void> {
  const name = 'levelhook';
  for (const [user, { token }] of credentials) {
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': name,
      clusters: [{ name, cluster: { server, 'certificate-authority-data': Buffer.from(ca).toString('base64') } }],
      users: [{ name: user, user: { token } }],
      contexts: [{ name, context: { cluster: name, user } }],
    };
    await writeFile(files.kubeconfig(user), stringify(config), { mode: 0o600 });
  }
}
