import { formatKind, type GroupVersionKind, messageOf, type Resource, UserError } from '../core/index.ts';
import type { Description, SigningKey } from '../contract/index.ts';
import { isLoopback } from '../contract/secure-url.ts';
import { ApiClient } from '../ground/apiserver/api-client.ts';
import { type Credentials, loadCredentials } from '../ground/apiserver/credentials.ts';
import { clusterIdentity, DiscoveryError, discoverResource } from '../ground/apiserver/discovery.ts';
import { settingsFor } from '../gateway/informer/cache/view-settings.ts';
import { readAdminTokens } from '../ground/config/admin-tokens.ts';
import { type CacheSettings, readCacheSettings } from '../ground/config/cache-file.ts';
import { checkSharedKeys, readCacheKeys } from '../ground/config/cache-keys.ts';
import { readCertificates } from '../ground/config/certificates.ts';
import { variableOf } from '../ground/config/config.ts';
import { readSigningKeys } from '../ground/config/signing-keys.ts';
import { checkFunctionUrls } from '../gateway/controller/endpoint/endpoint-rules.ts';
import { type GatewayConfig, readConfig } from '../gateway/index.ts';
import { electionLease } from '../ground/config/lease.ts';
import { webhookCertificates } from '../ground/config/webhook-certificates.ts';
import { leaseName, NAMESPACE } from '../gateway/recovery/dispatch-lease.ts';
import { connectRedis, type Redis } from '../ground/redis/redis.ts';
import { ReconcileFunction } from '../gateway/registration/reconcile-function.ts';
import { countOf, describeSections, type Diagnoses, section, type Section } from './doctor/diagnosis.ts';
import { checkConfigured, checkDeclared } from './doctor/function-findings.ts';
import { checkQueues } from './doctor/queue-findings.ts';
import { checkServer, checkUsage, checkUsers } from './doctor/redis-findings.ts';
import type { RedisUsage } from './doctor/redis-usage.ts';
import { type CachedKind, checkRights, neededRights } from './doctor/rights.ts';
import { type Output, outputText } from './output.ts';
import { patiently } from './progress.ts';

export interface DoctorFlags {
  readonly kubeconfig?: string;
  readonly output: Output;
}

/** The contents of the files in the settings. */
interface Files {
  keys: readonly SigningKey[];
  ca: string | undefined;
  cacheSettings: CacheSettings;
  canEncrypt: boolean;
}

/**
 * Checks everything that a gateway with these settings needs, and prints the findings. It changes nothing, and no
 * gateway need run. Exit code 1 when there is a problem.
 */
export async function doctorCommand({ kubeconfig, output }: DoctorFlags): Promise<void> {
  const { sections, usage } = await patiently(examine(kubeconfig), 'Redis, the apiserver and the functions');
  process.stdout.write(outputText(output, { sections, keys: usage }, describeSections(sections)));
  if (countOf(sections, 'problem') > 0) process.exitCode = 1;
}

async function examine(kubeconfig: string | undefined): Promise<{ sections: Section[]; usage?: RedisUsage }> {
  let config: GatewayConfig;
  try {
    config = readConfig(process.env, { kubeconfig });
  } catch (error) {
    // Without settings nothing else can be checked.
    return { sections: [{ name: 'settings', findings: [{ level: 'problem', text: messageOf(error) }] }] };
  }
  const files: Files = { keys: [], ca: undefined, cacheSettings: { defaults: {}, kinds: {} }, canEncrypt: false };
  const settings = await section('settings', (findings) => readFiles(findings, config, files));
  const cluster = new ClusterCheck(config, files);
  try {
    const apiserver = await section('apiserver', (findings) => cluster.checkServer(findings));
    const { sections: redis, usage } = await examineRedis(config, cluster.id);
    const functions = await section('functions', (findings) => cluster.checkFunctions(findings));
    const rights = await section('rights', (findings) => cluster.checkRights(findings));
    return { sections: [settings, ...redis, apiserver, rights, functions], ...(usage ? { usage } : {}) };
  } finally {
    await cluster.close();
  }
}

/** Reads each file separately, so that a wrong file does not hide the others. */
async function readFiles(findings: Diagnoses, config: GatewayConfig, files: Files): Promise<void> {
  const read = async (each: () => unknown): Promise<void> => {
    try {
      await each();
    } catch (error) {
      findings.problem(messageOf(error));
    }
  };
  await read(() => checkFunctionUrls(config.functionUrls));
  await read(async () => (files.keys = await readSigningKeys(config)));
  await read(() => (files.ca = config.functionCaFile && readCertificates(config.functionCaFile, 'functionCaFile')));
  await read(async () => (files.cacheSettings = await readCacheSettings(config.cacheFile)));
  await read(() => readAdminTokens(config.adminTokens, config.adminTokensFile));
  await read(() => {
    const ring = readCacheKeys(config.cacheKeys, config.cacheKeysFile);
    files.canEncrypt = ring !== undefined;
    checkSharedKeys(config, ring);
  });
  const { webhookClientCaFile, webhookListen } = config;
  await read(() => webhookClientCaFile !== undefined && readCertificates(webhookClientCaFile, 'webhookClientCaFile'));
  if (findings.all.length === 0) findings.ok('the settings are valid');
  if (webhookListen !== undefined && webhookClientCaFile === undefined) {
    findings.warning(
      `anyone who reaches the port of webhooks may send a review, so functions get none with the cache: set ${variableOf('webhookClientCaFile')}, or answer reviews without the cache if the apiserver cannot be given a certificate, as in managed clusters`,
    );
  }
}

