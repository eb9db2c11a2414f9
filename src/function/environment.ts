import { systemClock, UserError } from '../core/index.ts';
import { isSecureUrl } from '../contract/secure-url.ts';
import type { ApiTransport } from './api-transport.ts';
import type { Controller } from './controller.ts';
import { type ApiFetch, fetchTransport } from './fetch-transport.ts';
import { createFunctionApp, type FunctionApp } from './function-app.ts';
import { checkLogLines } from './run-log.ts';

/** Environment variables by name. On Workers these are the bindings, and only strings are read. */
export type Variables = Readonly<Record<string, unknown>>;

/** Features of a platform with a file system. Workers have neither. */
export interface FilePlatform {
  readonly readFile: (path: string) => Promise<string>;
  /** A `fetch` that trusts this certificate authority, in PEM. */
  readonly fetchTrusting: (ca: string) => ApiFetch;
  /** For certificates of well-known authorities. Default: the platform's `fetch`. */
  readonly fetch?: ApiFetch;
}

/**
 * The app of one controller, configured from its environment. It connects to nothing yet.
 *
 * - `LEVELHOOK_SIGNING_SECRETS`: required, as on Node.
 * - `KUBE_SERVER`: URL of the apiserver. Default: that of the pod's cluster.
 * - `KUBE_TOKEN`, or with files `KUBE_TOKEN_FILE`: the bearer token. Default: the pod's. A file is read again after a
 *   minute.
 * - `LEVELHOOK_UNSIGNED_REVIEWS`: `true` takes reviews from the apiserver without the gateway, as the option of
 *   `createFunctionApp` does. Default `false`.
 * - `LEVELHOOK_LOG_LINES`: the option `logLines` of `createFunctionApp`. Default 20.
 * - `KUBE_CA_FILE`, with files only: the certificate authority of the apiserver. Default: the pod's, and without
 *   `KUBE_SERVER` required; with `KUBE_SERVER` the authorities that the platform trusts.
 *
 * @throws UserError when a variable is missing or wrong.
 */
export function environmentApp(controller: Controller, environment: Variables, files?: FilePlatform): FunctionApp {
  const secrets = signingSecrets(environment);
  const api = environmentTransport(environment, files);
  return createFunctionApp(controller, {
    secrets,
    api,
    unsignedReviews: unsignedReviews(environment),
    ...logLines(environment),
  });
}

/** The value of a variable, without surrounding space. Undefined when it is missing or empty. */
export function variable(environment: Variables, name: string): string | undefined {
  const value = environment[name];
  return (typeof value === 'string' && value.trim()) || undefined;
}

/** The value of a required variable. */
export function requiredVariable(environment: Variables, name: string): string {
  const value = variable(environment, name);
  if (value === undefined) throw new UserError(`the environment variable ${name} is not set`);
  return value;
}

/** The secrets in `LEVELHOOK_SIGNING_SECRETS`: two during a rotation. */
export function signingSecrets(environment: Variables): string[] {
  return requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS')
    .split(/[\s,]+/)
    .filter((word) => word !== '');
}

/** `LEVELHOOK_LOG_LINES` as an option. @throws UserError for text that is no number. */
export function logLines(environment: Variables): { readonly logLines?: number } {
  const text = variable(environment, 'LEVELHOOK_LOG_LINES');
  if (text === undefined) return {};
  if (!/^\d+$/.test(text))
    throw new UserError(`LEVELHOOK_LOG_LINES is ${JSON.stringify(text)}: it must be a whole number`);
  return { logLines: checkLogLines(Number(text)) };
}

/** `LEVELHOOK_UNSIGNED_REVIEWS`: whether reviews come without the gateway. */
export function unsignedReviews(environment: Variables): boolean {
  const text = variable(environment, 'LEVELHOOK_UNSIGNED_REVIEWS') ?? 'false';
  if (text === 'true' || text === 'false') return text === 'true';
  throw new UserError(`LEVELHOOK_UNSIGNED_REVIEWS must be true or false, not "${text}"`);
}

/** `HOST` and `PORT`. Port 0 is any free port. */
export function listenAddress(environment: Variables): { readonly host: string; readonly port: number } {
  const text = variable(environment, 'PORT') ?? '8080';
  const port = Number(text);
  if (!/^[0-9]+$/.test(text) || port > 65_535) {
    throw new UserError(`PORT must be a number from 0 to 65535, not "${text}"`);
  }
  return { host: variable(environment, 'HOST') ?? '127.0.0.1', port };
}

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

function environmentTransport(environment: Variables, files: FilePlatform | undefined): ApiTransport {
  const given = variable(environment, 'KUBE_SERVER');
  const server = (given ?? (files && podServer(environment)))?.replace(/\/+$/, '');
  if (server === undefined) throw new UserError('the environment variable KUBE_SERVER is not set');
  if (!URL.canParse(server) || !isSecureUrl(server)) {
    throw new UserError('KUBE_SERVER must be an https URL: the token is not sent over http');
  }
  const token = tokenOf(environment, files, given === undefined);
  const caFile = variable(environment, 'KUBE_CA_FILE') ?? (given === undefined ? `${ACCOUNT}/ca.crt` : undefined);
  if (caFile === undefined) return fetchTransport({ server, token, ...(files?.fetch ? { fetch: files.fetch } : {}) });
  if (!files) throw new UserError('KUBE_CA_FILE is set, and there are no files here: see the README of the platform');
  let trusting: Promise<ApiFetch> | undefined;
  const open = async (): Promise<ApiFetch> => {
    try {
      return files.fetchTrusting(await files.readFile(caFile));
    } catch (error) {
      // The next request reads the file again.
      trusting = undefined;
      throw error;
    }
  };
  // All waiting requests share one, because each has its own connections.
  return fetchTransport({ server, token, fetch: async (url, init) => (await (trusting ??= open()))(url, init) });
}

function podServer(environment: Variables): string | undefined {
  const host = variable(environment, 'KUBERNETES_SERVICE_HOST');
  const port = variable(environment, 'KUBERNETES_SERVICE_PORT') ?? '443';
  return host && `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** As client-go does with a token file. */
const REREAD_AFTER_MS = 60_000;

function tokenOf(environment: Variables, files: FilePlatform | undefined, inPod: boolean): () => Promise<string> {
  const token = variable(environment, 'KUBE_TOKEN');
  if (token !== undefined) return async () => token;
  const path = variable(environment, 'KUBE_TOKEN_FILE') ?? (inPod ? `${ACCOUNT}/token` : undefined);
  if (!files || path === undefined) throw new UserError('the environment variable KUBE_TOKEN is not set');
  let known: { readonly text: string; readonly readAtMs: number } | undefined;
  return async () => {
    const nowMs = systemClock.now();
    if (!known || nowMs - known.readAtMs > REREAD_AFTER_MS) {
      known = { text: (await files.readFile(path)).trim(), readAtMs: nowMs };
    }
    return known.text;
  };
}
