import { readFileSync } from 'node:fs';
import { Agent, fetch, type Headers } from 'undici';
import { boundedText, messageOf, UserError } from '../core/index.ts';
import { patiently } from './progress.ts';
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

/** A request to the gateway: a GET, or a POST with a body. */
export interface GatewayQuestion<T> {
  readonly path: string;
  /** A field of every answer to this request. A server whose answer lacks it is not a gateway. */
  readonly field: keyof T & string;
  /** Default: a GET. */
  readonly body?: object;
}

/**
 * Sends a request to the gateway, and returns its answer as JSON.
 * @throws UserError with one sentence: no token, a wrong one, no right, no answer, another status, no gateway.
 */
export async function askGateway<T extends object>(
  address: GatewayAddress,
  { path, field, body }: GatewayQuestion<T>,
): Promise<T> {
  const { headers, bytes } = await send(address, path, body);
  const answer = isJson(headers) ? parsed(bytes) : undefined;
  if (typeof answer !== 'object' || answer === null || !Object.hasOwn(answer, field)) throw notGateway(address);
  return answer as T;
}

/** As `askGateway`, for a file of this content type. */
export async function downloadFromGateway(address: GatewayAddress, path: string, type: string): Promise<Buffer> {
  const { headers, bytes } = await send(address, path);
  // A server may answer every request with JSON, but not with an attachment.
  const isFile = headers.get('content-disposition')?.startsWith('attachment') === true;
  if (!isFile || headers.get('content-type') !== type) throw notGateway(address);
  return bytes;
}

function notGateway({ gateway }: GatewayAddress): UserError {
  return new UserError(`${gateway} is not a gateway of levelhook: name yours by --gateway.`);
}

async function send(
  address: GatewayAddress,
  path: string,
  body?: object,
): Promise<{ readonly headers: Headers; readonly bytes: Buffer }> {
  const { gateway, caFile } = address;
  const token = await tokenOf(address);
  if (token !== undefined && !isSecureUrl(gateway)) {
    throw new UserError(`The token is not sent to ${gateway} by plain http: use https, or kubectl port-forward.`);
  }
  const dispatcher = new Agent(caFile === undefined ? {} : { connect: { ca: textOf(caFile, '--ca-file') } });
  let status: number;
  let headers: Headers;
  let bytes: Buffer;
  try {
    const answered = fetch(new URL(path, gateway), {
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
    const answer = await patiently(answered, gateway);
    status = answer.status;
    headers = answer.headers;
    bytes = Buffer.from(await answer.arrayBuffer());
  } catch (error) {
    const remedy = gateway.startsWith('https:') ? 'or set --gateway or --ca-file' : 'or set --gateway';
    throw new UserError(`No gateway answers at ${gateway} (${messageOf(error)}): start it, ${remedy}.`);
  } finally {
    await dispatcher.close();
  }
  if (status >= 200 && status < 300) return { headers, bytes };
  if (status === 401 && token === undefined) {
    throw new UserError(
      `The gateway at ${gateway} asks for a login: set LEVELHOOK_GATEWAY_TOKEN, --token-file or --kubeconfig.`,
    );
  }
  // A gateway explains this status in JSON.
  if (status === 404 && !isJson(headers)) throw notGateway(address);
  throw new UserError(
    `The gateway at ${gateway} answered ${status}: ${errorIn(headers, bytes) || 'it does not say why'}.`,
  );
}

function isJson(headers: Headers): boolean {
  return headers.get('content-type')?.startsWith('application/json') === true;
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

/** Not the text of a page, which comes from a proxy in front of the gateway. */
function errorIn(headers: Headers, bytes: Buffer): string | undefined {
  if (isJson(headers)) return (parsed(bytes) as { error?: string } | null | undefined)?.error;
  const isText = headers.get('content-type')?.startsWith('text/plain') === true;
  return isText ? boundedText(bytes.toString().trim(), 1024) : undefined;
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
