import { z } from 'zod';
import { parseLabelSelector, UserError } from '../core/index.ts';
import { isSecureUrl } from '../contract/secure-url.ts';
import { COMPRESS_ABOVE } from '../contract/node/codec.ts';

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;

const words = z.string().transform((text) => text.split(/[\s,]+/).filter((word) => word !== ''));
const flag = z.enum(['true', 'false']).transform((text) => text === 'true');
function isSelector(text: string): boolean {
  try {
    parseLabelSelector(text);
    return true;
  } catch {
    return false;
  }
}

const functionUrls = words.pipe(
  z.array(
    z
      .url({ protocol: /^https?$/, error: 'must be http:// or https:// URLs' })
      // URLs are logged and shown; a function is protected by its signature.
      .refine((url) => new URL(url).username === '' && new URL(url).password === '', 'must hold no user or password'),
  ),
);

/** Each setting: its environment variable, its form, its default. */
const schema = z.object({
  /** Where cache and queues live. */
  REDIS_URL: z.string().default('redis://127.0.0.1:6379'),
  /** The first part of every key in Redis: two gateways with different ones do not see each other. */
  LEVELHOOK_KEY_PREFIX: z
    .string()
    .regex(/^[A-Za-z0-9_-]+$/, 'may hold letters, digits, - and _ only')
    .default('levelhook'),
  /** Names the cluster in every key. Default: the UID of its kube-system namespace. */
  LEVELHOOK_CLUSTER_ID: z
    .string()
    .regex(/^[A-Za-z0-9_.-]+$/, 'may hold letters, digits, dots, - and _ only')
    .optional(),
  /** URLs of the functions, separated by spaces or commas. */
  LEVELHOOK_FUNCTIONS: functionUrls.default([]),
  /** What triggers are signed with: one `whsec_...`, or two while one is being rotated. */
  LEVELHOOK_SIGNING_SECRETS: words.default([]),
  /** A PEM file of the certificate authorities of functions at https URLs, instead of those that Node knows. */
  LEVELHOOK_FUNCTION_CA_FILE: z.string().optional(),
  /**
   * Which ReconcileFunctions this gateway runs: `all`, `none`, or those that match a label selector, so that several
   * gateways can share a cluster. One that no longer matches is removed as if it were deleted.
   */
  LEVELHOOK_RECONCILE_FUNCTIONS: z
    .string()
    .refine((text) => isSelector(text), 'must be all, none, or a label selector as kubectl takes it')
    .default('all'),
  /**
   * Origins at which a ReconcileFunction's `endpoint.url` may be, separated by spaces or commas:
   * `https://functions.example.com`, `https://*.example.com`. Default: none, so that they are Services of their own
   * namespace.
   */
  LEVELHOOK_ALLOWED_ENDPOINTS: words
    .pipe(z.array(z.string().regex(/^https?:\/\/[^/]+$/, 'must hold origins, as https://functions.example.com')))
    .default([]),
  /** How often the rights of a ReconcileFunction, its Secret and its Service are looked at again. */
  LEVELHOOK_REVIEW_SECONDS: z.coerce.number('must be a number of seconds').min(1).max(3600).default(60),
  /** ReconcileFunctions of one namespace that run: the oldest ones. Further ones wait, and say so. */
  LEVELHOOK_MAX_FUNCTIONS_PER_NAMESPACE: z.coerce.number('must be a number').int().min(1).default(50),
  /**
   * Bearer tokens that may queue keys at `POST /reconcile`, separated by spaces or commas. Default: every request is
   * refused.
   */
  LEVELHOOK_API_TOKENS: words
    .pipe(z.array(z.string().min(16, 'must hold tokens of at least 16 characters each')))
    .default([]),
  /** Where the gateway's own server listens. The dashboard is served on loopback only. */
  LEVELHOOK_HOST: z.string().default('127.0.0.1'),
  /**
   * Further host names that the gateway answers to, separated by spaces or commas. IP addresses and names of the
   * cluster (`levelhook`, `levelhook.tools.svc`) need not be listed; a gateway on loopback answers to names of loopback
   * alone without it. The host of LEVELHOOK_CACHE_URL is added. Default: none.
   */
  LEVELHOOK_ALLOWED_HOSTS: words
    .pipe(z.array(z.string().regex(/^[A-Za-z0-9.-]+$/, 'must hold host names, without ports')))
    .default([]),
  LEVELHOOK_PORT: z.coerce.number('must be a port number').int().min(0).max(65_535).default(8787),
  LEVELHOOK_LOG_LEVEL: z.enum(LOG_LEVELS).default('info'),
  /** A log line at info for each trigger; otherwise at debug. Failures are always warnings. */
  LEVELHOOK_LOG_TRIGGERS: flag.default(false),
  /** How long runs in flight may take to end at SIGTERM. */
  LEVELHOOK_DRAIN_SECONDS: z.coerce.number('must be a number of seconds').min(0).max(3600).default(20),
  /** How often all keys are queued again from the cache, in hours: client-go's resync. */
  LEVELHOOK_RESYNC_HOURS: z.coerce.number('must be a number of hours').positive().default(10),
  /** A file that says what of each kind is cached (YAML or JSON, see cache/cache-file.ts). Default: everything. */
  LEVELHOOK_CACHE_FILE: z.string().optional(),
  /**
   * What Secrets are encrypted with in Redis, `ID:BASE64` of 32 random bytes each, separated by spaces or commas: the
   * first one writes, all read. Default: none, and controllers that ask for Secrets are refused.
   */
  LEVELHOOK_CACHE_KEYS: words.default([]),
  /** A file that holds the same. */
  LEVELHOOK_CACHE_KEYS_FILE: z.string().optional(),
  /** Objects of more bytes are compressed in Redis; `off`: none are. */
  LEVELHOOK_CACHE_COMPRESS_ABOVE: z
    .union(
      [z.literal('off').transform(() => Infinity), z.coerce.number().int().min(0)],
      'must be a number of bytes, or off',
    )
    .default(COMPRESS_ABOVE),
  /**
   * Where functions reach the cache API and send callbacks, as `https://gateway.example.com/cache`. Default: the
   * gateway's own address, when that is loopback. It is told, with a token, to functions that are called by https or on
   * loopback.
   */
  LEVELHOOK_CACHE_URL: z
    .url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
    .refine((url) => URL.canParse(url) && isSecureUrl(url), 'must be https, or on loopback: tokens are sent there')
    .transform((url) => url.replace(/\/+$/, ''))
    .optional(),
  /** How long a function's token for the cache API is valid beyond the time of a run. */
  LEVELHOOK_CACHE_TOKEN_SECONDS: z.coerce.number('must be a number of seconds').min(10).max(86_400).default(600),
  /** Requests a second that a controller may make to the cache API of each gateway process; twice as many at once. */
  LEVELHOOK_CACHE_REQUESTS_PER_SECOND: z.coerce.number('must be a number').min(1).default(1000),
  /** Objects in one answer of the cache API, when a client asks for no smaller one. */
  LEVELHOOK_CACHE_LIST_LIMIT: z.coerce.number('must be a number of objects').int().min(1).default(50_000),
  /**
   * Make a Redis user for each controller, with which a function that is told Redis' address may read the controller's
   * views and nothing else; its password follows from the signing secret. Default: none are made.
   */
  LEVELHOOK_REDIS_USERS: flag.default(false),
  /**
   * Requests a second to the apiserver, and how many at once after a pause: of the gateway with all its controllers,
   * and of what it asks on behalf of each (what is listed and watched for several of them is the gateway's own). Each
   * controller's are those of controller-runtime's client for a whole operator; all together, those of ten operators.
   * An apiserver serves 400 reads and 200 writes at a time by default, to all clients together.
   */
  LEVELHOOK_KUBE_API_QPS: z.coerce.number('must be a number').positive().default(200),
  LEVELHOOK_KUBE_API_BURST: z.coerce.number('must be a number').int().min(1).default(400),
  LEVELHOOK_KUBE_API_CONTROLLER_QPS: z.coerce.number('must be a number').positive().default(20),
  LEVELHOOK_KUBE_API_CONTROLLER_BURST: z.coerce.number('must be a number').int().min(1).default(30),
  /** Serve https: a certificate chain and its key, in PEM. Read again when they change. */
  LEVELHOOK_TLS_CERT_FILE: z.string().optional(),
  LEVELHOOK_TLS_KEY_FILE: z.string().optional(),
  /** No gateway has dispatched on this cluster lately, whatever Redis says: set by `levelhook start` alone. */
  LEVELHOOK_NOTHING_IN_FLIGHT: flag.default(false),
});

