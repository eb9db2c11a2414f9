import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { isFormattedKind, isNamespace } from '../../../core/index.ts';
import type { CacheScope } from '../../../contract/index.ts';

/**
 * A token that the gateway makes and checks, opaque to all others: a JSON Web Token (RFC 7519) signed with HMAC-SHA256.
 * It is bound to the declaration of a controller and the runs of one trigger, and to no address
 * ([ADR 0011](../../../infra/adr/0011-tokens-and-credentials.md)).
 */

/** The purpose of a token. Each purpose has signing keys of its own. */
export type TokenAudience =
  /** Reads the cache API. */
  | 'levelhook-cache'
  /** Reads live and writes through the gateway. */
  | 'levelhook-kubernetes'
  /** Sends an outcome later. */
  | 'levelhook-callback';

/** The runs of one trigger. */
export interface TokenRuns {
  /** The incarnation of the controller's queue: each begins its run numbers anew. */
  readonly incarnation: string;
  /** The key of each run, by the run's number. */
  readonly keys: Readonly<Record<string, string>>;
}

/** The positions of views, by kind and by the only namespace that the view holds; the empty namespace for all. */
export type CachePositions = Readonly<Record<string, Readonly<Record<string, number>>>>;

export interface TokenClaims {
  /** The controller's id; of a token for a person, a name for logs and refusals. */
  readonly controller: string;
  /** See `ControllerSpec.declaration`. Undefined: a person has made it (`levelhook token`). */
  readonly declaration?: string;
  /** The part of the cache that it may read. */
  readonly scope?: CacheScope;
  /** The state of the cache that its runs may have seen: views with lower positions are refused. Default: none. */
  readonly positions?: CachePositions;
  /** Undefined: it is for no run. */
  readonly runs?: TokenRuns;
  /** Seconds since the epoch. */
  readonly expiresAt: number;
}

/** A key and the name under which tokens refer to it. */
export interface TokenKey {
  readonly id: string;
  readonly secret: KeyObject;
}

/** Why a token was refused, for the log and never for the client. */
export class TokenError extends Error {
  override readonly name = 'TokenError';
}

/** More than the largest token has, which names the keys of a batch of 100. */
const MAX_LENGTH = 64 * 1024;

/** @param secret 32 random bytes or more. */
export function tokenKey(id: string, secret: Uint8Array): TokenKey {
  return { id, secret: createSecretKey(secret) };
}

/** @param nowMs the signer's clock. */
export function createToken(key: TokenKey, audience: TokenAudience, claims: TokenClaims, nowMs: number): string {
  const { controller, declaration, scope, positions, runs, expiresAt } = claims;
  const header = { alg: 'HS256', typ: 'JWT', kid: key.id };
  const payload = {
    iat: Math.floor(nowMs / 1000),
    aud: audience,
    sub: controller,
    exp: expiresAt,
    ...(declaration === undefined ? {} : { declaration }),
    ...(scope === undefined ? {} : { scope }),
    ...(positions === undefined ? {} : { positions }),
    ...(runs === undefined ? {} : { runs }),
  };
  const content = `${encodePart(header)}.${encodePart(payload)}`;
  return `${content}.${signatureOf(key, content).toString('base64url')}`;
}

/**
 * Returns the claims of a token that was signed with one of our keys, is for this audience and has not expired.
 * @param keyOf returns the key of an id. The id is not verified, so it may be any text.
 * @throws TokenError
 */
export function verifyToken(
  keyOf: (id: string) => TokenKey | undefined,
  audience: TokenAudience,
  token: string,
  nowMs: number,
): TokenClaims {
  const { content, header, signature, payload } = partsOf(token);
  // The gateway sets the algorithm. A verifier that trusts the token's `alg` accepts forged tokens.
  if (header['alg'] !== 'HS256') throw new TokenError('the token has another signature algorithm');
  const key = typeof header['kid'] === 'string' ? keyOf(header['kid']) : undefined;
  if (!key) throw new TokenError('the token names an unknown key');
  const expected = signatureOf(key, content);
  if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) {
    throw new TokenError('the signature of the token does not match');
  }
  const { aud, sub, exp, declaration, scope, positions, runs } = decodePart(payload);
  if (
    aud !== audience ||
    typeof sub !== 'string' ||
    typeof exp !== 'number' ||
    !(declaration === undefined || typeof declaration === 'string') ||
    !(scope === undefined || isScope(scope)) ||
    !(positions === undefined || isPositions(positions)) ||
    !(runs === undefined || isRuns(runs))
  ) {
    throw new TokenError('the token was made for something else');
  }
  if (exp * 1000 <= nowMs) throw new TokenError('the token has expired');
  return {
    controller: sub,
    ...(declaration === undefined ? {} : { declaration }),
    ...(scope === undefined ? {} : { scope }),
    ...(positions === undefined ? {} : { positions }),
    ...(runs === undefined ? {} : { runs }),
    expiresAt: exp,
  };
}

interface TokenParts {
  readonly content: string;
  readonly header: Record<string, unknown>;
  readonly payload: string;
  readonly signature: Buffer;
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

function signatureOf({ secret }: TokenKey, content: string): Buffer {
  return createHmac('sha256', secret).update(content).digest();
}

function encodePart(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function decodePart(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(fromBase64Url(text).toString());
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

function isPositions(value: unknown): value is CachePositions {
  const isRecord = (each: unknown): each is object => typeof each === 'object' && each !== null;
  return (
    isRecord(value) &&
    Object.values(value).every(
      (kind) => isRecord(kind) && Object.values(kind).every((position) => Number.isSafeInteger(position)),
    )
  );
}

function isRuns(value: unknown): value is TokenRuns {
  if (typeof value !== 'object' || value === null) return false;
  const { incarnation, keys } = value as Partial<Record<keyof TokenRuns, unknown>>;
  if (typeof incarnation !== 'string' || typeof keys !== 'object' || keys === null) return false;
  return Object.values(keys).every((key) => typeof key === 'string');
}

function fromBase64Url(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url');
  // One text for one token: base64 ignores some characters, and a token with such characters is refused.
  if (bytes.toString('base64url') !== text) throw new TokenError('the token is not readable');
  return bytes;
}
