import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { type KubernetesObject, resource, resourcePath } from '../../src/core/index.ts';
import type { Cluster } from './cluster.ts';
import { TestProcess } from './process.ts';
import type { Started } from './started.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const secrets = resource<KubernetesObject & { data?: Record<string, string> }>('v1', 'Secret');
const maps = resource<KubernetesObject & { data?: Record<string, string> }>('v1', 'ConfigMap');
const accounts = resource('v1', 'ServiceAccount');

interface KeyRef {
  readonly name: string;
  readonly key: string;
}

interface Volume {
  readonly name: string;
  readonly secret?: { readonly secretName: string; readonly items?: readonly { key: string; path: string }[] };
  readonly configMap?: { readonly name: string };
  readonly emptyDir?: object;
}

/** What a kubelet reads of a pod's specification. */
export interface PodSpec {
  readonly serviceAccountName?: string;
  readonly automountServiceAccountToken?: boolean;
  readonly securityContext?: { readonly runAsUser?: number; readonly runAsGroup?: number };
  readonly volumes?: readonly Volume[];
  readonly containers: readonly {
    readonly command?: readonly string[];
    readonly args?: readonly string[];
    readonly env?: readonly { name: string; value?: string; valueFrom?: { secretKeyRef: KeyRef } }[];
    readonly volumeMounts?: readonly { name: string; mountPath: string; readOnly?: boolean }[];
  }[];
}

/** The root file system of a container. */
export type PodRoot =
  /** This machine's programs and this repository: the entry point is this Node with `script`. */
  | { readonly kind: 'machine'; readonly script: string }
  /** The unpacked root of an image. Folders for mounts are created in it. */
  | { readonly kind: 'image'; readonly folder: string; readonly entrypoint: readonly string[]; readonly cwd: string };

export interface PodOptions {
  readonly cluster: Cluster;
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly spec: PodSpec;
  readonly root: PodRoot;
  /** Names of Services, as DNS would resolve them. */
  readonly hosts: Readonly<Record<string, string>>;
  /** Variables instead of those of the specification: where to listen, since the pod has no network of its own. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Text at the end of files, by their path, for the same reason. Default: none. */
  readonly append?: Readonly<Record<string, string>>;
  /** Who runs it if the specification does not say. Default 65532, the user of our images. */
  readonly user?: number;
}

/**
 * Runs the container of a pod as a kubelet would: with its variables and files from the cluster, the token of its
 * ServiceAccount, as its user, and with a root that cannot be written. It takes the command line and the mounts as they
 * are. Needs root. It differs in two ways: the pod has the network of this machine, and no limits of resources.
 */