/** See `apiserver/flow-control`. */
interface RateLimit {
  readonly perSecond: number;
  readonly burst: number;
}

/** All settings of a gateway, checked once. */
export interface GatewayConfig {
  readonly redisUrl: string;
  readonly keyPrefix: string;
  readonly clusterId: string | undefined;
  /** Undefined: what client-node finds by itself (KUBECONFIG, ~/.kube/config, in-cluster). */
  readonly kubeconfig: string | undefined;
  readonly functionUrls: readonly string[];
  readonly signingSecrets: readonly string[];
  /** See `EndpointOptions.ca`. */
  readonly functionCaFile: string | undefined;
  /** `all`, `none` or a label selector. */
  readonly reconcileFunctions: string;
  /** See `EndpointRules.allow`. */
  readonly allowedEndpoints: readonly string[];
  readonly reviewMs: number;
  readonly maxFunctionsPerNamespace: number;
  readonly apiTokens: readonly string[];
  readonly host: string;
  /** See `server/host-check`. */
  readonly allowedHosts: readonly string[];
  readonly port: number;
  readonly logLevel: (typeof LOG_LEVELS)[number];
  readonly logTriggers: boolean;
  readonly drainMs: number;
  readonly resyncMs: number;
  /** See `cache/cache-file`. */
  readonly cacheFile: string | undefined;
  /** See `cache/cache-keys`. */
  readonly cacheKeys: readonly string[];
  readonly cacheKeysFile: string | undefined;
  /** In bytes. */
  readonly cacheCompressAbove: number;
  readonly cacheUrl: string | undefined;
  readonly cacheTokenMs: number;
  readonly cacheRequestsPerSecond: number;
  readonly cacheListLimit: number;
  /** See `access/reader-users`. */
  readonly redisUsers: boolean;
  /** See `apiserver/flow-control`. */
  readonly apiserverLimits: { readonly total: RateLimit; readonly perFlow: RateLimit };
  /** Files; undefined: plain http. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | undefined;
  /** See `RecoveryOptions.nothingInFlight`. */
  readonly nothingInFlight: boolean;
}

