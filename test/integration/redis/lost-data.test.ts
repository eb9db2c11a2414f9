import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { gatewayKeys, POSITION, viewKeys } from '../../../src/contract/cache-layout.ts';
import { resource } from '../../../src/core/index.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { LEADER_FIELD, REPLICA_FIELD } from '../../../src/gateway/election/registry-fields.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { CACHE_KEYS } from '../../harness/cache-keys.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { type Observer, type ObserverSpec, openObservers } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { QueueClient } from '../../harness/queue-client.ts';
import { Started } from '../../harness/started.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { reviewServing } from '../../harness/webhook-configurations.ts';

const CLUSTER = 'lost-data';
const secrets = resource('v1', 'Secret');
/** A kind of which no other test has objects: its view covers all namespaces. */
const podTemplates = resource('v1', 'PodTemplate');

/** Controllers that use each part of a gateway which writes to Redis. The cluster declares the last two. */
function specsOf(namespace: string): ObserverSpec[] {
  const where = { namespaces: [namespace] };
  const indexes = ['field:data.to', 'label:team', 'annotation:example.com/note', 'labels'] as const;
  return [
    {
      name: 'maps',
      for: { resource: configMaps, ...where },
      watches: [
        { resource: secrets, map: { by: 'all' }, ...where },
        { resource: podTemplates, map: { by: 'selector', path: 'data.selector' } },
      ],
      indexes: indexes.map((index) => ({ resource: configMaps, index })),
      observes: [{ resource: configMaps, field: 'data.to' }],
      allows: 'names',
      timeoutSeconds: 60,
    },
    { name: 'secrets', for: { resource: secrets, ...where }, queue: { rateLimit: { perSecond: 100, burst: 100 } } },
    { name: 'related', for: { resource: configMaps, ...where }, relatedKinds: 'any', timeoutSeconds: 60 },
    { name: 'declared', for: { resource: configMaps, ...where }, timeoutSeconds: 60 },
    { name: 'paused', for: { resource: podTemplates, ...where }, timeoutSeconds: 60 },
  ];
}

