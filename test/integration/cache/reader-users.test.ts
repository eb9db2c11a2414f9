import { once } from 'node:events';
import { connect } from 'node:net';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type KubernetesObject, type Logger, type ObjectKey, resource, silentLogger } from '../../../src/core/index.ts';
import { readerPassword } from '../../../src/contract/node/reader-user.ts';
import { viewKeys, viewPrefix } from '../../../src/contract/cache-layout.ts';
import { generateSecret, importSecret, type ViewLocation } from '../../../src/contract/index.ts';
import type { ListOptions } from '../../../src/function/index.ts';
import { RedisReader } from '../../../src/function/node/redis-reader.ts';
import { ReaderConnection } from '../../../src/function/node/reader-connection.ts';
import { type Reader, ReaderUsers } from '../../../src/gateway/controller/access/reader-users.ts';
import { type CacheKey, KeyRing } from '../../../src/contract/node/key-ring.ts';
import { connectRedis } from '../../../src/ground/redis/redis.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { eventually } from '../../harness/eventually.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';

const pods = resource('v1', 'Pod');
const configMaps = resource('v1', 'ConfigMap');
const [first, second] = [generateSecret(), generateSecret()];
const KEY = { namespace: 'a', name: 'b' };
// Whoever reaches Redis and is nobody in particular may do nothing: a function's URL is of no use by itself.
const [oldKey, newKey] = [7, 8].map((byte) => ({ id: `key-${byte}`, bytes: new Uint8Array(32).fill(byte) })) as [
  CacheKey,
  CacheKey,
];
/** A controller, as it is declared in most of these tests. */
const readerOf = (controller: string, declaration = 'first'): Reader => ({ controller, declaration });
const GATEWAY = { user: 'gateway', password: 'gateways-own' };

