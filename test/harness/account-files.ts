import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';

/** What a kubeconfig holds, as files and variables: the examples in other languages read no YAML. */
export async function accountFiles(kubeconfig: string, directory: string): Promise<Record<string, string>> {
  const config = parse(await readFile(kubeconfig, 'utf8')) as {
    clusters: { cluster: { server: string; 'certificate-authority-data': string } }[];
    users: { user: { token: string } }[];
  };
  const [cluster] = config.clusters;
  const [user] = config.users;
  if (!cluster || !user) throw new Error(`${kubeconfig} names no cluster or no user`);
  const [ca, token] = [join(directory, 'ca.crt'), join(directory, 'token')];
  await writeFile(ca, Buffer.from(cluster.cluster['certificate-authority-data'], 'base64'));
  await writeFile(token, user.user.token);
  return { KUBE_SERVER: cluster.cluster.server, KUBE_CA_FILE: ca, KUBE_TOKEN_FILE: token };
}
