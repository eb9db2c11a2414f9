import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path';
import { messageOf, UserError, withoutPackage } from '../core/index.ts';

/** The fields of a kubeconfig's cluster that are used. Names of files are absolute. */
export interface ClusterEntry {
  readonly server?: string;
  readonly 'certificate-authority'?: string;
  readonly 'certificate-authority-data'?: string;
  readonly 'insecure-skip-tls-verify'?: boolean;
  readonly 'tls-server-name'?: string;
  readonly 'proxy-url'?: string;
}

/** The fields of a kubeconfig's user that are used. Names of files are absolute. */
export interface UserEntry {
  readonly 'client-certificate'?: string;
  readonly 'client-certificate-data'?: string;
  readonly 'client-key'?: string;
  readonly 'client-key-data'?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  /** client-node's name for `tokenFile`. */
  readonly 'token-file'?: string;
  readonly username?: string;
  readonly password?: string;
  readonly as?: string;
  readonly 'as-uid'?: string;
  readonly 'as-groups'?: readonly string[];
  readonly 'as-user-extra'?: Readonly<Record<string, readonly string[]>>;
  readonly exec?: { readonly command?: string };
  readonly 'auth-provider'?: object;
}

/** The cluster and the user of the current context. */
export interface Login {
  readonly cluster: ClusterEntry;
  readonly user: UserEntry;
  /** The name of the context. Undefined for a pod's service account. */
  readonly context?: string;
  /** See `ClusterAccess`. */
  readonly podNamespace?: string | undefined;
}

interface ContextEntry {
  readonly cluster?: string;
  readonly user?: string;
}

/** One kubeconfig file, or several after merging. */
interface Kubeconfig {
  readonly currentContext: string;
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  readonly users: ReadonlyMap<string, UserEntry>;
  readonly contexts: ReadonlyMap<string, ContextEntry>;
}

/**
 * Reads one kubeconfig.
 * @param context Default: the current one.
 * @throws UserError when the file is missing or is no kubeconfig, or has no such context.
 */
export async function readLogin(path: string, context?: string): Promise<Login> {
  const config = await readKubeconfig(path);
  if (!config) throw new UserError(`The kubeconfig ${path} cannot be read (no such file): check the path.`);
  return loginOf(config, path, context);
}

/**
 * Reads the files that kubectl would read: the files in KUBECONFIG, or else `~/.kube/config`. Files that do not exist
 * are left out.
 * @param context Default: the current one.
 * @returns undefined when none of the files exists.
 */
export async function readDefaultLogin(
  environment: Readonly<Record<string, string | undefined>>,
  context?: string,
): Promise<Login | undefined> {
  const named = (environment['KUBECONFIG'] ?? '').split(delimiter).filter((path) => path !== '');
  const paths = named.length > 0 ? [...new Set(named)] : [join(environment['HOME'] || homedir(), '.kube', 'config')];
  const configs = (await Promise.all(paths.map(readKubeconfig))).filter((config) => config !== undefined);
  return configs.length === 0 ? undefined : loginOf(merge(configs), paths.join(delimiter), context);
}

/** Takes each value and each named entry from the first file that has it. Entries are not merged. */
function merge(configs: readonly Kubeconfig[]): Kubeconfig {
  const all = <T>(entriesOf: (config: Kubeconfig) => ReadonlyMap<string, T>): Map<string, T> =>
    new Map(configs.toReversed().flatMap((config) => [...entriesOf(config)]));
  return {
    currentContext: configs.find(({ currentContext }) => currentContext !== '')?.currentContext ?? '',
    clusters: all(({ clusters }) => clusters),
    users: all(({ users }) => users),
    contexts: all(({ contexts }) => contexts),
  };
}

async function readKubeconfig(path: string): Promise<Kubeconfig | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'EISDIR')
      throw new UserError(`The path ${path} is not a kubeconfig (${messageOf(error)}): check the path.`);
    throw new UserError(`The kubeconfig ${path} cannot be read (${messageOf(error)}): check the path.`);
  }
  try {
    return absolute(parseKubeconfig(await parseYaml(text)), dirname(resolve(path)));
  } catch (error) {
    if (error instanceof UserError) throw error;
    const [reason] = messageOf(error).split('\n', 1);
    throw new UserError(`The file ${path} is not a kubeconfig (${reason}): check its contents.`);
  }
}

/** Parses JSON, which is YAML too, without loading the YAML parser. */
async function parseYaml(text: string): Promise<unknown> {
  if (text.trimStart().startsWith('{')) {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      // YAML may begin with a brace.
    }
  }
  const { parse } = await import('yaml').catch(withoutPackage('yaml'));
  return parse(text, { merge: true }) as unknown;
}