describe('the Redis users of functions', () => {
  let server: RedisServer;
  let admin: Redis;
  let redis: Redis;
  let stop: AbortController;
  let scope: { keyPrefix: string; clusterId: string };
  let warnings: string[];
  const connections: ReaderConnection[] = [];

  /** What an operator writes into Redis' aclfile. */
  async function lockRedis(): Promise<void> {
    await admin.call('ACL', 'SETUSER', 'admin', 'on', 'nopass', '~*', '&*', '+@all');
    await admin.call('AUTH', 'admin', 'any');
    await admin.call('ACL', 'SETUSER', GATEWAY.user, 'on', `>${GATEWAY.password}`, '~*', '&*', '+@all');
    await admin.call('ACL', 'SETUSER', 'default', '-@all', '+@connection', '+info');
  }

  beforeEach(async () => {
    server = await startRedis({ ignoreEnvironment: true });
    admin = new Redis(server.url);
    await lockRedis();
    redis = await connectRedis(server.url.replace('//', `//${GATEWAY.user}:${GATEWAY.password}@`));
    stop = new AbortController();
    scope = { keyPrefix: 'test', clusterId: 'c' };
    warnings = [];
  });
  afterEach(async () => {
    stop.abort();
    for (const connection of connections.splice(0)) connection.close();
    admin.disconnect();
    redis.disconnect();
    await server.stop();
  });

  const logger: Logger = { ...silentLogger, warn: (_, message) => void warnings.push(message) };

  /** As a gateway with these secrets has them. */
  async function usersOf(
    secrets: readonly string[],
    options: {
      of?: Redis;
      mayCome?: (controller: string) => boolean;
      ring?: readonly CacheKey[];
      namespaces?: readonly string[];
    } = {},
  ) {
    const { of = redis, mayCome = () => false, ring = [oldKey], namespaces = [] } = options;
    const keys = await Promise.all(secrets.map(importSecret));
    const location = { redis: of, ...scope };
    const runtime = quietRuntime({ logger });
    const users = new ReaderUsers({ runtime, location, ring: new KeyRing(ring), mayCome, namespaces });
    void users.run(stop.signal);
    return {
      allow: (controller: string, views: readonly ViewLocation[], declaration?: string) =>
        users.allow(readerOf(controller, declaration), views, keys),
      remove: (controller: string, declaration?: string) => users.remove(readerOf(controller, declaration)),
      userOf: (controller: string, declaration?: string) => users.userOf(readerOf(controller, declaration)),
    };
  }

  /** A view with one object in it. */
  async function filled(kind: typeof pods): Promise<View> {
    const prefix = viewPrefix({ ...scope, resource: kind, settings: 's' });
    const view = new View(redis, kind, { prefix });
    await view.writer.claim('writer');
    const metadata = { ...KEY, uid: 'u', resourceVersion: '1' };
    const object: KubernetesObject = { apiVersion: kind.apiVersion, kind: kind.kind, metadata };
    await applierOf(view).apply(listOf('2', [object]));
    return view;
  }

  /** A function's cache, as a trigger that names this user opens it. */
  function cacheOf(view: View, redisUser: string | undefined, secrets: readonly string[] = [first], url = server.url) {
    const connection = new ReaderConnection(url, { secrets });
    connections.push(connection);
    const location = { views: { [`v1/${view.resource.kind}`]: [view.location] } };
    const open = async () => new RedisReader(await connection.as(redisUser, stop), location);
    return {
      get: async (kind: typeof pods, key: ObjectKey) => (await open()).get(kind, key),
      list: async (kind: typeof pods, options: ListOptions) => (await open()).list(kind, options),
    };
  }
  const connected = async (): Promise<string[]> =>
    [...String(await admin.client('LIST')).matchAll(/ user=(\S+)/g)].map(([, user = '']) => user);

  it('read their views with nothing but the signing secret', async () => {
    const view = await filled(pods);
    const users = await usersOf([first]);
    await users.allow('web', [view.location]);
    const user = users.userOf('web');
    expect(user).toMatch(/^test:v1:c:reader:web:[\w-]{22}$/);
    const cache = cacheOf(view, user);
    expect((await cache.get(pods, KEY))?.metadata.uid).toBe('u');
    expect((await cache.list(pods, { namespace: 'a', orphansIn: 'a' })).items).toHaveLength(1);
    expect(await connected()).toContain(user);
    // Without the user's name, which the gateway tells, and with another secret there is nothing to be read.
    await expect(cacheOf(view, undefined).get(pods, KEY)).rejects.toThrow('NOPERM');
    const refused = cacheOf(view, user, [second]).get(pods, KEY);
    await expect(refused).rejects.toThrow(/cannot be read as the user test:v1:c:reader:web:\S+ \(WRONGPASS/);
  });

  it.each([
    { bound: '0', what: 'fill Redis with answers that they do not read' },
    { bound: '10%', what: 'are cut off before, with a bound for clients' },
  ])('$what', async ({ bound }) => {
    const view = await filled(pods);
    const { objects } = viewKeys(view.location.prefix);
    await admin.hset(objects, 'a/large', 'x'.repeat(1024 * 1024));
    const users = await usersOf([first]);
    await users.allow('web', [view.location]);
    await admin.config('SET', 'maxmemory', '64mb');
    await admin.config('SET', 'maxmemory-clients', bound);
    const user = users.userOf('web') ?? '';
    await admin.call('ACL', 'SETUSER', user, '>known');
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.on('error', () => {});
    const evicted = async (): Promise<number> => Number(/^evicted_clients:(\d+)/m.exec(await admin.info('stats'))?.[1]);
    socket.pause();
    socket.write(`AUTH ${user} known\r\n${`HGET ${objects} a/large\r\n`.repeat(200)}`);
    const write = (): Promise<string> =>
      admin.set('{test:v1:c}:of-another', 'x').catch((error: unknown) => String(error));
    try {
      if (bound === '0') {
        await eventually(async () => expect(await write()).toContain('OOM'));
        expect(await evicted()).toBe(0);
      } else {
        await eventually(async () => expect(await evicted()).toBeGreaterThan(0));
        expect(await connected()).not.toContain(user);
        expect(await write()).toBe('OK');
      }
    } finally {
      socket.destroy();
    }
  });

  it('may do nothing else', async () => {
    const [own, other] = [await filled(pods), await filled(configMaps)];
    const users = await usersOf([first]);
    await users.allow('web', [own.location]);
    await expect(cacheOf(other, users.userOf('web')).get(configMaps, KEY)).rejects.toThrow('NOPERM');
    const [mine, theirs] = [viewKeys(own.location.prefix), viewKeys(other.location.prefix)];
    const user = users.userOf('web') ?? '';
    // The same user with a password of the test's own.
    await admin.call('ACL', 'SETUSER', user, '>known');
    const reader = new Redis(server.url, { username: user, password: 'known', enableReadyCheck: false });
    expect(await reader.hget(mine.objects, 'a/b')).toContain('"uid":"u"');
    const refused: [string, ...string[]][] = [
      ['HGET', theirs.objects, 'a/b'],
      ['SINTER', `${mine.indexPrefix}orphan:a`, `${theirs.indexPrefix}orphan:a`],
      ['HGET', mine.outbox, 'a'],
      ['HGET', mine.entries, 'a/b'],
      ['HGET', '{test:v1:c}:gateway', 'a'],
      ['HGET', 'bull:{test:v1:c:web}:meta', 'a'],
      ['HGET', `${own.location.prefix}x:objects`, 'a'],
      ['HSET', mine.objects, 'a/b', '{}'],
      ['SINTERSTORE', `${mine.indexPrefix}x`, `${mine.indexPrefix}orphan:a`],
      ['DEL', mine.objects],
      ['SET', mine.view, 'x'],
      ['XRANGE', mine.outbox, '-', '+'],
      ['KEYS', '*'],
      ['SCAN', '0'],
      ['DUMP', mine.objects],
      ['CONFIG', 'GET', '*'],
      ['ACL', 'LIST'],
      ['EVAL', 'return 1', '0'],
      ['FLUSHALL'],
      ['MONITOR'],
      ['SUBSCRIBE', 'x'],
      ['PUBLISH', 'x', 'y'],
      ['CLIENT', 'LIST'],
      ['INFO'],
    ];
    for (const command of refused) {
      await expect(reader.call(...command), command.join(' ')).rejects.toThrow('NOPERM');
    }
    reader.disconnect();
  });

  it('lose what is no longer theirs, and keep their connections', async () => {
    const [kept, taken] = [await filled(pods), await filled(configMaps)];
    const users = await usersOf([first]);
    await users.allow('web', [kept.location, taken.location]);
    const reader = cacheOf(taken, users.userOf('web'));
    expect(await reader.get(configMaps, KEY)).toBeDefined();
    const before = await admin.client('LIST');
    await users.allow('web', [kept.location]);
    await expect(reader.get(configMaps, KEY)).rejects.toThrow('NOPERM');
    const id = (text: unknown): string | undefined =>
      /id=(\d+)[^\n]* user=test:v1:c:reader:web:/.exec(String(text))?.[1];
    expect(id(await admin.client('LIST'))).toBe(id(before));
  });

  it('end with the declaration: a login of the old function never reads what the new one may', async () => {
    const [old, next] = [await filled(pods), await filled(configMaps)];
    const users = await usersOf([first]);
    await users.allow('web', [old.location], 'old');
    const user = users.userOf('web', 'old') ?? '';
    const password = await readerPassword(await importSecret(first), user);
    const login = new Redis(server.url, {
      username: user,
      password,
      enableReadyCheck: false,
      retryStrategy: () => null,
    });
    login.on('error', () => {});
    expect(await login.hget(viewKeys(old.location.prefix).objects, 'a/b')).toContain('"uid":"u"');
    // The same signing secret.
    await users.allow('web', [next.location], 'new');
    await expect(login.hget(viewKeys(next.location.prefix).objects, 'a/b')).rejects.toThrow('NOPERM');
    const ended = once(login, 'end');
    await users.remove('web', 'old');
    await ended;
    await expect(cacheOf(next, user).get(configMaps, KEY)).rejects.toThrow('WRONGPASS');
    expect(await cacheOf(next, users.userOf('web', 'new')).get(configMaps, KEY)).toBeDefined();
    expect(users.userOf('web', 'old')).toBeUndefined();
  });

  it('survive a rotation of the ring for runs in flight, until the old key is removed', async () => {
    const view = await filled(pods);
    /** A gateway that is started with this ring, and the user in its triggers. */
    const userWith = async (...ring: CacheKey[]): Promise<string | undefined> => {
      stop.abort();
      stop = new AbortController();
      const users = await usersOf([first], { ring });
      await users.allow('web', [view.location]);
      return users.userOf('web');
    };
    const old = await userWith(oldKey);
    expect(await userWith(oldKey, newKey)).toBe(old);
    const rotated = await userWith(newKey, oldKey);
    expect(rotated).not.toBe(old);
    for (const user of [old, rotated]) expect(await cacheOf(view, user).get(pods, KEY)).toBeDefined();
    expect(await userWith(newKey)).toBe(rotated);
    const all = (await admin.call('ACL', 'USERS')) as string[];
    expect(all.filter((user) => user.includes('reader'))).toEqual([rotated]);
  });

  it('are there again when Redis was killed and started empty, and a reader goes on', async () => {
    const users = await usersOf([first]);
    await users.allow('web', [(await filled(pods)).location]);
    const cache = cacheOf(await filled(pods), users.userOf('web'));
    expect(await cache.get(pods, KEY)).toBeDefined();
    await server.kill();
    await server.start();
    await lockRedis();
    await eventually(async () => expect(await admin.call('ACL', 'USERS')).toContain(users.userOf('web')));
    await filled(pods);
    await eventually(async () => expect(await cache.get(pods, KEY)).toBeDefined());
    expect(await connected()).toContain(users.userOf('web'));
  });

  it('are there again after they were removed by hand, and a read waits for that', async () => {
    const view = await filled(pods);
    const users = await usersOf([first]);
    await users.allow('web', [view.location]);
    const user = users.userOf('web') ?? '';
    await admin.call('ACL', 'DELUSER', user);
    const read = cacheOf(view, user).get(pods, KEY);
    // What the gateway does every ten seconds, and here at once.
    setTimeout(() => void users.allow('web', [view.location]), 300);
    expect(await read).toBeDefined();
  });

  it('survive a rotation of the signing secret, on whichever side it begins', async () => {
    const view = await filled(pods);
    const get = (user: string | undefined, secrets: readonly string[]) => cacheOf(view, user, secrets).get(pods, KEY);
    /** A gateway sets the passwords of its secrets every ten seconds: the former one has ended. */
    const restart = (): void => {
      stop.abort();
      stop = new AbortController();
    };
    const old = await usersOf([first]);
    await old.allow('web', [view.location]);
    const user = old.userOf('web');
    expect(await get(user, [second, first])).toBeDefined();
    restart();
    const both = await usersOf([second, first]);
    await both.allow('web', [view.location]);
    expect(both.userOf('web')).toBe(user);
    for (const secrets of [[first], [second], [first, second]]) expect(await get(user, secrets)).toBeDefined();
    restart();
    const rotated = await usersOf([second]);
    await rotated.allow('web', [view.location]);
    expect(await get(user, [first, second])).toBeDefined();
    await expect(get(user, [first])).rejects.toThrow('WRONGPASS');
  });

  it('are taken away at once, and one that Redis was not there for as soon as it is back, whoever else is not known yet', async () => {
    const view = await filled(pods);
    const users = await usersOf([first], { mayCome: () => true });
    for (const controller of ['web', 'shop']) await users.allow(controller, [view.location]);
    const cache = cacheOf(view, users.userOf('web'));
    expect(await cache.get(pods, KEY)).toBeDefined();
    const all = async (): Promise<string[]> => (await admin.call('ACL', 'USERS')) as string[];
    await users.remove('web');
    expect(users.userOf('web')).toBeUndefined();
    expect((await all()).filter((user) => user.includes('reader'))).toEqual([users.userOf('shop')]);
    // The connection breaks, and Redis keeps its users.
    const id = await redis.client('ID');
    const broken = once(redis, 'close');
    await admin.call('CLIENT', 'KILL', 'ID', id);
    await broken;
    await users.remove('shop');
    await eventually(async () => expect((await all()).filter((user) => user.includes('reader'))).toEqual([]));
  });

  it('of controllers that are no more are removed once it is known that they do not come', async () => {
    const view = await filled(pods);
    const before = await usersOf([first]);
    await before.allow('old', [view.location]);
    await before.allow('web', [view.location]);
    // Of a declaration that no gateway knows, and of a build before declarations were part of the name.
    await before.allow('web', [view.location], 'earlier');
    await admin.call('ACL', 'SETUSER', 'test:v1:c:reader:web', 'on');
    stop.abort();
    await admin.call('ACL', 'SETUSER', 'test:v1:other:reader:old', 'on');
    stop = new AbortController();
    const all = async (): Promise<string[]> => (await admin.call('ACL', 'USERS')) as string[];
    const starting = await usersOf([first], { mayCome: () => true });
    await starting.allow('web', [view.location]);
    expect(await all()).toContain(before.userOf('old'));
    const waiting = await usersOf([first], { mayCome: (controller) => controller === 'old' });
    await waiting.allow('web', [view.location]);
    expect((await all()).filter((user) => user.includes('c:reader')).toSorted()).toEqual(
      [before.userOf('old') ?? '', before.userOf('web') ?? ''].toSorted(),
    );
    const started = await usersOf([first]);
    await started.allow('web', [view.location]);
    expect((await all()).toSorted()).toEqual(
      ['admin', 'default', 'gateway', started.userOf('web') ?? '', 'test:v1:other:reader:old'].toSorted(),
    );
  });

  it('are made for configured functions, and of the others for those of the namespaces that are named', async () => {
    const view = await filled(pods);
    const all = async (): Promise<string[]> => ((await admin.call('ACL', 'USERS')) as string[]).filter(isReader);
    const isReader = (user: string): boolean => user.includes(':reader:');
    const everywhere = await usersOf([first], { namespaces: ['*'], mayCome: () => true });
    for (const name of ['web', 'shop.greeting', 'other.greeting', 'shop2.greeting']) {
      await everywhere.allow(name, [view.location]);
    }
    expect(await all()).toHaveLength(4);
    // Users that were made before the operator has changed the setting are taken away.
    const named = await usersOf([first], { namespaces: ['shop', 'more'], mayCome: () => true });
    for (const name of ['web', 'shop.greeting', 'other.greeting', 'shop2.greeting']) {
      await named.allow(name, [view.location]);
    }
    expect(named.userOf('other.greeting')).toBeUndefined();
    expect(named.userOf('shop2.greeting')).toBeUndefined();
    expect((await all()).toSorted()).toEqual(
      [named.userOf('shop.greeting') ?? '', named.userOf('web') ?? ''].toSorted(),
    );
  });

  it('are not made where Redis does not let the gateway: said once, and functions read as their own URL says', async () => {
    const view = await filled(pods);
    await admin.call('ACL', 'SETUSER', 'managed', 'on', '>pw', '~*', '&*', '+@all', '-acl');
    const url = server.url.replace('//', '//managed:pw@');
    const limited = await connectRedis(url);
    const users = await usersOf([first], { of: limited });
    await users.allow('web', [view.location]);
    await users.allow('web', [view.location]);
    expect(users.userOf('web')).toBeUndefined();
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('LEVELHOOK_REDIS_USERS');
    expect(await cacheOf(view, users.userOf('web'), [first], url).get(pods, KEY)).toBeDefined();
    limited.disconnect();
  });

  it('yield to credentials in the URL', async () => {
    const view = await filled(pods);
    const users = await usersOf([first]);
    await users.allow('web', [view.location]);
    const url = server.url.replace('//', `//${GATEWAY.user}:${GATEWAY.password}@`);
    expect(await cacheOf(view, users.userOf('web'), [first], url).get(pods, KEY)).toBeDefined();
    expect(await connected()).not.toContain(users.userOf('web'));
  });
});