describe('Redis after all of its data was lost', () => {
  const started = new Started();
  const namespace = uniqueName('lost');
  let setting: Setting;
  let server: RedisServer;
  let redis: Redis;
  let observers: Observer[];
  let gatewayUrls: string[];
  let fresh: Contents;

  beforeAll(async () => {
    server = await startRedis({ ignoreEnvironment: true });
    started.add(() => server.stop());
    redis = new Redis(server.url);
    started.add(async () => redis.disconnect());
    const cluster = await started.cluster(inject('kubeconfig'), namespace);
    await installReconcileFunctions(cluster);
    const tenant = await new Tenant(cluster, namespace).create();
    await tenant.allow('reads', [{ apiGroups: [''], resources: ['configmaps', 'podtemplates'] }]);
    for (const name of ['one', 'two']) {
      const metadata = { namespace, name, labels: { team: name }, annotations: { 'example.com/note': name } };
      await cluster.create(configMaps, { metadata, data: { to: name, [name]: 'x' } });
      const value = randomBytes(8).toString('base64');
      await cluster.create(secrets, { metadata: { namespace, name }, data: { value } });
    }
    const from = { kubeconfig: inject('kubeconfig'), redisUrl: server.url };
    setting = { ...createSetting(from), secret: tenant.secret };
    observers = await openObservers(setting, specsOf(namespace));
    for (const observer of observers) started.keep(observer);
    const urls = observers.map(({ url }) => url);
    const [declared = '', paused = ''] = urls.splice(-2);
    const variables = {
      ...settingsFor([namespace], [declared, paused]),
      ...(await reviewServing(started, setting.kubeconfig)).settings,
      LEVELHOOK_CLUSTER_ID: CLUSTER,
      LEVELHOOK_CACHE_KEYS: CACHE_KEYS,
      LEVELHOOK_REDIS_USERS: '*',
      LEVELHOOK_LEASE: `${namespace}/levelhook`,
    };
    gatewayUrls = [];
    while (gatewayUrls.length < 2) {
      gatewayUrls.push(started.keep(await openGateway(setting, urls, variables)).url);
    }
    const of = { apiVersion: 'v1', namespaces: [namespace] };
    await tenant.declare('declared', { endpoint: { url: declared }, for: { ...of, kind: 'ConfigMap' } });
    await tenant.declare('paused', { endpoint: { url: paused }, for: { ...of, kind: 'PodTemplate' }, paused: true });
    await tenant.until('declared', 'Ready', { status: 'True' });
    await tenant.until('paused', 'Ready', { status: 'True', reason: 'Paused' });
    // A view's record has the users that received its last change.
    for (const of of [configMaps, secrets])
      await cluster.patch(of, { namespace, name: 'one' }, { metadata: { labels: { changed: 'yes' } } });
    await untilRested();
    fresh = await settled();
    expect(usersIn(fresh).map((user) => user.split(':').at(-2))).toEqual(['maps', 'related']);
  });

  afterAll(() => started.stop());

  it('holds again what a fresh start writes', async () => {
    const losses = [
      () => redis.flushall(),
      // The users that it keeps in memory are lost with it.
      async () => {
        await server.kill();
        await server.start();
      },
    ];
    const pauses = queueKeys(cluster(), 'secrets').pauses;
    for (const lose of losses) {
      const from = observers.map(({ count }) => count);
      // Redis alone knows that a person has paused a queue: the pause is lost with the rest, and the keys run.
      await new QueueClient(gatewayUrls[0] ?? '', 'secrets').pause();
      expect(await redis.hkeys(pauses)).toEqual(['controller']);
      await lose();
      await eventually(async () => {
        observers.slice(0, -1).forEach((observer, at) => {
          expect(observer.keys(from[at]).length).toBeGreaterThanOrEqual(2);
        });
      }, 60_000);
      await untilRested();
      await eventually(async () => expectSame(await contents(), fresh));
    }
  });

  it('holds again each key alone, whichever it loses', async () => {
    const { registry, views } = gatewayKeys(cluster());
    const fields = Object.keys(fresh[registry] ?? {});
    const [leader, replicas] = [fields.filter((field) => field === LEADER_FIELD), ofReplicas(fields)];
    expect([leader.length, replicas.length]).toEqual([1, 2]);
    const prefixes = await redis.smembers(views);
    const isEncrypted = (prefix: string): boolean => Object.hasOwn(fresh[viewKeys(prefix).view] ?? {}, 'encryptedBy');
    expect(new Set(prefixes.map(isEncrypted))).toEqual(new Set([true, false]));
    const losses = [
      () => redis.del(registry),
      () => redis.del(views),
      () => redis.hdel(registry, ...leader),
      () => redis.hdel(registry, ...replicas),
      () => redis.del(queueKeys(cluster(), 'secrets').queue),
      ...prefixes.map((prefix) => () => redis.del(viewKeys(prefix).view)),
      () => redis.call('ACL', 'DELUSER', ...usersIn(fresh)),
    ];
    for (const lose of losses) {
      expect(await lose()).toBeGreaterThan(0);
      await eventually(async () => expectSame(withoutReceivers(await contents()), withoutReceivers(fresh)));
    }
  });

  const cluster = () => ({ keyPrefix: setting.keyPrefix, clusterId: CLUSTER });

  async function untilRested(): Promise<void> {
    for (const url of gatewayUrls) {
      await untilReady(url);
      await untilIdle(url);
    }
  }

  /** The contents once they have stayed the same for some time. */
  async function settled(): Promise<Contents> {
    let before: Contents = {};
    await eventually(
      async () => {
        const now = await contents();
        const isSame = isDeepStrictEqual(now, before);
        before = now;
        if (!isSame) throw new Error('it changes');
      },
      60_000,
      3000,
    );
    return before;
  }

  const contents = (): Promise<Contents> => contentsOf(redis, namespace);
});

/** What Redis holds, by key, and its users, without what differs at each start. */
type Contents = Readonly<Record<string, unknown>>;

/** Names the keys that only one of them has: the message of a failed comparison is short. */
function expectSame(now: Contents, fresh: Contents): void {
  const missing = Object.keys(fresh).filter((key) => !(key in now));
  const more = Object.keys(now).filter((key) => !(key in fresh));
  expect([...missing.map((key) => `-${key}`), ...more.map((key) => `+${key}`)].join(' ')).toBe('');
  expect(now).toEqual(fresh);
}

