import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resource, systemClock } from '../../src/core/index.ts';
import { viewPrefix } from '../../src/contract/cache-layout.ts';
import type { CacheScope } from '../../src/contract/index.ts';
import { connectRedis, type Redis } from '../../src/ground/redis/redis.ts';
import { View } from '../../src/gateway/informer/cache/view.ts';
import { TokenKeys } from '../../src/gateway/controller/access/token-keys.ts';
import { CacheApiServer } from '../harness/cache-api-server.ts';
import { applierOf, listOf } from '../harness/applier.ts';
import { uniqueName } from '../harness/levelhook.ts';

const pods = resource('v1', 'Pod');
const configMaps = resource('v1', 'ConfigMap');
const nodes = resource('v1', 'Node', { namespaced: false });

let redis: Redis;
let server: CacheApiServer;
let keyPrefix: string;

async function filled(of: typeof pods): Promise<View> {
  const prefix = viewPrefix({ keyPrefix, clusterId: 'c', resource: of, settings: 's' });
  const view = new View(redis, of, { prefix });
  await view.writer.claim('writer');
  const applier = applierOf(view);
  const object = (name: string, kind: string, uid: string, place: { namespace?: string }) => {
    const ownerReferences = [{ apiVersion: 'v1', kind, name: 'owner', uid, controller: true }];
    return {
      apiVersion: 'v1',
      kind: of.kind,
      metadata: { ...place, name, uid: 'u', resourceVersion: '1', ownerReferences },
    };
  };
  const places = of.namespaced ? [{ namespace: 'a' }, { namespace: 'b' }] : [{}];
  const objects = places.map((place) => object('secret-name', 'ReplicationController', 'o', place));
  const ofNode = [
    object('copies-the-uid', 'ReplicationController', 'node', { namespace: 'a' }),
    object('mirror-pod', 'Node', 'node', { namespace: 'b' }),
  ];
  await applier.apply(listOf('2', [...objects, ...(of === pods ? ofNode : [])]));
  return view;
}

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
  keyPrefix = uniqueName('test');
  const views = [await filled(pods), await filled(configMaps), await filled(nodes)];
  server = await CacheApiServer.start({ views: () => views });
});
afterAll(async () => {
  await server.close();
  redis.disconnect();
});

async function ask(path: string, token?: string): Promise<{ status: number; text: string }> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(server.url + path, { headers });
  return { status: answer.status, text: await answer.text() };
}

const PATHS = [
  '/api/v1/pods',
  '/api/v1/namespaces/a/pods/secret-name',
  '/api/v1/namespaces/a/pods/nope',
  '/api/v1',
  '/apis',
  '/version',
  '/nowhere',
];

describe('the owner of a list', () => {
  const listed = (owner: string, scope: CacheScope) =>
    ask(`/api/v1/pods?levelhook-controlledBy=${owner}`, server.token(scope, 'x', 60));

  it('has a namespace where the token reads namespaced kinds alone: others may have copied its UID', async () => {
    const scope: CacheScope = { 'v1/Pod': '*', 'v1/ConfigMap': '*' };
    const { status, text } = await listed('/o', scope);
    expect([status, text]).toEqual([400, expect.stringContaining('ask with NAMESPACE/UID of the owner')]);
    const { items } = JSON.parse((await listed('a/o', scope)).text) as { items: { metadata: object }[] };
    expect(items.map(({ metadata }) => metadata)).toMatchObject([{ namespace: 'a' }]);
  });

  it('without a namespace is of a cluster-scoped kind that the token reads, whatever else the token reads', async () => {
    const scope: CacheScope = { 'v1/Pod': '*', 'v1/ConfigMap': '*', 'v1/Node': '*' };
    for (const [owner, names] of [
      ['o', []],
      ['node', ['mirror-pod']],
    ] as const) {
      for (const limit of ['', '&limit=1']) {
        const { status, text } = await listed(`/${owner}${limit}`, scope);
        const { items } = JSON.parse(text) as { items: { metadata: { name: string } }[] };
        expect([status, items.map(({ metadata }) => metadata.name)], owner + limit).toEqual([200, names]);
      }
    }
  });
});

