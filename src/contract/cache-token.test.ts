import { jwtVerify, SignJWT } from 'jose';
import { describe, expect, it } from 'vitest';
import { allows, createCacheToken, importTokenKey, tokenKeyId, verifyCacheToken } from './cache-token.ts';

const secret = crypto.getRandomValues(new Uint8Array(32));
const claims = {
  controller: 'web',
  scope: { 'v1/Pod': '*', 'apps/v1/ReplicaSet': ['a', 'b'] },
  expiresAt: 2000,
} as const;

describe('a cache token', () => {
  it('is a JSON Web Token that another implementation accepts', async () => {
    const token = await createCacheToken(await importTokenKey('k1', secret), claims, 1_000_000);
    const options = { audience: 'levelhook-cache', currentDate: new Date(1_500_000), algorithms: ['HS256'] };
    const { payload, protectedHeader } = await jwtVerify(token, secret, options);
    expect(payload).toEqual({ aud: 'levelhook-cache', sub: 'web', iat: 1000, exp: 2000, scope: claims.scope });
    expect(protectedHeader).toEqual({ alg: 'HS256', typ: 'JWT', kid: 'k1' });
  });

  it('is read when another implementation has made it', async () => {
    const jwt = new SignJWT({ scope: claims.scope }).setProtectedHeader({ alg: 'HS256', kid: 'k1' });
    const token = await jwt.setSubject('web').setAudience('levelhook-cache').setExpirationTime(2000).sign(secret);
    expect(tokenKeyId(token)).toBe('k1');
    expect(await verifyCacheToken(await importTokenKey('k1', secret), token, 1_000_000)).toEqual(claims);
  });

  it('is not read when it was made for something else', async () => {
    const jwt = new SignJWT({ scope: claims.scope }).setProtectedHeader({ alg: 'HS256', kid: 'k1' });
    const token = await jwt.setSubject('web').setAudience('other').setExpirationTime(2000).sign(secret);
    const key = await importTokenKey('k1', secret);
    await expect(verifyCacheToken(key, token, 1_000_000)).rejects.toThrow('made for something else');
  });

  it.each([
    { 'v1/Pod': ['..'] },
    { 'v1/Pod': ['a/b'] },
    { 'v1/Pod': 'all' },
    { Pod: '*' },
    { 'apps/../v1/Pod': '*' },
    { ['__proto__']: '*' },
  ])('is not read when its scope names what is no kind or no namespace: %j', async (scope) => {
    const jwt = new SignJWT({ scope }).setProtectedHeader({ alg: 'HS256', kid: 'k1' });
    const token = await jwt.setSubject('web').setAudience('levelhook-cache').setExpirationTime(2000).sign(secret);
    const key = await importTokenKey('k1', secret);
    await expect(verifyCacheToken(key, token, 1_000_000)).rejects.toThrow('made for something else');
  });

  it('is good until the second in which it expires', async () => {
    const key = await importTokenKey('k1', secret);
    const token = await createCacheToken(key, claims, 0);
    expect(await verifyCacheToken(key, token, 1_999_999)).toEqual(claims);
    await expect(verifyCacheToken(key, token, 2_000_000)).rejects.toThrow('expired');
  });
});

describe('a scope', () => {
  it('holds kinds, each in all namespaces or in those named', () => {
    const { scope } = claims;
    expect(allows(scope, 'v1/Pod', undefined)).toBe(true);
    expect(allows(scope, 'v1/Pod', 'any')).toBe(true);
    expect(allows(scope, 'apps/v1/ReplicaSet', 'a')).toBe(true);
    expect(allows(scope, 'apps/v1/ReplicaSet', 'c')).toBe(false);
    expect(allows(scope, 'apps/v1/ReplicaSet', undefined)).toBe(false);
    expect(allows(scope, 'v1/Secret', 'a')).toBe(false);
    expect(allows(scope, 'constructor', 'a')).toBe(false);
  });
});
