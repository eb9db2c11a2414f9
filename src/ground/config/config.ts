import { z } from 'zod';
import { UserError } from '../../core/index.ts';
import { parseRedisUrl } from '../../contract/node/redis-url.ts';
import { checkLeaseTiming, type LeaseTiming } from './lease.ts';
import { apiserverSettings } from './settings/apiserver-settings.ts';
import { cacheSettings } from './settings/cache-settings.ts';
import { functionSettings } from './settings/function-settings.ts';
import { processSettings } from './settings/process-settings.ts';
import { redisSettings } from './settings/redis-settings.ts';
import { serverSettings } from './settings/server-settings.ts';
import { webhookSettings } from './settings/webhook-settings.ts';
import { described, type DescribedSetting } from './settings/setting.ts';

/** Every setting, in the order of the documentation. A group says of each its variable, form, default and meaning. */
const schema = z.object({
  ...redisSettings,
  ...functionSettings,
  ...serverSettings,
  ...webhookSettings,
  ...processSettings,
  ...cacheSettings,
  ...apiserverSettings,
});

/** Paths of files that belong to the connection to Redis. */
export interface RedisFiles {
  /** Certificate authorities, in PEM form. Undefined: Node's. */
  readonly caFile?: string | undefined;
  /** A client certificate and its key, in PEM form. */
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly usernameFile?: string | undefined;
  readonly passwordFile?: string | undefined;
  readonly sentinelUsernameFile?: string | undefined;
  readonly sentinelPasswordFile?: string | undefined;
}

/** All settings of a gateway, checked once. */
export interface GatewayConfig extends Readonly<ReturnType<typeof joined>> {
  /** Undefined: KUBECONFIG, ~/.kube/config, or the pod's service account. */
  readonly kubeconfig: string | undefined;
}

/**
 * Reads the settings from environment variables. Flags of the command line win.
 * @throws UserError naming the first wrong variable. Never shows a secret's value.
 */
export function readConfig(
  environment: Readonly<Record<string, string | undefined>>,
  { kubeconfig, port }: { readonly kubeconfig?: string | undefined; readonly port?: number | undefined } = {},
): GatewayConfig {
  const given = Object.entries(schema.shape).map(([name, form]) => {
    // An empty variable is an unset one, as everywhere in a shell.
    return [name, environment[described(form).variable] || undefined] as const;
  });
  const parsed = schema.safeParse({ ...Object.fromEntries(given), ...(port === undefined ? {} : { port }) });
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new UserError(`${variableOf(issue?.path[0] as SettingName)} is wrong: ${issue?.message}.`);
  }
  return Object.freeze({ ...joined(parsed.data), kubeconfig });
}

/** The environment variable of a setting, for messages. */
export function variableOf(name: SettingName): string {
  return described(schema.shape[name]).variable;
}

/** Every setting, in the order of the documentation. */
export function describedSettings(): DescribedSetting[] {
  return Object.values(schema.shape).map(described);
}

/** The name of a setting in `GatewayConfig`. */
export type SettingName = keyof typeof schema.shape;

/** The settings with those joined that belong together. */
function joined({
  tlsCertFile,
  tlsKeyFile,
  webhookTlsCertFile,
  webhookTlsKeyFile,
  redisCaFile: caFile,
  redisCertFile: certFile,
  redisKeyFile: keyFile,
  redisUsernameFile: usernameFile,
  redisPasswordFile: passwordFile,
  redisSentinelUsernameFile: sentinelUsernameFile,
  redisSentinelPasswordFile: sentinelPasswordFile,
  kubeApiQps,
  kubeApiBurst,
  kubeApiControllerQps,
  kubeApiControllerBurst,
  leaseMs,
  renewMs,
  retryMs,
  webhookCaMs: authorityMs,
  webhookCertificateMs: certificateMs,
  otlpEndpoint,
  otlpTracesEndpoint,
  ...settings
}: z.output<typeof schema>) {
  const { allowedHosts, cacheUrl, redisUrl, redisUsers } = settings;
  if (redisUsers.length > 0 && parseRedisUrl(redisUrl).kind === 'cluster') {
    const why = 'each node of a Redis Cluster has users of its own, so functions need a user in their own URL';
    throw new UserError(`${variableOf('redisUsers')} cannot be set with a Redis Cluster: ${why}.`);
  }
  return {
    ...settings,
    allowedHosts: cacheUrl === undefined ? allowedHosts : [...allowedHosts, new URL(cacheUrl).hostname],
    /** See `apiserver/flow-control`. */
    apiserverLimits: {
      total: { perSecond: kubeApiQps, burst: kubeApiBurst },
      perFlow: { perSecond: kubeApiControllerQps, burst: kubeApiControllerBurst },
    },
    /** The whole URL; undefined: no traces. */
    traceCollector: otlpTracesEndpoint ?? (otlpEndpoint && `${otlpEndpoint.replace(/\/$/, '')}/v1/traces`),
    leaseTiming: leaseTimingOf({ leaseMs, renewMs, retryMs }),
    webhookTimes: webhookTimesOf(authorityMs, certificateMs),
    /** Files; undefined: plain http. */
    tls: tlsOf({ tlsCertFile, tlsKeyFile }),
    /** Files of the server of reviews. */
    webhookTls: tlsOf({ webhookTlsCertFile, webhookTlsKeyFile }),
    redisFiles: {
      caFile,
      certFile,
      keyFile,
      usernameFile,
      passwordFile,
      sentinelUsernameFile,
      sentinelPasswordFile,
    } satisfies RedisFiles,
  };
}

function leaseTimingOf(timing: LeaseTiming): LeaseTiming {
  checkLeaseTiming(timing, variableOf);
  return timing;
}

function webhookTimesOf(authorityMs: number, certificateMs: number) {
  if (certificateMs <= authorityMs) return { authorityMs, certificateMs };
  throw new UserError(`${variableOf('webhookCertificateMs')} is more than ${variableOf('webhookCaMs')}: lower it.`);
}

/** Two settings, the file of a certificate first. */
function tlsOf(files: Partial<Record<SettingName, string | undefined>>) {
  const [[certName, certFile], [keyName, keyFile]] = Object.entries(files) as [FileSetting, FileSetting];
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile };
  if (certFile === undefined && keyFile === undefined) return undefined;
  const missing = variableOf(certFile === undefined ? certName : keyName);
  throw new UserError(`${missing} is not set: a certificate and its key belong together.`);
}

type FileSetting = [SettingName, string | undefined];
