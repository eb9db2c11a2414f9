import { readFileSync } from 'node:fs';
import { Agent, fetch } from 'undici';
import { messageOf, UserError } from '../core/index.ts';
import { isSecureUrl } from '../contract/secure-url.ts';
import { clusterAccess } from '../kubeconfig/cluster-access.ts';

/** A running gateway, and the credentials for it. */
export interface GatewayAddress {
  /** URL of the gateway's own server. */
  readonly gateway: string;
  /** PEM file of the certificate authorities of the gateway at an https URL. Default: Node's. */
  readonly caFile?: string;
  /** File with a token. Default: the variable LEVELHOOK_GATEWAY_TOKEN, else no token, which suffices on loopback. */
  readonly tokenFile?: string;
  /** Kubeconfig whose user's token is used instead. */
  readonly kubeconfig?: string;
}

/**
 * Sends a request to the gateway, and returns its answer as JSON.
 * @param body of a POST. Default: a GET.
 * @throws UserError with one sentence: no token, a wrong one, no right, no answer, another status.
 */
export async function askGateway<T>(address: GatewayAddress, path: string, body?: object): Promise<T> {
  const { type, bytes } = await send(address, path, body);
  if (!isJson(type)) return { error: bytes.toString().trim() } as T;
  try {
    return JSON.parse(bytes.toString()) as T;
  } catch (error) {
    throw new UserError(`No gateway answers at ${address.gateway} (${messageOf(error)}): set --gateway.`);
  }
}

/** As `askGateway`, for a file. */
export async function downloadFromGateway(address: GatewayAddress, path: string): Promise<Buffer> {
  return (await send(address, path)).bytes;
}

async function send(
  address: GatewayAddress,
  path: string,
  body?: object,
): Promise<{ readonly type: string | null; readonly bytes: Buffer }> {
  const { gateway, caFile } = address;
  const token = await tokenOf(address);
  if (token !== undefined && !isSecureUrl(gateway)) {
    throw new UserError(`The token is not sent to ${gateway} by plain http: use https, or kubectl port-forward.`);
  }
  const dispatcher = new Agent(caFile === undefined ? {} : { connect: { ca: textOf(caFile, '--ca-file') } });
  let status: number;
  let type: string | null;
  let bytes: Buffer;
  try {
    const answer = await fetch(new URL(path, gateway), {
      dispatcher,
      // The token must not reach another server.
      redirect: 'error',
      headers: {
        accept: 'application/json',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
    });
    status = answer.status;
    type = answer.headers.get('content-type');
    bytes = Buffer.from(await answer.arrayBuffer());
  } catch (error) {
    const remedy = gateway.startsWith('https:') ? 'or set --gateway or --ca-file' : 'or set --gateway';
    throw new UserError(`No gateway answers at ${gateway} (${messageOf(error)}): start it, ${remedy}.`);
  } finally {
    await dispatcher.close();
  }
  if (status >= 200 && status < 300) return { type, bytes };
  if (status === 401 && token === undefined) {
    throw new UserError(
      `The gateway at ${gateway} asks for a login: set LEVELHOOK_GATEWAY_TOKEN, --token-file or --kubeconfig.`,
    );
  }
  throw new UserError(
    `The gateway at ${gateway} answered ${status}: ${errorIn(type, bytes) || 'it has no such page'}.`,
  );
}

function isJson(type: string | null): boolean {
  return type?.startsWith('application/json') === true;
}

function errorIn(type: string | null, bytes: Buffer): string | undefined {
  const text = bytes.toString().trim();
  if (!isJson(type)) return text;
  try {
    return (JSON.parse(text) as { error?: string }).error;
  } catch {
    return undefined;
  }
}

async function tokenOf({ tokenFile, kubeconfig }: GatewayAddress): Promise<string | undefined> {
  if (kubeconfig !== undefined) return tokenOfUser(kubeconfig);
  if (tokenFile !== undefined) return checked(textOf(tokenFile, '--token-file'), `--token-file ${tokenFile}`);
  const variable = process.env['LEVELHOOK_GATEWAY_TOKEN'];
  return variable ? checked(variable, 'LEVELHOOK_GATEWAY_TOKEN') : undefined;
}

async function tokenOfUser(kubeconfig: string): Promise<string> {
  const { headers } = await (await clusterAccess(kubeconfig)).read();
  if (Object.keys(headers).some((name) => name.startsWith('Impersonate-'))) {
    throw new UserError(
      `The user of ${kubeconfig} impersonates another, which the gateway does not know: name a token.`,
    );
  }
  const token = /^Bearer (.+)$/.exec(String(headers['Authorization'] ?? ''))?.[1];
  if (token === undefined) {
    throw new UserError(
      `The user of ${kubeconfig} has no token, as the gateway needs it: put one into a file for --token-file.`,
    );
  }
  return checked(token, `the token of ${kubeconfig}`);
}

/** A token with characters that no header allows would appear in the error. */
function checked(text: string, where: string): string {
  const token = text.trim();
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new UserError(`${where} is not a token: it must be one word.`);
}

function textOf(file: string, option: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UserError(`${option} ${file} cannot be read (${messageOf(error)}).`);
  }
}
