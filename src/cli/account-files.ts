import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readLogin } from '../kubeconfig/kubeconfig.ts';

/**
 * The user of a kubeconfig as files and variables, for programs that read no kubeconfig: `KUBE_SERVER`, `KUBE_CA_FILE`,
 * `KUBE_TOKEN_FILE`. None for a user without a token, or a cluster whose authority is no part of the file.
 * @param directory where the files go.
 */
export async function accountFiles(kubeconfig: string, directory: string): Promise<Record<string, string>> {
  const { cluster, user } = await readLogin(kubeconfig);
  const { server, 'certificate-authority-data': authority } = cluster;
  if (user.token === undefined || authority === undefined || server === undefined) return {};
  const [ca, token] = [join(directory, 'ca.crt'), join(directory, 'token')];
  writeFileSync(ca, Buffer.from(authority, 'base64'));
  writeFileSync(token, user.token, { mode: 0o600 });
  return { KUBE_SERVER: server, KUBE_CA_FILE: ca, KUBE_TOKEN_FILE: token };
}
