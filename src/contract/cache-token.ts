import { isFormattedKind, isNamespace, ownValue } from '../core/index.ts';

/**
 * The token with which a function reads the cache API: a JSON Web Token (RFC 7519) signed with HMAC-SHA256, on
 * WebCrypto. The gateway makes and checks it; to all others it is opaque. It names what may be read, so that each
 * replica of the gateway can check it without knowing the controller.
 */

/**
 * The kinds that a token allows to read, each in all namespaces or in the named ones. It allows no writes.
 */
export interface CacheScope {
  /** By `apiVersion/Kind`: the namespaces, or `*` for all and for cluster-scoped kinds. */
  readonly [kind: string]: '*' | readonly string[];
}

export interface CacheClaims {
  /** Who reads: the controller's name. Shown in refusals and logs as `levelhook:controller:NAME`. */
  readonly controller: string;
  readonly scope: CacheScope;
  /** Seconds since the epoch. */
  readonly expiresAt: number;
}

/** A key and the name under which tokens refer to it. */
export interface TokenKey {
  readonly id: string;
  readonly key: Awaited<ReturnType<typeof crypto.subtle.importKey>>;
}

/** Why a token was refused, for the log and never for the client. */
export class TokenError extends Error {
  override readonly name = 'TokenError';
}

const AUDIENCE = 'levelhook-cache';
/** No scope comes near this. */
const MAX_LENGTH = 16 * 1024;

/** @param secret 32 random bytes or more. */
export async function importTokenKey(id: string, secret: Uint8Array<ArrayBuffer>): Promise<TokenKey> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  return { id, key: await crypto.subtle.importKey('raw', secret, algorithm, false, ['sign', 'verify']) };
}

/** @param nowMs the signer's clock. */
export async function createCacheToken(key: TokenKey, claims: CacheClaims, nowMs: number): Promise<string> {
  const { controller, scope, expiresAt } = claims;
  return createToken(key, { aud: AUDIENCE, sub: controller, exp: expiresAt, scope }, nowMs);
}

/** A token for one audience. `exp`: seconds since the epoch. */
export async function createToken(
  { id, key }: TokenKey,
  claims: { readonly aud: string; readonly exp: number; readonly [claim: string]: unknown },
  nowMs: number,
): Promise<string> {
  const header = { alg: 'HS256', typ: 'JWT', kid: id };
  const payload = { iat: Math.floor(nowMs / 1000), ...claims };
  const content = `${encodePart(header)}.${encodePart(payload)}`;
  const signature = await crypto.subtle.sign('HMAC', key, encoder.encode(content));
  return `${content}.${toBase64Url(new Uint8Array(signature))}`;
}

/** The id of the key that a token says it was signed with. Nothing of it is to be believed yet. @throws TokenError */
export function tokenKeyId(token: string): string {
  const header = partsOf(token).header;
  // The algorithm is ours, never the token's choice: that is how other implementations were fooled.
  if (header['alg'] !== 'HS256') throw new TokenError('the token has another signature algorithm');
  if (typeof header['kid'] !== 'string') throw new TokenError('the token names no key');
  return header['kid'];
}

/** Returns the grant of a token that was signed with this key and has not expired. @throws TokenError */
export async function verifyCacheToken(key: TokenKey, token: string, nowMs: number): Promise<CacheClaims> {
  const { sub, exp, scope } = await verifyToken(key, token, AUDIENCE, nowMs);
  if (typeof sub !== 'string' || !isScope(scope)) throw new TokenError('the token was made for something else');
  return { controller: sub, scope, expiresAt: exp };
}

/**
 * Returns the claims of a token that was signed with this key, is for this audience and has not expired.
 * @throws TokenError
 */
export async function verifyToken(
  { key }: TokenKey,
  token: string,
  audience: string,
  nowMs: number,
): Promise<Record<string, unknown> & { readonly exp: number }> {
  const { content, signature, payload } = partsOf(token);
  // Compares in constant time.
  if (!(await crypto.subtle.verify('HMAC', key, signature, encoder.encode(content)))) {
    throw new TokenError('the signature of the token does not match');
  }
  const claims = decodePart(payload);
  const { aud, exp } = claims;
  if (aud !== audience || typeof exp !== 'number') throw new TokenError('the token was made for something else');
  if (exp * 1000 <= nowMs) throw new TokenError('the token has expired');
  return { ...claims, exp };
}

/** Whether a scope holds a kind, in a namespace, or in all when there is none. */
export function allows(scope: CacheScope, kind: string, namespace: string | undefined): boolean {
  const allowed = ownValue(scope, kind);
  if (allowed === undefined) return false;
  return allowed === '*' || (namespace !== undefined && allowed.includes(namespace));
}

interface TokenParts {
  readonly content: string;
  readonly header: Record<string, unknown>;
  readonly payload: string;
  readonly signature: Uint8Array<ArrayBuffer>;
}

function partsOf(token: string): TokenParts {
  if (token.length > MAX_LENGTH) throw new TokenError('the token is too long');
  const [header = '', payload = '', signature = '', ...more] = token.split('.');
  if (more.length > 0 || !signature) throw new TokenError('this is not a token of a gateway');
  return {
    content: `${header}.${payload}`,
    header: decodePart(header),
    payload,
    signature: fromBase64Url(signature),
  };
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function encodePart(value: object): string {
  return toBase64Url(encoder.encode(JSON.stringify(value)));
}

function decodePart(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(fromBase64Url(text)));
  } catch (error) {
    throw new TokenError('the token is not readable', { cause: error });
  }
  if (typeof value !== 'object' || value === null) throw new TokenError('the token is not readable');
  return value as Record<string, unknown>;
}

function isScope(value: unknown): value is CacheScope {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(
    ([kind, each]) => isFormattedKind(kind) && (each === '*' || (Array.isArray(each) && each.every(isNamespace))),
  );
}

function toBase64Url(bytes: Uint8Array): string {
  // Part by part: a function takes so many arguments only.
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

function fromBase64Url(text: string): Uint8Array<ArrayBuffer> {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) throw new TokenError('the token is not readable');
  const bytes = Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (each) => each.charCodeAt(0));
  // One text for one token: bits that base64 ignores at its end are not ours to ignore.
  if (toBase64Url(bytes) !== text) throw new TokenError('the token is not readable');
  return bytes;
}