async function examineRedis(
  { keyPrefix, redisFiles, redisUrl }: GatewayConfig,
  clusterId: string | undefined,
): Promise<{ sections: Section[]; usage: RedisUsage | undefined }> {
  const scope = { keyPrefix, clusterId };
  let redis: Redis | undefined;
  let usage: RedisUsage | undefined;
  let answers = false;
  try {
    const server = await section('Redis', async (findings) => {
      redis = await connectRedis(redisUrl, { files: redisFiles });
      await checkServer(findings, redis, redisUrl);
      answers = true;
      usage = await checkUsage(findings, redis, scope);
      await checkUsers(findings, redis, scope);
    });
    const queues = await section('views and queues', async (findings) => {
      if (!redis || !answers) return;
      if (clusterId === undefined) findings.warning('they are not shown, since the cluster does not tell its name');
      else await checkQueues(findings, redis, { keyPrefix, clusterId });
    });
    return { sections: [server, queues], usage };
  } finally {
    redis?.disconnect();
  }
}

/** Checks the apiserver, and everything that is read through it. */
class ClusterCheck {
  /** The cluster's name in Redis; undefined while unknown. */
  id: string | undefined;
  readonly #config: GatewayConfig;
  readonly #files: Files;
  #credentials: Credentials | undefined;
  /** Undefined while the apiserver has not answered. */
  #client: ApiClient | undefined;
  #hasReconcileFunctions = false;
  readonly #descriptions: Description[] = [];

  constructor(config: GatewayConfig, files: Files) {
    this.#config = config;
    this.#files = files;
    this.id = config.clusterId;
  }

  async close(): Promise<void> {
    await this.#credentials?.close();
  }

  async checkServer(findings: Diagnoses): Promise<void> {
    this.#credentials = await loadCredentials(this.#config.kubeconfig);
    const client = new ApiClient(this.#credentials);
    const { server } = client;
    let version: string;
    let answerMs: number;
    try {
      const path = '/version';
      ({ gitVersion: version } = await client.json<{ gitVersion: string }>({ path }));
      // Not the first request, which has opened the connection.
      const startMs = performance.now();
      await client.json({ path });
      answerMs = performance.now() - startMs;
    } catch (error) {
      findings.problem(`the apiserver at ${server} cannot be used (${messageOf(error)}): check the kubeconfig`);
      return;
    }
    this.#client = client;
    findings.ok(`${server} answers in ${answerMs.toFixed(1)} ms: Kubernetes ${version}`);
    try {
      this.id ??= await clusterIdentity(client);
      findings.ok(`the name of the cluster in Redis is ${this.id}`);
    } catch (error) {
      findings.problem(`the apiserver does not tell the name of the cluster: ${messageOf(error)}`);
    }
  }

  async checkFunctions(findings: Diagnoses): Promise<void> {
    const { functionUrls, reconcileFunctions } = this.#config;
    const { cacheSettings, canEncrypt } = this.#files;
    this.#descriptions.push(...(await checkConfigured(findings, functionUrls, this.#files)));
    const client = this.#client;
    if (!client || reconcileFunctions === 'none') return;
    if (!(await this.#isServed(client, ReconcileFunction))) {
      findings.warning(
        `the cluster does not have the definition of ReconcileFunction: apply infra/crds, or set ${variableOf('reconcileFunctions')} to none`,
      );
      return;
    }
    this.#hasReconcileFunctions = true;
    const inCluster = process.env['KUBERNETES_SERVICE_HOST'] !== undefined;
    const options = { client, config: this.#config, cacheSettings, canEncrypt, inCluster };
    this.#descriptions.push(...(await checkDeclared(findings, options)));
  }

  async checkRights(findings: Diagnoses): Promise<void> {
    const client = this.#client;
    if (!client) return;
    const { allowedHosts, clusterId, host, keyPrefix, loginOnLoopback, webhookListen, webhookTls } = this.#config;
    const podNamespace = this.#credentials?.podNamespace;
    let certificates: ReturnType<typeof webhookCertificates>;
    try {
      if (webhookListen && !webhookTls) certificates = webhookCertificates(this.#config, podNamespace, variableOf);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      findings.problem(error.message);
    }
    const rights = neededRights({
      clusterNamed: clusterId !== undefined,
      lease: { namespace: NAMESPACE, name: leaseName(keyPrefix, clusterId) },
      election: electionLease(this.#config.lease, podNamespace),
      reconcileFunctions: this.#hasReconcileFunctions,
      webhookSecret: certificates?.secret,
      login: loginOnLoopback || !isLoopback(host) || allowedHosts.length > 0,
      kinds: await this.#kinds(client, findings),
    });
    await checkRights(findings, client, rights);
  }

  /** The distinct kinds that the functions name. */
  async #kinds(client: ApiClient, findings: Diagnoses): Promise<CachedKind[]> {
    const named = new Map<string, GroupVersionKind>();
    for (const { for: reconciled, owns, watches, reads } of this.#descriptions) {
      for (const kind of [reconciled, ...owns, ...watches, ...reads]) named.set(formatKind(kind), kind);
    }
    const kinds: CachedKind[] = [];
    for (const [name, kind] of named) {
      try {
        const resource: Resource = await discoverResource(client, kind);
        const { namespaces } = settingsFor(this.#files.cacheSettings, name);
        kinds.push({ resource, namespaces: resource.namespaced ? namespaces : undefined });
      } catch (error) {
        if (!(error instanceof DiscoveryError)) throw error;
        findings.problem(messageOf(error));
      }
    }
    return kinds;
  }

  async #isServed(client: ApiClient, kind: GroupVersionKind): Promise<boolean> {
    try {
      await discoverResource(client, kind);
      return true;
    } catch (error) {
      if (error instanceof DiscoveryError) return false;
      throw error;
    }
  }
}
