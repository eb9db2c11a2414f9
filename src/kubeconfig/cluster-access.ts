import { readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { UserError, withoutPackage } from '../core/index.ts';
import { type ClusterEntry, type Login, readDefaultLogin, readLogin, type UserEntry } from './kubeconfig.ts';

/** How to reach one apiserver as one user. */
export interface ClusterAccess {
  /** `https://host:port`, without a slash at its end. */
  readonly server: string;
  /** URL of the proxy in front of the server. Default: none. */
  readonly proxy?: string | undefined;
  /** The namespace of this pod; undefined unless its service account is the user. */
  readonly podNamespace?: string | undefined;
  /** Reads the files again, and asks an exec plugin whose answer has expired. Rejects with the reason. */
  read(): Promise<Credential>;
}

/** The TLS options of a connection, and the headers of each request. */
export interface Credential {
  readonly tls: Tls;
  readonly headers: Readonly<Record<string, string | string[]>>;
}

export interface Tls {
  readonly ca?: Buffer | undefined;
  readonly cert?: Buffer | undefined;
  readonly key?: Buffer | undefined;
  readonly servername?: string | undefined;
  readonly rejectUnauthorized?: boolean | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Where a pod finds its service account. */
const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * The current context of a kubeconfig: of `path` when given, else of the files that KUBECONFIG names, else of
 * `~/.kube/config`, else a pod's service account.
 * @param environment Default: the process's.
 * @param serviceAccount the folder of a pod's service account. Default: Kubernetes' own.
 * @throws UserError when there is none, or it is no kubeconfig.
 */
export async function clusterAccess(
  path?: string,
  environment: Environment = process.env,
  serviceAccount = SERVICE_ACCOUNT,
): Promise<ClusterAccess> {
  const login =
    path === undefined
      ? ((await readDefaultLogin(environment)) ?? (await serviceAccountLogin(environment, serviceAccount)))
      : await readLogin(path);
  if (!login) throw new UserError('There is no kubeconfig: set KUBECONFIG to its path.');
  const server = (login.cluster.server ?? '').replace(/\/+$/, '');
  if (!URL.canParse(server)) throw new UserError(`The server ${server} of the kubeconfig is not a URL: check it.`);
  if (new URL(server).protocol === 'http:' && login.cluster['insecure-skip-tls-verify'] !== true) {
    throw new UserError(
      `The server ${server} of the kubeconfig is not https: set insecure-skip-tls-verify to use it nevertheless.`,
    );
  }
  const read = login.user.exec || login.user['auth-provider'] ? await readByClientNode(login) : readDirectly(login);
  return { server, proxy: login.cluster['proxy-url'], podNamespace: login.podNamespace, read };
}

async function serviceAccountLogin(environment: Environment, directory: string): Promise<Login | undefined> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = environment;
  const tokenFile = `${directory}/token`;
  if (!host || !port || (await textOf(tokenFile)) === undefined) return undefined;
  return {
    podNamespace: (await textOf(`${directory}/namespace`))?.trim() || undefined,
    cluster: {
      server: `https://${isIPv6(host) ? `[${host}]` : host}:${port}`,
      'certificate-authority': `${directory}/ca.crt`,
    },
    user: { tokenFile },
  };
}

/** Undefined when the file cannot be read. */
function textOf(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined);
}

function readDirectly({ cluster, user }: Login): () => Promise<Credential> {
  checkPairs(cluster, user);
  const token = tokenOf(user);
  const impersonation = impersonationOf(user);
  return async () => {
    const [ca, cert, key, bearer] = await Promise.all([
      bytesOf(cluster['certificate-authority'], cluster['certificate-authority-data']),
      bytesOf(user['client-certificate'], user['client-certificate-data']),
      bytesOf(user['client-key'], user['client-key-data']),
      token(),
    ]);
    const basic = user.username && Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64');
    const authorization = basic ? `Basic ${basic}` : bearer && `Bearer ${bearer}`;
    return {
      tls: { ca, cert, key, ...serverCheckOf(cluster) },
      headers: { ...impersonation, ...(authorization ? { Authorization: authorization } : {}) },
    };
  };
}

function serverCheckOf(cluster: ClusterEntry): Tls {
  return {
    servername: cluster['tls-server-name'],
    rejectUnauthorized: cluster['insecure-skip-tls-verify'] === true ? false : undefined,
  };
}

/** Refuses two settings of one thing, as client-go does, because the author's intent is not clear. */
function checkPairs(cluster: ClusterEntry, user: UserEntry): void {
  const both = [
    cluster['certificate-authority'] && cluster['certificate-authority-data'] && 'certificate-authority',
    user['client-certificate'] && user['client-certificate-data'] && 'client-certificate',
    user['client-key'] && user['client-key-data'] && 'client-key',
  ].find((field) => field);
  if (both) throw new UserError(`The kubeconfig has both ${both} and ${both}-data: remove one of them.`);
  if (user.username && (user.token || user.tokenFile)) {
    throw new UserError('The kubeconfig has a user with both a token and a user name: remove one of them.');
  }
}

async function bytesOf(file: string | undefined, data: string | undefined): Promise<Buffer | undefined> {
  if (file !== undefined) return readFile(file);
  return data === undefined ? undefined : Buffer.from(data, 'base64');
}

/** As in client-go, a token file wins over a token, and the last content of the file is used when a read fails. */
function tokenOf(user: UserEntry): () => Promise<string | undefined> {
  const file = user.tokenFile ?? (user.token === undefined ? user['token-file'] : undefined);
  if (file === undefined) return async () => user.token;
  let last = user.token;
  return async () => {
    try {
      const text = (await readFile(file, 'utf8')).trim();
      if (text === '') throw new Error(`the token file ${file} is empty`);
      last = text;
    } catch (error) {
      if (last === undefined) throw error;
    }
    return last;
  };
}

function impersonationOf(user: UserEntry): Record<string, string | string[]> {
  const extra = Object.entries(user['as-user-extra'] ?? {}).map(
    ([name, values]) => [`Impersonate-Extra-${encodeURIComponent(name)}`, [...values]] as const,
  );
  return {
    ...(user.as ? { 'Impersonate-User': user.as } : {}),
    ...(user['as-uid'] ? { 'Impersonate-Uid': user['as-uid'] } : {}),
    ...(user['as-groups'] ? { 'Impersonate-Group': [...user['as-groups']] } : {}),
    ...Object.fromEntries(extra),
  };
}

/** For exec plugins and auth providers only: loading client-node takes a second and 89 MB. */
async function readByClientNode({ cluster, user }: Login): Promise<() => Promise<Credential>> {
  const { KubeConfig } = await import('@kubernetes/client-node').catch(withoutPackage('@kubernetes/client-node'));
  const config = new KubeConfig();
  const name = 'current';
  const text = JSON.stringify({
    clusters: [{ name, cluster }],
    users: [{ name, user }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  });
  config.loadFromString(text);
  const impersonation = impersonationOf(user);
  return async () => {
    const options: Tls & { headers?: Record<string, string>; auth?: string } = {};
    await config.applyToHTTPSOptions(options as Parameters<typeof config.applyToHTTPSOptions>[0]);
    const { ca, cert, key, auth } = options;
    const basic = auth ? { Authorization: `Basic ${Buffer.from(auth).toString('base64')}` } : {};
    return {
      tls: { ca, cert, key, ...serverCheckOf(cluster) },
      headers: { ...options.headers, ...impersonation, ...basic },
    };
  };
}