/** Keys that come with the time, or with runs that were repeated, and with the gateway that took them. */
const OF_THE_DAY = /:(?:samples|stalled-check|events|id|histor(?:y:[^:]*|ies)|busies:[^:]*|outbox|taken:[^:]*)$/;
/** Strings with a count of runs, and with the time at which a token bucket is full again. */
const OF_RUNS = /:(?:runs|bucket)$/;
/** Fields whose values name a process, a time, a run or a version of the server. */
const OF_A_START =
  /^(?:clock|controller|incarnation|initial|lastList|leader|lostAt|lowReason|position|process|recorded|resyncAt|runId|shownMs|version|writerId|(?:replica|onRecord):.*)$/;
/** A part of a view with an entry for each object. */
const OF_OBJECTS = /\}:(objects|entries|order|index|observed)(?:$|:)/;

/** Views have the objects of all namespaces, but those of this namespace alone stay as they are during the test. */
async function contentsOf(redis: Redis, namespace: string): Promise<Contents> {
  const contents: Record<string, unknown> = {};
  for (const key of (await redis.keys('*')).filter((each) => !OF_THE_DAY.test(each))) {
    const type = await redis.type(key);
    const value = Object.entries(await valuesOf(redis, key, type));
    const [, part] = OF_OBJECTS.exec(key) ?? [];
    const own =
      part === undefined ? value : value.filter(([name]) => name === POSITION || name.startsWith(`${namespace}/`));
    const isEncrypted =
      part === 'objects' && (await redis.hexists(key.replace(/objects$/, 'view'), 'encryptedBy')) === 1;
    const stable = own.map(([name, text]): [string, string] => {
      const differs = type === 'hash' ? OF_A_START.test(name) : type === 'string' && OF_RUNS.test(key);
      if (isEncrypted || name === POSITION || differs) return [name, ''];
      return [name, part === 'observed' ? text.replace(/^[0-9]+ /, '') : text];
    });
    if (value.length === 0 || stable.length > 0) contents[key] = { type, ...Object.fromEntries(stable) };
  }
  for (const rules of (await redis.call('ACL', 'LIST')) as string[]) {
    const [, user = ''] = /^user (\S+)/.exec(rules) ?? [];
    contents[`user ${user}`] = rules.split(' ').toSorted();
  }
  return contents;
}

/**
 * Without the users that received a view's last change: a view that is filled again has had none, and all of its keys
 * are queued.
 */
function withoutReceivers(contents: Contents): Contents {
  const entries = Object.entries(contents).map(([key, value]) => {
    return [key, key.endsWith('}:view') ? { ...(value as object), users: '' } : value] as const;
  });
  return Object.fromEntries(entries);
}

const ofReplicas = (fields: readonly string[]): string[] => fields.filter((field) => field.startsWith(REPLICA_FIELD));

/** The users of functions. */
function usersIn(contents: Contents): string[] {
  return Object.keys(contents).flatMap((key) => /^user (.*:reader:.*)$/.exec(key)?.slice(1) ?? []);
}

/** The fields, elements, or members and scores of a key. Of a stream, which each run lengthens, there are none. */
async function valuesOf(redis: Redis, key: string, type: string): Promise<Readonly<Record<string, string>>> {
  switch (type) {
    case 'hash':
      return redis.hgetall(key);
    case 'set':
      return Object.fromEntries((await redis.smembers(key)).map((member) => [member, '']));
    case 'zset':
      return zsetOf(await redis.zrange(key, '0', '-1', 'WITHSCORES'));
    case 'string':
      return { value: (await redis.get(key)) ?? '' };
    case 'list':
      return Object.fromEntries((await redis.lrange(key, '0', '-1')).entries());
    default:
      return {};
  }
}

function zsetOf(membersAndScores: readonly string[]): Record<string, string> {
  const pairs: Record<string, string> = {};
  for (let at = 0; at + 1 < membersAndScores.length; at += 2) {
    pairs[membersAndScores[at] ?? ''] = membersAndScores[at + 1] ?? '';
  }
  return pairs;
}
