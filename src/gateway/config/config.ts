import { z } from 'zod';
import { decodeObjectKey, isDnsSubdomain, messageOf, parseLabelSelector, UserError } from '../../core/index.ts';
import { isSecureUrl } from '../../contract/secure-url.ts';
import { COMPRESS_ABOVE } from '../../contract/node/codec.ts';
import { parseRedisUrl } from '../../contract/node/redis-url.ts';
import { checkLeaseTiming, type LeaseKey, type LeaseTiming } from './lease.ts';

const words = z.string().transform((text) => text.split(/[\s,]+/).filter((word) => word !== ''));
const flag = z.enum(['true', 'false']).transform((text) => text === 'true');
const number = z.coerce.number('must be a number');
const seconds = (min: number, max: number) =>
  z.coerce
    .number('must be a number of seconds')
    .min(min)
    .max(max)
    .transform((value) => value * 1000);

const days = z.coerce
  .number('must be a number of days')
  .min(1)
  .max(3650)
  .transform((value) => value * 86_400_000);

/** `namespace/name`. */
function leaseKeyOf(text: string): LeaseKey | undefined {
  const { namespace, name = '' } = decodeObjectKey(text) ?? {};
  return namespace !== undefined && isDnsSubdomain(name) ? { namespace, name } : undefined;
}

/** `host:port`; an IPv6 address in brackets. */
function listenOf(text: string): { readonly host: string; readonly port: number } | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:\s[\]]+)):([0-9]{1,5})$/.exec(text) ?? [];
  const [host, port] = [bracketed ?? plain, Number(digits)];
  return host === undefined || port > 65_535 ? undefined : { host, port };
}

const namespacedName = () =>
  z
    .string()
    .transform(leaseKeyOf)
    .refine((key) => key !== undefined, 'must be namespace/name')
    .optional();

function isSelector(text: string): boolean {
  try {
    parseLabelSelector(text);
    return true;
  } catch {
    return false;
  }
}

function isPlain({ hash, password, search, username }: URL): boolean {
  return [hash, password, search, username].every((part) => part === '');
}

function checkRedisUrl(url: string, context: z.RefinementCtx): void {
  try {
    parseRedisUrl(url);
  } catch (error) {
    context.addIssue({ code: 'custom', message: messageOf(error), input: undefined });
  }
}

/** What the documentation says of a setting. */
export interface DescribedSetting {
  readonly variable: string;
  /** A value in backticks, or words where no value of the variable means the same. */
  readonly default: string;
  readonly meaning: string;
}

const descriptions = z.registry<DescribedSetting>();

/** @param unset in words what an unset variable means, when `form` has no default. */
function setting<Form extends z.ZodType>(variable: string, form: Form, meaning: string, unset = 'none'): Form {
  const text = form instanceof z.ZodPrefault ? String(form.def.defaultValue) : '';
  descriptions.add(form, { variable, default: text === '' ? unset : `\`${text}\``, meaning });
  return form;
}

