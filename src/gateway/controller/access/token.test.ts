import { jwtVerify, SignJWT } from 'jose';
import { describe, expect, it } from 'vitest';
import { createToken, tokenKey, verifyToken } from './token.ts';

const secret = crypto.getRandomValues(new Uint8Array(32));
const key = tokenKey('k1', secret);
const scope = { 'v1/Pod': '*', 'apps/v1/ReplicaSet': ['a', 'b'] } as const;
const claims = { controller: 'web', scope, expiresAt: 2000 };
const keyOf = (id: string) => (id === 'k1' ? key : undefined);
const AUDIENCE = 'levelhook-cache';

/** Signs as another implementation would, with our key. */
const foreign = (more: Record<string, unknown>, audience: string = AUDIENCE): Promise<string> =>
  new SignJWT(more)
    .setProtectedHeader({ alg: 'HS256', kid: 'k1' })
    .setSubject('web')
    .setAudience(audience)
    .setExpirationTime(2000)
    .sign(secret);

describe('a token', () => {
  it('is a JSON Web Token that another implementation accepts', async () => {
    const named = { ...claims, declaration: 'd', runs: { incarnation: 'i', keys: { 7: 'a/b' } } };
    const token = createToken(key, AUDIENCE, named, 1_000_000);
    const options = { audience: AUDIENCE, currentDate: new Date(1_500_000), algorithms: ['HS256'] };
    const { payload, protectedHeader } = await jwtVerify(token, secret, options);
    const { declaration, runs } = named;
    expect(payload).toEqual({ aud: AUDIENCE, sub: 'web', iat: 1000, exp: 2000, scope, declaration, runs });
    expect(protectedHeader).toEqual({ alg: 'HS256', typ: 'JWT', kid: 'k1' });
    expect(verifyToken(keyOf, AUDIENCE, token, 1_500_000)).toEqual(named);
  });

  it('is read when another implementation has made it', async () => {
    const token = await foreign({ scope });
    expect(verifyToken(keyOf, AUDIENCE, token, 1_000_000)).toEqual(claims);
  });

  it('is not read when it was made for something else', async () => {
    const token = await foreign({ scope }, 'levelhook-callback');
    expect(() => verifyToken(keyOf, AUDIENCE, token, 1_000_000)).toThrow('made for something else');
    expect(() => verifyToken((id) => tokenKey(id, new Uint8Array(32)), AUDIENCE, token, 1_000_000)).toThrow(
      'not match',
    );
  });

  it.each([
    { scope: { 'v1/Pod': ['..'] } },
    { scope: { 'v1/Pod': ['a/b'] } },
    { scope: { 'v1/Pod': 'all' } },
    { scope: { Pod: '*' } },
    { scope: { 'apps/../v1/Pod': '*' } },
    { scope: { ['__proto__']: '*' } },
    { declaration: 1 },
    { runs: {} },
    { runs: { incarnation: 'i', keys: { 1: 2 } } },
  ])('is not read when a claim is not what it must be: %j', async (more) => {
    const token = await foreign({ scope, ...more });
    expect(() => verifyToken(keyOf, AUDIENCE, token, 1_000_000)).toThrow('made for something else');
  });

  it('is good until the second in which it expires', () => {
    const token = createToken(key, AUDIENCE, claims, 0);
    expect(verifyToken(keyOf, AUDIENCE, token, 1_999_999)).toEqual(claims);
    expect(() => verifyToken(keyOf, AUDIENCE, token, 2_000_000)).toThrow('expired');
  });
});
