import { createToken, TokenError, type TokenKey, verifyToken } from './cache-token.ts';

/**
 * The token with which the runs of one trigger read live and write through the gateway. Opaque to all but the gateway.
 */
export interface RunsClaims {
  /** The controller's id. */
  readonly controller: string;
  /** Of its queue: run numbers begin anew with another one. */
  readonly incarnation: string;
  /** By the numbers of the runs, their keys. */
  readonly runs: Readonly<Record<string, string>>;
  /** Seconds since the epoch. */
  readonly expiresAt: number;
}

const AUDIENCE = 'levelhook-kubernetes';

/** @param nowMs the signer's clock. */
export function createRunsToken(key: TokenKey, claims: RunsClaims, nowMs: number): Promise<string> {
  const { controller, incarnation, runs, expiresAt } = claims;
  return createToken(key, { aud: AUDIENCE, sub: controller, exp: expiresAt, incarnation, runs }, nowMs);
}

/** Returns the claims of a token that was signed with this key and has not expired. @throws TokenError */
export async function verifyRunsToken(key: TokenKey, token: string, nowMs: number): Promise<RunsClaims> {
  const { sub, exp, incarnation, runs } = await verifyToken(key, token, AUDIENCE, nowMs);
  if (typeof sub !== 'string' || typeof incarnation !== 'string' || typeof runs !== 'object' || runs === null) {
    throw new TokenError('the token was made for something else');
  }
  return { controller: sub, incarnation, runs: runs as RunsClaims['runs'], expiresAt: exp };
}