export async function runPod(started: Started, options: PodOptions): Promise<TestProcess> {
  const { spec, root, variables = {} } = options;
  const [container] = spec.containers;
  if (!container) throw new Error('the pod has no container');
  const folder = await started.directory();
  const mounts = await filesOf(folder, options);
  const given = await environmentOf(options);
  const [host, port] = apiserverOf(options.kubeconfig);
  const environment = { ...given, KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port, ...variables };
  const newRoot = root.kind === 'image' ? root.folder : join(folder, 'root');
  await mkdir(newRoot, { recursive: true });
  const user = spec.securityContext?.runAsUser ?? options.user ?? 65_532;
  const group = spec.securityContext?.runAsGroup ?? user;
  const own = [...(container.command ?? (await entrypointOf(root))), ...(container.args ?? [])];
  const lines = ['set -e'];
  if (root.kind === 'machine') {
    lines.push(`mount -t tmpfs tmpfs ${quote(newRoot)}`);
  } else {
    // A container has a layer of its own.
    lines.push(`mount --bind ${quote(newRoot)} ${quote(newRoot)}`);
    lines.push(`mkdir -p ${quote(`${newRoot}/proc`)}`, `mount --rbind /proc ${quote(`${newRoot}/proc`)}`);
  }
  for (const [path, source] of mounts) lines.push(...bind(source, newRoot + path));
  // After the volumes: this repository may be below /tmp.
  if (root.kind === 'machine') {
    for (const path of await machinePaths()) lines.push(...bind(path, newRoot + path));
  }
  lines.push(`mount -o remount,bind,ro ${quote(newRoot)}`);
  for (const [path] of mounts.filter(([, source]) => source.startsWith(join(folder, 'empty')))) {
    lines.push(`chown ${user}:${group} ${quote(newRoot + path)}`);
  }
  const cwd = root.kind === 'image' ? root.cwd : ROOT;
  // A container runtime sets HOME, to / for a user that the image does not know.
  const assigned = Object.entries({ PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/', ...environment });
  const words = ['env', '-i', ...assigned.map(([name, value]) => `${name}=${value}`)];
  // The chain of exec keeps the process id, so that signals reach the program.
  words.push('/usr/sbin/chroot', `--userspec=${user}:${group}`, '--groups=', newRoot);
  lines.push(`exec ${[...words, ...inFolder(root, cwd, own)].map(quote).join(' ')}`);
  const script = join(folder, 'start.sh');
  await writeFile(script, lines.join('\n'), { mode: 0o600 });
  const process = new TestProcess(script, [], {}, ['unshare', '--mount', '--propagation', 'private', 'sh']);
  started.keep({ process });
  return process;
}

/** chroot begins at /; only Node is told where to go, since images have no shell. */
function inFolder(root: PodRoot, cwd: string, own: readonly string[]): readonly string[] {
  if (root.kind === 'machine') return own;
  return own.map((word, at) => (at === 1 && !word.startsWith('/') ? join(cwd, word) : word));
}

async function entrypointOf(root: PodRoot): Promise<readonly string[]> {
  if (root.kind === 'image') return root.entrypoint;
  return [await realpath(process.execPath), '--conditions=levelhook-source', join(ROOT, root.script)];
}

/** Programs and libraries, this repository, its packages and its Node. */
async function machinePaths(): Promise<string[]> {
  const own = [ROOT, await realpath(join(ROOT, 'node_modules')), dirname(await realpath(process.execPath))];
  return ['/usr', '/bin', '/lib', '/lib64', '/etc/ssl', '/dev', '/proc', ...own];
}

function bind(from: string, to: string): string[] {
  return [
    `if [ -d ${quote(from)} ]; then mkdir -p ${quote(to)}; else mkdir -p ${quote(dirname(to))}; touch ${quote(to)}; fi`,
    `mount --rbind ${quote(from)} ${quote(to)}`,
  ];
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** The files of all volumes, and the path of each folder in the container. */
async function filesOf(folder: string, options: PodOptions): Promise<[path: string, source: string][]> {
  const { cluster, namespace, spec, hosts, kubeconfig, append = {} } = options;
  const found: [string, string][] = [];
  for (const { name, mountPath } of spec.containers[0]?.volumeMounts ?? []) {
    const volume = spec.volumes?.find((each) => each.name === name);
    if (!volume) throw new Error(`the volume ${name} is not declared`);
    const source = join(folder, volume.emptyDir ? 'empty' : 'files', name);
    await mkdir(source, { recursive: true });
    for (const [file, content] of await contentOf(cluster, namespace, volume)) {
      // The group of the pod may read it: the kubelet does that by fsGroup.
      const more = append[join(mountPath, file)] ?? '';
      await writeFile(join(source, file), Buffer.concat([Buffer.from(content), Buffer.from(more)]), { mode: 0o444 });
    }
    found.push([mountPath, source]);
  }
  const hostsFile = join(folder, 'hosts');
  const lines = Object.entries(hosts).map(([name, address]) => `${address} ${name}`);
  await writeFile(hostsFile, ['127.0.0.1 localhost', ...lines, ''].join('\n'), { mode: 0o444 });
  found.push(['/etc/hosts', hostsFile]);
  const { serviceAccountName = 'default', automountServiceAccountToken = true } = spec;
  if (automountServiceAccountToken) {
    const token = await cluster.client.json<{ status: { token: string } }>({
      method: 'POST',
      path: `${resourcePath(accounts, { namespace, name: serviceAccountName })}/token`,
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 7200 } },
    });
    const source = join(folder, 'files', 'service-account');
    await mkdir(source, { recursive: true });
    const files = { token: token.status.token, namespace, 'ca.crt': authorityOf(kubeconfig) };
    for (const [file, content] of Object.entries(files)) await writeFile(join(source, file), content, { mode: 0o444 });
    found.push(['/var/run/secrets/kubernetes.io/serviceaccount', source]);
  }
  return found;
}

async function contentOf(cluster: Cluster, namespace: string, volume: Volume): Promise<[string, string | Buffer][]> {
  if (volume.configMap) {
    const map = await cluster.get(maps, { namespace, name: volume.configMap.name });
    return Object.entries(map?.data ?? {});
  }
  if (!volume.secret) return [];
  const { secretName, items } = volume.secret;
  const data = (await cluster.get(secrets, { namespace, name: secretName }))?.data ?? {};
  const chosen = items ?? Object.keys(data).map((key) => ({ key, path: key }));
  return chosen.map(({ key, path }) => [path, Buffer.from(data[key] ?? '', 'base64')]);
}

async function environmentOf({ cluster, namespace, spec }: PodOptions): Promise<Record<string, string>> {
  const environment: Record<string, string> = {};
  for (const { name, value, valueFrom } of spec.containers[0]?.env ?? []) {
    if (!valueFrom) {
      environment[name] = value ?? '';
      continue;
    }
    const { secretKeyRef: ref } = valueFrom;
    const data = (await cluster.get(secrets, { namespace, name: ref.name }))?.data?.[ref.key];
    if (data === undefined) throw new Error(`${name} names a key that is not there: ${ref.name}/${ref.key}`);
    environment[name] = Buffer.from(data, 'base64').toString();
  }
  return environment;
}

interface Kubeconfig {
  readonly clusters: readonly { cluster: { server: string; 'certificate-authority-data': string } }[];
}

const readKubeconfig = (path: string) => (parse(readFileSync(path, 'utf8')) as Kubeconfig).clusters[0]?.cluster;

function apiserverOf(kubeconfig: string): [host: string, port: string] {
  const { hostname, port } = new URL(readKubeconfig(kubeconfig)?.server ?? '');
  return [hostname, port];
}

function authorityOf(kubeconfig: string): Buffer {
  return Buffer.from(readKubeconfig(kubeconfig)?.['certificate-authority-data'] ?? '', 'base64');
}
