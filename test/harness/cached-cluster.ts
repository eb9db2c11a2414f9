import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { Agent, type Dispatcher, request } from 'undici';
import { parse } from 'yaml';
import { type Resource, systemClock } from '../../src/core/index.ts';
import type { CacheScope } from '../../src/contract/index.ts';
import { clusterIdentity } from '../../src/ground/apiserver/discovery.ts';
import { TokenKeys } from '../../src/gateway/controller/access/token-keys.ts';
import { resolveBinary } from '../../src/testing/index.ts';
import { CACHE_KEYS, cacheKeyRing } from './cache-keys.ts';
import type { Cluster } from './cluster.ts';
import { eventually } from './eventually.ts';
import { createSetting, type Setting, startGateway } from './levelhook.ts';
import { startObserver } from './observer.ts';
import type { Started } from './started.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData['headers'];
  readonly text: string;
}

/** A server that speaks Kubernetes, and the kubeconfig with which to reach it. */
export class ApiSide {
  readonly server: string;
  readonly kubeconfig: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #agent: Agent;

  constructor(options: { server: string; kubeconfig: string; ca: string; headers: Readonly<Record<string, string>> }) {
    this.server = options.server;
    this.kubeconfig = options.kubeconfig;
    this.#headers = options.headers;
    this.#agent = new Agent({ connect: { ca: options.ca }, allowH2: false });
  }

  async ask(path: string, options: { method?: string; headers?: Record<string, string> } = {}): Promise<Answer> {
    const response = await request(this.server + path, {
      method: options.method ?? 'GET',
      headers: { accept: 'application/json', ...this.#headers, ...options.headers },
      dispatcher: this.#agent,
    });
    return { status: response.statusCode, headers: response.headers, text: await response.body.text() };
  }

  /** kubectl's output, with whatever it said on stderr and its exit code when that is not 0. */
  async kubectl(...args: readonly string[]): Promise<string> {
    const run = promisify(execFile);
    // A cache of discovery of its own: the two servers have different documents.
    const directory = await mkdtemp(join(tmpdir(), 'levelhook-kubectl-'));
    try {
      const all = [`--kubeconfig=${this.kubeconfig}`, `--cache-dir=${directory}`, '--request-timeout=30s', ...args];
      const { stdout, stderr } = await run(await resolveBinary('kubectl'), all, { maxBuffer: 1 << 26 });
      return stdout + stderr;
    } catch (error) {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return `${stdout}${stderr}[exit ${code}]`;
    } finally {
      await rm(directory, { recursive: true });
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/** The shared cluster twice: as its apiserver answers, and as a gateway's cache does, over https. */
export interface CachedCluster {
  readonly setting: Setting;
  readonly controller: string;
  readonly user: string;
  readonly redis: Redis;
  readonly keys: TokenKeys;
  readonly gatewayUrl: string;
  readonly ca: string;
  /** The apiserver, as `user`. */
  readonly direct: ApiSide;
  /** The cache API, with a token of `scope`. */
  readonly cached: ApiSide;
  side(scope: CacheScope): Promise<ApiSide>;
}

export async function startCachedCluster(
  started: Started,
  options: {
    cluster: Cluster;
    kubeconfig: string;
    redisUrl: string;
    name: string;
    kinds: readonly Resource[];
    scope: CacheScope;
  },
): Promise<CachedCluster> {
  const { cluster, kubeconfig, name: controller, kinds, scope } = options;
  const setting = createSetting(options);
  const directory = await started.directory();
  const [first, ...reads] = kinds;
  if (!first) throw new Error('there is nothing to cache');
  const observer = started.keep(await startObserver(setting, { name: controller, for: first, reads }));
  const pki = join(dirname(kubeconfig), 'pki');
  const gateway = started.keep(
    await startGateway(setting, [observer.url], {
      LEVELHOOK_CACHE_KEYS: CACHE_KEYS,
      LEVELHOOK_TLS_CERT_FILE: join(pki, 'serving.crt'),
      LEVELHOOK_TLS_KEY_FILE: join(pki, 'serving.key'),
    }),
  );
  const clusterId = await clusterIdentity(cluster.client);
  const redis = new Redis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  const keys = new TokenKeys({
    ring: cacheKeyRing(),
    cluster: { keyPrefix: setting.keyPrefix, clusterId },
    clock: systemClock,
  });
  const ca = readFileSync(join(pki, 'ca.crt'), 'utf8');
  const user = `levelhook:controller:${controller}`;
  const config = parse(readFileSync(kubeconfig, 'utf8')) as Kubeconfig;
  const save = async (file: string, server: string, account: Record<string, unknown>): Promise<string> => {
    const copy: Kubeconfig = {
      ...config,
      clusters: [{ name: 'levelhook', cluster: { ...config.clusters[0]?.cluster, server } }],
      users: config.users.map((each) => ({ ...each, user: account })),
    };
    const path = join(directory, file);
    // JSON is YAML.
    await writeFile(path, JSON.stringify(copy));
    return path;
  };
  const server = String(config.clusters[0]?.cluster['server']);
  const admin = config.users[0]?.user ?? {};
  const direct = new ApiSide({
    server,
    ca,
    kubeconfig: await save('direct', server, { ...admin, as: user }),
    headers: { authorization: `Bearer ${String(admin['token'])}`, 'impersonate-user': user },
  });
  started.add(() => direct.close());
  let count = 0;
  const side = async (of: CacheScope): Promise<ApiSide> => {
    const token = keys.sign('levelhook-cache', { controller, scope: of }, Date.now() + 3_600_000);
    count += 1;
    const made = new ApiSide({
      server: `${gateway.url}/cache`,
      ca,
      kubeconfig: await save(`cached-${count}`, `${gateway.url}/cache`, { token }),
      headers: { authorization: `Bearer ${token}` },
    });
    started.add(() => made.close());
    return made;
  };
  const cached = await side(scope);
  await eventually(async () => {
    const { status, text } = await cached.ask('/../readyz');
    if (status !== 200) throw new Error(text);
  });
  return { setting, controller, user, redis, keys, gatewayUrl: gateway.url, ca, direct, cached, side };
}

interface Kubeconfig {
  readonly clusters: readonly { name: string; cluster: Record<string, unknown> }[];
  readonly users: readonly { name: string; user: Record<string, unknown> }[];
}