/** The one place that knows a setting: its variable, its form, its default, and its row in infra/docs/settings.md. */
const schema = z.object({
  redisUrl: setting(
    'REDIS_URL',
    z.string().superRefine(checkRedisUrl).prefault('redis://127.0.0.1:6379'),
    'where cache and queues live: a server, Sentinels or a cluster, see below',
  ),
  // Read again when they change.
  redisCaFile: setting(
    'LEVELHOOK_REDIS_CA_FILE',
    z.string().optional(),
    'PEM file of the certificate authorities of Redis at `rediss` URLs',
    "Node's authorities",
  ),
  redisCertFile: setting(
    'LEVELHOOK_REDIS_CERT_FILE',
    z.string().optional(),
    'PEM file of a client certificate for Redis',
  ),
  redisKeyFile: setting('LEVELHOOK_REDIS_KEY_FILE', z.string().optional(), 'PEM file of its key'),
  redisUsernameFile: setting(
    'LEVELHOOK_REDIS_USERNAME_FILE',
    z.string().optional(),
    'file that holds the ACL user for Redis',
    'that of the URL',
  ),
  redisPasswordFile: setting(
    'LEVELHOOK_REDIS_PASSWORD_FILE',
    z.string().optional(),
    'file that holds its password',
    'that of the URL',
  ),
  redisSentinelUsernameFile: setting(
    'LEVELHOOK_REDIS_SENTINEL_USERNAME_FILE',
    z.string().optional(),
    'file that holds the ACL user for the Sentinels',
  ),
  redisSentinelPasswordFile: setting(
    'LEVELHOOK_REDIS_SENTINEL_PASSWORD_FILE',
    z.string().optional(),
    'file that holds its password',
  ),
  keyPrefix: setting(
    'LEVELHOOK_KEY_PREFIX',
    z
      .string()
      .regex(/^[A-Za-z0-9_-]+$/, 'may hold letters, digits, - and _ only')
      .prefault('levelhook'),
    'the first part of each key in Redis; gateways with different ones do not see each other',
  ),
  clusterId: setting(
    'LEVELHOOK_CLUSTER_ID',
    z
      .string()
      .regex(/^[A-Za-z0-9_.-]+$/, 'may hold letters, digits, dots, - and _ only')
      .optional(),
    "the cluster's name in each key",
    'UID of `kube-system`',
  ),
  functionUrls: setting(
    'LEVELHOOK_FUNCTIONS',
    words
      .pipe(
        z.array(
          z
            .url({ protocol: /^https?$/, error: 'must be http:// or https:// URLs' })
            // URLs are logged and shown; a function is protected by its signature.
            .refine(
              (url) => new URL(url).username === '' && new URL(url).password === '',
              'must hold no user or password',
            ),
        ),
      )
      .prefault(''),
    'URLs of functions, separated by spaces or commas',
  ),
  signingSecrets: setting(
    'LEVELHOOK_SIGNING_SECRETS',
    words.prefault(''),
    'signs triggers: `whsec_` and base64; two while one is rotated; required with `LEVELHOOK_FUNCTIONS`',
  ),
  functionCaFile: setting(
    'LEVELHOOK_FUNCTION_CA_FILE',
    z.string().optional(),
    'PEM file of the certificate authorities of functions at `https` URLs',
    "Node's authorities",
  ),
  // With a label selector several gateways share a cluster.
  reconcileFunctions: setting(
    'LEVELHOOK_RECONCILE_FUNCTIONS',
    z.string().refine(isSelector, 'must be all, none, or a label selector as kubectl takes it').prefault('all'),
    'which ReconcileFunctions to run: `all`, `none` or a label selector; others are removed as if deleted',
  ),
  allowedEndpoints: setting(
    'LEVELHOOK_ALLOWED_ENDPOINTS',
    words
      .pipe(z.array(z.string().regex(/^https?:\/\/[^/]+$/, 'must hold origins, as https://functions.example.com')))
      .prefault(''),
    'origins that their `endpoint.url` may have, such as `https://*.example.com`, separated by spaces or commas',
    'Services of their namespace only',
  ),
  maxFunctionsPerNamespace: setting(
    'LEVELHOOK_MAX_FUNCTIONS_PER_NAMESPACE',
    number.int().min(1).prefault('50'),
    'ReconcileFunctions of a namespace that run, the oldest ones; further ones wait, and say so',
  ),
  reviewMs: setting(
    'LEVELHOOK_REVIEW_SECONDS',
    seconds(1, 3600).prefault('60'),
    'seconds between two reviews of the rights, the Secret and the Service of a ReconcileFunction',
  ),
  apiTokens: setting(
    'LEVELHOOK_API_TOKENS',
    words.pipe(z.array(z.string().min(16, 'must hold tokens of at least 16 characters each'))).prefault(''),
    'bearer tokens for `POST /reconcile`, see [server](../../src/gateway/server/README.md)',
    'none: requests are refused',
  ),
  adminTokens: setting(
    'LEVELHOOK_ADMIN_TOKENS',
    words.prefault(''),
    'static tokens for dashboard and queues: `NAME:read:TOKEN` or `NAME:change:TOKEN`, see below',
    "none: Kubernetes' own tokens",
  ),
  adminTokensFile: setting(
    'LEVELHOOK_ADMIN_TOKENS_FILE',
    z.string().optional(),
    'file that holds these tokens instead',
  ),
  metricsLogin: setting(
    'LEVELHOOK_METRICS_LOGIN',
    flag.prefault('false'),
    'ask for a login at `/metrics` too; never on loopback',
  ),
  host: setting(
    'LEVELHOOK_HOST',
    z.string().prefault('127.0.0.1'),
    'where health, metrics, queues and the dashboard are; elsewhere than on loopback the last two need a login',
  ),
  port: setting(
    'LEVELHOOK_PORT',
    z.coerce.number('must be a port number').int().min(0).max(65_535).prefault('8787'),
    'the port there; `0`: any; `--port N` wins',
  ),
  allowedHosts: setting(
    'LEVELHOOK_ALLOWED_HOSTS',
    words.pipe(z.array(z.string().regex(/^[A-Za-z0-9.-]+$/, 'must hold host names, without ports'))).prefault(''),
    'host names for the gateway, separated by spaces or commas, beside IP addresses and its Service in the cluster',
  ),
  // Read again when they change.
  tlsCertFile: setting(
    'LEVELHOOK_TLS_CERT_FILE',
    z.string().optional(),
    'PEM file of a certificate chain: serve https',
    'none: plain http',
  ),
  tlsKeyFile: setting('LEVELHOOK_TLS_KEY_FILE', z.string().optional(), 'PEM file of its key'),
  webhookListen: setting(
    'LEVELHOOK_WEBHOOK_LISTEN',
    z
      .string()
      .transform(listenOf)
      .refine((listen) => listen !== undefined, 'must be host:port, such as 0.0.0.0:9443')
      .optional(),
    'where apiservers post the reviews of webhooks by https: `host:port`, see [webhooks](../../src/gateway/webhooks/README.md)',
    'nowhere',
  ),
  // Read again when they change.
  webhookTlsCertFile: setting(
    'LEVELHOOK_WEBHOOK_TLS_CERT_FILE',
    z.string().optional(),
    'PEM file of the certificate chain there',
  ),
  webhookTlsKeyFile: setting('LEVELHOOK_WEBHOOK_TLS_KEY_FILE', z.string().optional(), 'PEM file of its key'),
  // One of the two lets the gateway make the certificate itself.
  webhookService: setting(
    'LEVELHOOK_WEBHOOK_SERVICE',
    namespacedName(),
    'Service by which the apiserver reaches the webhooks, `namespace/name`: the gateway makes a certificate for it',
  ),
  webhookUrl: setting(
    'LEVELHOOK_WEBHOOK_URL',
    z
      .url({ protocol: /^https$/, error: 'must be an https:// URL' })
      .refine((url) => URL.canParse(url) && isPlain(new URL(url)), 'must have no user, query or fragment')
      .transform((url) => url.replace(/\/+$/, ''))
      .optional(),
    'the same for an apiserver that reaches them at `https://HOST:PORT`',
  ),
  webhookSecret: setting(
    'LEVELHOOK_WEBHOOK_SECRET',
    namespacedName(),
    'Secret of that certificate and its CA, `namespace/name`',
    "in a cluster `levelhook-webhooks` in the pod's namespace",
  ),
  webhookCaMs: setting(
    'LEVELHOOK_WEBHOOK_CA_DAYS',
    days.prefault('365'),
    'days that this CA is valid; a new one comes when two thirds are over',
  ),
  webhookCertificateMs: setting(
    'LEVELHOOK_WEBHOOK_CERTIFICATE_DAYS',
    days.prefault('90'),
    'days that the certificate is valid, at most those of the CA; renewed when two thirds are over',
  ),
  logLevel: setting(
    'LEVELHOOK_LOG_LEVEL',
    z.enum(['debug', 'info', 'warn', 'error', 'silent']).prefault('info'),
    '`debug`, `info`, `warn`, `error` or `silent`; the audit log is always written',
  ),
  logTriggers: setting(
    'LEVELHOOK_LOG_TRIGGERS',
    flag.prefault('false'),
    'log each trigger at `info`, not at `debug`; failures are always warnings',
  ),
  startWindowMs: setting(
    'LEVELHOOK_START_WINDOW_SECONDS',
    seconds(0, 3600).prefault('60'),
    'seconds that a function may take to start, in which its keys wait and nothing has failed; 0: none',
  ),
  drainMs: setting(
    'LEVELHOOK_DRAIN_SECONDS',
    seconds(0, 3600).prefault('20'),
    'seconds that runs in flight may take to end at SIGTERM',
  ),
  // The defaults are those of kube-controller-manager and controller-runtime.
  lease: setting(
    'LEVELHOOK_LEASE',
    z
      .string()
      .transform((text) => (text === 'off' ? text : leaseKeyOf(text)))
      .refine((lease) => lease !== undefined, 'must be off, or namespace/name of a Lease')
      .optional(),
    'Lease by which the gateways of a deployment elect their leader: `namespace/name`; `off`: no election',
    "in a cluster `levelhook` in the pod's namespace, else `off`",
  ),
  leaseMs: setting(
    'LEVELHOOK_LEASE_SECONDS',
    z.coerce
      .number('must be a whole number of seconds')
      .int()
      .min(1)
      .max(3600)
      .transform((value) => value * 1000)
      .prefault('15'),
    'whole seconds after which another gateway takes a Lease that its holder has not renewed',
  ),
  renewMs: setting(
    'LEVELHOOK_LEASE_RENEW_SECONDS',
    seconds(0.1, 3600).prefault('10'),
    'seconds after which a leader that cannot renew the Lease stops leading; fewer than `LEVELHOOK_LEASE_SECONDS`',
  ),
  retryMs: setting(
    'LEVELHOOK_LEASE_RETRY_SECONDS',
    seconds(0.1, 3600).prefault('2'),
    'seconds between two attempts to renew or take the Lease; 1.2 times it is less than the seconds to renew',
  ),
  // client-go's resync.
  resyncMs: setting(
    'LEVELHOOK_RESYNC_HOURS',
    z.coerce
      .number('must be a number of hours')
      .positive()
      .transform((value) => value * 3_600_000)
      .prefault('10'),
    'hours between two times that all keys are queued again from the cache',
  ),
  historyRuns: setting(
    'LEVELHOOK_HISTORY_RUNS',
    number
      .int()
      .min(0)
      .max(1_000_000)
      .refine((runs) => runs === 0 || runs >= 1000, 'must be 0, or 1000 to 1000000')
      .prefault('10000'),
    'runs of each controller that Redis remembers, 256 bytes each; `0`: failures only, and no plots',
  ),
  cacheFile: setting(
    'LEVELHOOK_CACHE_FILE',
    z.string().optional(),
    'YAML or JSON file that says what of each kind is cached, see below',
    'none: everything',
  ),
  cacheKeys: setting(
    'LEVELHOOK_CACHE_KEYS',
    words.prefault(''),
    'keys that Secrets are encrypted with, see below',
    'none: Secrets are refused',
  ),
  cacheKeysFile: setting('LEVELHOOK_CACHE_KEYS_FILE', z.string().optional(), 'file that holds these keys instead'),
  cacheCompressAbove: setting(
    'LEVELHOOK_CACHE_COMPRESS_ABOVE',
    z
      .union([z.literal('off').transform(() => Infinity), number.int().min(0)], 'must be a number of bytes, or off')
      .prefault(String(COMPRESS_ABOVE)),
    'bytes above which an object is compressed in Redis; `off`: never',
  ),
  redisUsers: setting(
    'LEVELHOOK_REDIS_USERS',
    flag.prefault('false'),
    'make a read-only Redis user for each controller, see below',
  ),
  // Triggers to functions at https or loopback URLs contain it, with a token.
  cacheUrl: setting(
    'LEVELHOOK_CACHE_URL',
    z
      .url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
      .refine((url) => URL.canParse(url) && isSecureUrl(url), 'must be https, or on loopback: tokens are sent there')
      .transform((url) => url.replace(/\/+$/, ''))
      .optional(),
    'where functions reach the cache API and send callbacks: `https://…/cache`',
    'own address on loopback',
  ),
  apiserverUrl: setting(
    'LEVELHOOK_APISERVER_URL',
    z
      .url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
      .refine((url) => URL.canParse(url) && isSecureUrl(url), 'must be https, or on loopback: tokens are sent there')
      .transform((url) => url.replace(/\/+$/, ''))
      .optional(),
    'where functions with `credentials: token` reach the apiserver',
    "the server of the gateway's kubeconfig",
  ),
  cacheTokenMs: setting(
    'LEVELHOOK_CACHE_TOKEN_SECONDS',
    seconds(10, 86_400).prefault('600'),
    "seconds that a function's token for the cache API is valid beyond the time of a run",
  ),
  cacheRequestsPerSecond: setting(
    'LEVELHOOK_CACHE_REQUESTS_PER_SECOND',
    number.min(1).prefault('1000'),
    'requests a second of a controller to the cache API of a gateway process; twice as many at once',
  ),
  cacheListLimit: setting(
    'LEVELHOOK_CACHE_LIST_LIMIT',
    z.coerce.number('must be a number of objects').int().min(1).prefault('50000'),
    'objects in one answer of the cache API, when a client asks for no fewer',
  ),
  // Each controller has the limits of controller-runtime's client for a whole operator; all together have those of ten
  // operators. An apiserver serves 400 reads and 200 writes at a time by default, to all clients together.
  kubeApiQps: setting(
    'LEVELHOOK_KUBE_API_QPS',
    number.positive().prefault('200'),
    'requests a second to the apiserver, of the gateway with all its controllers',
  ),
  kubeApiBurst: setting(
    'LEVELHOOK_KUBE_API_BURST',
    number.int().min(1).prefault('400'),
    'so many at once after a pause',
  ),
  kubeApiControllerQps: setting(
    'LEVELHOOK_KUBE_API_CONTROLLER_QPS',
    number.positive().prefault('20'),
    'requests a second to the apiserver, on behalf of each controller',
  ),
  kubeApiControllerBurst: setting(
    'LEVELHOOK_KUBE_API_CONTROLLER_BURST',
    number.int().min(1).prefault('30'),
    'so many at once after a pause',
  ),
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

function described(form: z.ZodType): DescribedSetting {
  const description = descriptions.get(form);
  if (!description) throw new TypeError('a setting without a description');
  return description;
}

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
  ...settings
}: z.output<typeof schema>) {
  const { allowedHosts, cacheUrl, redisUrl, redisUsers } = settings;
  if (redisUsers && parseRedisUrl(redisUrl).kind === 'cluster') {
    const why = 'each node of a Redis Cluster has users of its own, so functions need a user in their own URL';
    throw new UserError(`${variableOf('redisUsers')} cannot be true with a Redis Cluster: ${why}.`);
  }
  return {
    ...settings,
    allowedHosts: cacheUrl === undefined ? allowedHosts : [...allowedHosts, new URL(cacheUrl).hostname],
    /** See `apiserver/flow-control`. */
    apiserverLimits: {
      total: { perSecond: kubeApiQps, burst: kubeApiBurst },
      perFlow: { perSecond: kubeApiControllerQps, burst: kubeApiControllerBurst },
    },
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