describe('the cache API refuses a token', () => {
  const scope: CacheScope = { 'v1/Pod': '*' };

  async function refused(token?: string): Promise<void> {
    for (const path of PATHS) {
      const { status, text } = await ask(path, token);
      expect([path, status], token).toEqual([path, 401]);
      expect(JSON.parse(text)).toEqual({
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Failure',
        message: 'Unauthorized',
        reason: 'Unauthorized',
        code: 401,
      });
    }
  }

  it('that is missing', () => refused());

  it('that no gateway has signed', async () => {
    for (const token of ['x', 'a.b.c', '..', 'e30.e30.e30', 'e30.e30.', '%', 'A'.repeat(15_000)]) {
      await refused(token);
    }
  });

  it('that another gateway has signed, even under the id of our key', async () => {
    const cluster = { keyPrefix: 'test', clusterId: 'c' };
    const foreign = new TokenKeys({ ring: undefined, cluster, clock: systemClock });
    await refused(foreign.sign('levelhook-cache', { controller: 'x', scope }, Date.now() + 60_000));
    const [kid = ''] = server.token(scope).split('.');
    const { kid: id } = JSON.parse(Buffer.from(kid, 'base64url').toString()) as { kid: string };
    const claims = { scope };
    const jwt = new SignJWT(claims).setProtectedHeader({ alg: 'HS256', typ: 'JWT', kid: id });
    const forged = jwt.setSubject('x').setAudience('levelhook-cache').setExpirationTime('1h');
    await refused(await forged.sign(new Uint8Array(32)));
  });

  it('of which one character was changed, whichever it is', async () => {
    const token = server.token(scope);
    expect((await ask('/api/v1/pods', token)).status).toBe(200);
    for (let at = 0; at < token.length; at += 1) {
      const character = token[at] === 'A' ? 'B' : 'A';
      const altered = token.slice(0, at) + character + token.slice(at + 1);
      expect([at, (await ask('/api/v1/pods', altered)).status]).toEqual([at, 401]);
    }
    for (const cut of [1, 10, 44]) await refused(token.slice(0, -cut));
    await refused(`${token}A`);
    await refused(`${token}.A`);
  });

  it('of which the scope was widened, or the signature was taken away', async () => {
    const [header = '', payload = '', signature = ''] = server.token({ 'v1/ConfigMap': ['a'] }).split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>;
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    await refused(`${header}.${part({ ...claims, scope: { 'v1/Pod': '*' } })}.${signature}`);
    await refused(`${part({ alg: 'none' })}.${payload}.`);
    const { kid } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { kid: string };
    await refused(`${part({ alg: 'none', kid })}.${payload}.${signature}`);
    await refused(`${part({ alg: 'HS512', kid })}.${payload}.${signature}`);
  });

  it('that has expired', async () => {
    await refused(server.token(scope, 'x', 0));
    await refused(server.token(scope, 'x', -1));
  });

  it('that comes in any other header than Authorization: Bearer', async () => {
    const token = server.token(scope);
    for (const headers of [{ authorization: token }, { authorization: `Basic ${token}` }, { 'x-token': token }]) {
      expect((await fetch(`${server.url}/api/v1/pods`, { headers: headers as Record<string, string> })).status).toBe(
        401,
      );
    }
    expect((await ask(`/api/v1/pods?token=${token}&access_token=${token}`)).status).toBe(401);
  });
});