function parseKubeconfig(value: unknown): Kubeconfig {
  if (!isObject(value)) throw new TypeError('it is not an object');
  return {
    currentContext: textOf(value, 'current-context') ?? '',
    clusters: named<ClusterEntry>(value, 'clusters', 'cluster', CLUSTER_TEXTS),
    users: named<UserEntry>(value, 'users', 'user', USER_TEXTS),
    contexts: named<ContextEntry>(value, 'contexts', 'context', ['cluster', 'user']),
  };
}

/** The entries of a list by name. If a name comes twice, the first entry counts. */
function named<T>(
  config: Readonly<Record<string, unknown>>,
  list: string,
  field: string,
  texts: readonly string[],
): Map<string, T> {
  const entries = config[list] ?? [];
  if (!Array.isArray(entries)) throw new TypeError(`${list} is not a list`);
  const found = new Map<string, T>();
  for (const [at, entry] of (entries as unknown[]).entries()) {
    const place = `${list}[${at}]`;
    const name = isObject(entry) ? entry['name'] : undefined;
    if (!isObject(entry) || typeof name !== 'string') throw new TypeError(`${place}.name is missing`);
    const value = entry[field] ?? {};
    if (!isObject(value)) throw new TypeError(`${place}.${field} is not an object`);
    const kept = Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null && each !== ''));
    for (const text of texts) textOf(kept, text, `${place}.${field}.${text}`);
    if (!found.has(name)) found.set(name, kept as T);
  }
  return found;
}

const CLUSTER_TEXTS = [
  'server',
  'certificate-authority',
  'certificate-authority-data',
  'tls-server-name',
  'proxy-url',
] as const satisfies (keyof ClusterEntry)[];
const USER_TEXTS = [
  'client-certificate',
  'client-certificate-data',
  'client-key',
  'client-key-data',
  'token',
  'tokenFile',
  'token-file',
  'username',
  'password',
  'as',
  'as-uid',
] as const satisfies (keyof UserEntry)[];

/** File names are relative to the kubeconfig that has them. */
function absolute(config: Kubeconfig, directory: string): Kubeconfig {
  const of = (path: string): string => (isAbsolute(path) ? path : join(directory, path));
  const withPaths = <T extends object>(entry: T, fields: readonly (keyof T)[]): T => {
    const paths = fields.filter((field) => entry[field] !== undefined);
    return { ...entry, ...Object.fromEntries(paths.map((field) => [field, of(String(entry[field]))])) };
  };
  const clusters = [...config.clusters].map(
    ([name, cluster]) => [name, withPaths(cluster, ['certificate-authority'])] as const,
  );
  const users = [...config.users].map(([name, user]) => {
    const command = user.exec?.command;
    // A command without a slash is searched for on the PATH.
    const exec = command?.includes('/') ? { exec: { ...user.exec, command: of(command) } } : {};
    return [
      name,
      { ...withPaths(user, ['client-certificate', 'client-key', 'tokenFile', 'token-file']), ...exec },
    ] as const;
  });
  return { ...config, clusters: new Map(clusters), users: new Map(users) };
}

/** A kubeconfig with this cluster and user alone. JSON is YAML, too. */
export function kubeconfigOf({ cluster, user, context = 'default' }: Login): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': context,
    clusters: [{ name: context, cluster }],
    users: [{ name: context, user }],
    contexts: [{ name: context, context: { cluster: context, user: context } }],
  });
}

function loginOf({ currentContext, clusters, users, contexts }: Kubeconfig, path: string, named?: string): Login {
  const name = named ?? currentContext;
  const context = contexts.get(name);
  if (named !== undefined && !context) {
    const there = [...contexts.keys()].join(', ') || 'none';
    throw new UserError(`The kubeconfig ${path} has no context "${named}": there is ${there}.`);
  }
  const cluster = clusters.get(context?.cluster ?? '');
  if (!cluster) throw new UserError('The kubeconfig names no current cluster: set current-context in it.');
  if (!cluster.server) throw new UserError(`In the kubeconfig ${path} the cluster's server is missing: add it.`);
  const user = context?.user ? users.get(context.user) : {};
  if (!user) throw new UserError(`The kubeconfig ${path} has no user ${context?.user}: check its contents.`);
  return { cluster, user, context: name };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(object: Readonly<Record<string, unknown>>, field: string, place = field): string | undefined {
  const value = object[field] ?? undefined;
  // The error must not contain the value, which may be a password.
  if (value !== undefined && typeof value !== 'string') throw new TypeError(`${place} is not text`);
  return value;
}