/**
 * Reads the settings from environment variables.
 * @param overrides what the command line said: the same names, and they win.
 * @throws UserError naming the first wrong variable. Never shows a secret's value.
 */
export function readConfig(
  environment: Readonly<Record<string, string | undefined>>,
  overrides: { kubeconfig?: string; variables?: Readonly<Record<string, string | undefined>> } = {},
): GatewayConfig {
  // An empty variable is an unset one, as everywhere in a shell.
  const given = Object.entries({ ...environment, ...definedOnly(overrides.variables ?? {}) });
  const parsed = schema.safeParse(Object.fromEntries(given.filter(([, value]) => value !== '')));
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new UserError(`${String(issue?.path[0])} is wrong: ${issue?.message}.`);
  }
  const value = parsed.data;
  return Object.freeze({
    redisUrl: value.REDIS_URL,
    keyPrefix: value.LEVELHOOK_KEY_PREFIX,
    clusterId: value.LEVELHOOK_CLUSTER_ID,
    kubeconfig: overrides.kubeconfig,
    functionUrls: value.LEVELHOOK_FUNCTIONS,
    signingSecrets: value.LEVELHOOK_SIGNING_SECRETS,
    functionCaFile: value.LEVELHOOK_FUNCTION_CA_FILE,
    reconcileFunctions: value.LEVELHOOK_RECONCILE_FUNCTIONS,
    allowedEndpoints: value.LEVELHOOK_ALLOWED_ENDPOINTS,
    reviewMs: value.LEVELHOOK_REVIEW_SECONDS * 1000,
    maxFunctionsPerNamespace: value.LEVELHOOK_MAX_FUNCTIONS_PER_NAMESPACE,
    apiTokens: value.LEVELHOOK_API_TOKENS,
    host: value.LEVELHOOK_HOST,
    allowedHosts: [
      ...value.LEVELHOOK_ALLOWED_HOSTS,
      ...(value.LEVELHOOK_CACHE_URL === undefined ? [] : [new URL(value.LEVELHOOK_CACHE_URL).hostname]),
    ],
    port: value.LEVELHOOK_PORT,
    logLevel: value.LEVELHOOK_LOG_LEVEL,
    logTriggers: value.LEVELHOOK_LOG_TRIGGERS,
    drainMs: value.LEVELHOOK_DRAIN_SECONDS * 1000,
    resyncMs: value.LEVELHOOK_RESYNC_HOURS * 3_600_000,
    cacheFile: value.LEVELHOOK_CACHE_FILE,
    cacheKeys: value.LEVELHOOK_CACHE_KEYS,
    cacheKeysFile: value.LEVELHOOK_CACHE_KEYS_FILE,
    cacheCompressAbove: value.LEVELHOOK_CACHE_COMPRESS_ABOVE,
    cacheUrl: value.LEVELHOOK_CACHE_URL,
    cacheTokenMs: value.LEVELHOOK_CACHE_TOKEN_SECONDS * 1000,
    cacheRequestsPerSecond: value.LEVELHOOK_CACHE_REQUESTS_PER_SECOND,
    cacheListLimit: value.LEVELHOOK_CACHE_LIST_LIMIT,
    redisUsers: value.LEVELHOOK_REDIS_USERS,
    apiserverLimits: {
      total: { perSecond: value.LEVELHOOK_KUBE_API_QPS, burst: value.LEVELHOOK_KUBE_API_BURST },
      perFlow: {
        perSecond: value.LEVELHOOK_KUBE_API_CONTROLLER_QPS,
        burst: value.LEVELHOOK_KUBE_API_CONTROLLER_BURST,
      },
    },
    tls: tlsOf(value.LEVELHOOK_TLS_CERT_FILE, value.LEVELHOOK_TLS_KEY_FILE),
    nothingInFlight: value.LEVELHOOK_NOTHING_IN_FLIGHT,
  });
}

function tlsOf(certFile: string | undefined, keyFile: string | undefined): GatewayConfig['tls'] {
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile };
  if (certFile === undefined && keyFile === undefined) return undefined;
  const missing = certFile === undefined ? 'LEVELHOOK_TLS_CERT_FILE' : 'LEVELHOOK_TLS_KEY_FILE';
  throw new UserError(`${missing} is not set: a certificate and its key belong together.`);
}

function definedOnly(record: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(record).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