describe('a token that is good', () => {
  it('reads what it names, and learns nothing of the rest', async () => {
    const token = server.token({ 'v1/Pod': ['a'] });
    expect((await ask('/api/v1/namespaces/a/pods/secret-name', token)).status).toBe(200);
    expect((await ask('/api/v1/namespaces/a/pods/nope', token)).status).toBe(404);
    expect((await ask('/api/v1/namespaces/a/pods', token)).status).toBe(200);
    for (const [there, nowhere] of [
      ['/api/v1/namespaces/b/pods/secret-name', '/api/v1/namespaces/b/pods/no-such-name'],
      ['/api/v1/namespaces/a/configmaps/secret-name', '/api/v1/namespaces/a/configmaps/no-such-name'],
      ['/api/v1/namespaces/b/pods', '/api/v1/namespaces/c/pods'],
      ['/api/v1/configmaps', '/api/v1/secrets'],
    ]) {
      const [first, second] = await Promise.all([ask(there ?? '', token), ask(nowhere ?? '', token)]);
      expect([first.status, second.status]).toEqual([403, 403]);
      const neutral = (text: string): string =>
        text
          .replaceAll(/no-such-name|secret-name/g, 'N')
          .replaceAll(/"(b|c)\\?"/g, 'S')
          .replaceAll(/configmaps|secrets/g, 'K')
          .replaceAll(/namespace \\S/g, '');
      expect(neutral(first.text).replaceAll(/\\"[bc]\\"/g, '')).toBe(
        neutral(second.text).replaceAll(/\\"[bc]\\"/g, ''),
      );
    }
    // All of them is more than this one.
    expect((await ask('/api/v1/pods', token)).status).toBe(403);
    expect((await ask('/api/v1/pods?fieldSelector=metadata.namespace=a', token)).status).toBe(403);
    expect((await ask('/api/v1/namespaces/a/pods/..%2F..%2Fb%2Fpods%2Fsecret-name', token)).status).toBe(403);
    const { resources } = JSON.parse((await ask('/api/v1', token)).text) as { resources: { name: string }[] };
    expect(resources.map(({ name }) => name)).toEqual(['pods']);
  });
});

describe('limits', () => {
  it('answer 429 with a time to wait, reader by reader', async () => {
    let now = 1e12;
    const clock = { ...systemClock, now: () => now };
    const views: View[] = [];
    const limited = await CacheApiServer.start({ views: () => views, clock, requestsPerSecond: 2 });
    try {
      const status = async (controller: string): Promise<number> => {
        const token = limited.token({}, controller, 3600);
        return (await fetch(`${limited.url}/apis`, { headers: { authorization: `Bearer ${token}` } })).status;
      };
      expect([await status('x'), await status('x'), await status('x'), await status('x')]).toEqual([
        200, 200, 200, 200,
      ]);
      const token = limited.token({}, 'x', 3600);
      const answer = await fetch(`${limited.url}/apis`, { headers: { authorization: `Bearer ${token}` } });
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '1']);
      expect(await answer.json()).toMatchObject({
        kind: 'Status',
        reason: 'TooManyRequests',
        details: { retryAfterSeconds: 1 },
      });
      expect(await status('y')).toBe(200);
      now += 1000;
      expect([await status('x'), await status('x'), await status('x')]).toEqual([200, 200, 429]);
    } finally {
      await limited.close();
    }
  });

  it('refuse a list that is too long to be sent whole, and send it in pages', async () => {
    const view = await filled(resource('v1', 'Event'));
    const small = await CacheApiServer.start({ views: () => [view], listLimit: 1 });
    try {
      const headers = { authorization: `Bearer ${small.token({ 'v1/Event': '*' })}` };
      const whole = await fetch(`${small.url}/api/v1/events`, { headers });
      expect(whole.status).toBe(413);
      expect(await whole.json()).toMatchObject({ reason: 'RequestEntityTooLarge' });
      const part = await fetch(`${small.url}/api/v1/events?limit=500`, { headers });
      expect(await part.json()).toMatchObject({
        metadata: { remainingItemCount: 1 },
        items: [{ metadata: { namespace: 'a' } }],
      });
    } finally {
      await small.close();
    }
  });

  it('answer 503 while the cache is being checked, and 429 while it is filled', async () => {
    let available = false;
    const prefix = viewPrefix({ keyPrefix: uniqueName('test'), clusterId: 'c', resource: pods, settings: 's' });
    const empty = new View(redis, pods, { prefix });
    const checked = await CacheApiServer.start({ views: () => [empty], available: () => available });
    try {
      const headers = { authorization: `Bearer ${checked.token({ 'v1/Pod': '*' })}` };
      const status = async (): Promise<number> => (await fetch(`${checked.url}/api/v1/pods`, { headers })).status;
      expect(await status()).toBe(503);
      available = true;
      const answer = await fetch(`${checked.url}/api/v1/pods`, { headers });
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '1']);
    } finally {
      await checked.close();
    }
  });
});
