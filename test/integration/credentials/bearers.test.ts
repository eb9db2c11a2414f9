import type { ServerResponse } from 'node:http';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resource } from '../../../src/core/index.ts';
import {
  CONTRACT_VERSION,
  importSecret,
  LEVELHOOK_HEADER,
  type RequestResult,
  sign,
  type Trigger,
} from '../../../src/contract/index.ts';
import { CACHE_KEYS } from '../../harness/cache-keys.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../../harness/levelhook.ts';
import { ask, type ProxiedTenant, proxiedTenant } from '../../harness/proxied-tenant.ts';
import { RawFunction } from '../../harness/raw-function.ts';
import { positionIn, redisLogin } from '../../harness/redis-login.ts';
import { Started } from '../../harness/started.ts';
import { settingsFor } from '../../harness/tenant.ts';

const accounts = resource('v1', 'ServiceAccount');
const namespace = uniqueName('bearers');
const path = `/api/v1/namespaces/${namespace}/configmaps`;
const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
const spec = {
  credentials: 'proxy',
  timeoutSeconds: 30,
  callbackSeconds: 60,
  concurrency: 10,
  for: { ...kind, namespaces: [namespace], labelSelector: { matchLabels: { for: 'raw' } } },
};
const started = new Started();

let world: ProxiedTenant;
let setting: Setting;
let raw: RawFunction;
let moved: RawFunction;
let own: RawFunction;
let gateways: Listening[];

beforeAll(async () => {
  world = await proxiedTenant(started, namespace);
  await world.account.grantFile('credentials-proxy.yaml');
  started.add(() => world.account.revoke('credentials-proxy.yaml'));
  const verbs = ['get', 'list', 'watch', 'create', 'update', 'delete'];
  await world.account.grant('leases', [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs }]);
  started.add(() => world.account.revoke('leases'));
  setting = createSetting({ kubeconfig: world.kubeconfig, redisUrl: inject('redisUrl') });
  raw = await started.open(new RawFunction({ name: 'raw', for: kind, concurrency: 10, timeoutSeconds: 30 }));
  moved = await started.open(new RawFunction({ name: 'raw', for: kind, concurrency: 10, timeoutSeconds: 30 }));
  own = await started.open(new RawFunction({ name: 'own', for: kind, concurrency: 1, timeoutSeconds: 30 }));
  // A view with other namespaces would be served through the cache API only.
  const cacheFile = join(await started.directory(), 'cache.yaml');
  await writeFile(cacheFile, JSON.stringify({ defaults: { namespaces: [namespace] } }));
  const settings = {
    ...settingsFor([namespace], [raw.url, moved.url, own.url]),
    // Tokens end when their account does, and not with the next review.
    LEVELHOOK_REVIEW_SECONDS: '3600',
    LEVELHOOK_LEASE: `${namespace}/levelhook`,
    LEVELHOOK_CACHE_KEYS: CACHE_KEYS,
    LEVELHOOK_CACHE_FILE: cacheFile,
    LEVELHOOK_REDIS_USERS: '*',
  };
  gateways = [];
  while (gateways.length < 2) gateways.push(started.keep(await startGateway(setting, [], settings)));
  for (const { url } of gateways) await untilReady(url);
  await declare();
  await world.tenant.until('raw', 'Ready', { status: 'True' });
});

afterAll(() => started.stop());

/** Until both gateways know the function. */
async function declare(): Promise<void> {
  await world.tenant.declare('raw', { ...spec, endpoint: { url: raw.url } });
  const labels = { controller: `${namespace}.raw` };
  for (const { url } of gateways) {
    await eventually(async () =>
      expect(await metric(url, 'controller_runtime_max_concurrent_reconciles', labels)).toBe(10),
    );
  }
}

const answerTo = (response: ServerResponse, result: RequestResult): void => {
  const isAccepted = result.status === 'accepted';
  response.writeHead(isAccepted ? 202 : 200, { [LEVELHOOK_HEADER]: CONTRACT_VERSION });
  response.end(JSON.stringify({ version: CONTRACT_VERSION, results: [result] }));
};

/** A run in flight, and what its token gets at one gateway and another. */
class HeldRun {
  readonly trigger: Trigger;
  readonly answer: (result: RequestResult) => void;

  constructor(trigger: Trigger, answer: (result: RequestResult) => void) {
    this.trigger = trigger;
    this.answer = answer;
  }

  /**
   * Reads live, unless the function has its own credentials, and then from the cache, at each gateway. The gateway that
   * sent the trigger comes first. @returns the statuses.
   */
  async reads(name = 'plain'): Promise<number[]> {
    const { kubernetes, cache } = this.trigger;
    const statuses: number[] = [];
    for (const { url = '', token = '' } of [kubernetes, cache].flatMap((each) => each ?? [])) {
      const own = gateways.toSorted((gateway) => (url.startsWith(gateway.url) ? -1 : 1));
      for (const gateway of own) {
        const here = gateway.url + new URL(url).pathname;
        statuses.push((await ask({ kubernetes: { url: here, token } }, `${path}/${name}`)).status);
      }
    }
    return statuses;
  }

  /** The function's connection to Redis, which reads. @throws Redis' own error. */
  async login(): Promise<Redis> {
    const redis = await redisLogin(this.trigger, setting.redisUrl, world.tenant.secret);
    started.add(async () => redis.disconnect());
    expect(await positionIn(redis, this.trigger, 'v1/ConfigMap')).toMatch(/^\d+$/);
    return redis;
  }

  /** The status of a callback, of which something may be wrong. */
  async callback(result: RequestResult, wrong: Record<string, unknown> = {}): Promise<number> {
    const { callback, controller, requests } = this.trigger;
    const [{ name, run } = { name: '', run: 0 }] = requests;
    const body = JSON.stringify({
      version: CONTRACT_VERSION,
      controller,
      token: callback?.token,
      namespace,
      name,
      run,
      result,
      ...wrong,
    });
    const headers = await sign([await importSecret(world.tenant.secret)], { id: 'x', nowMs: Date.now(), body });
    return (await fetch(callback?.url ?? '', { method: 'POST', body, headers: { ...headers } })).status;
  }
}

async function startRun(name: string, label = 'raw'): Promise<HeldRun> {
  const held = new Promise<HeldRun>((resolve) => {
    for (const at of [raw, moved, own]) {
      at.onTrigger = (trigger, response) => {
        if (trigger.requests[0]?.name !== name) return answerTo(response, { status: 'done' });
        resolve(new HeldRun(trigger, (result) => answerTo(response, result)));
      };
    }
  });
  const key = { namespace, name };
  await world.cluster.create(configMaps, { metadata: { ...key, labels: { for: label } } });
  return held;
}

const untilOver = async (): Promise<void> => {
  for (const { url } of gateways) await untilIdle(url);
};
const GOOD = [200, 200, 200, 200];
const OVER = [401, 401, 401, 401];

describe('the tokens of a trigger', () => {
  beforeAll(async () => {
    await world.cluster.create(configMaps, { metadata: { namespace, name: 'plain', labels: { for: 'raw' } } });
  });

  it('are good at each gateway until the outcome of the run is in', async () => {
    const run = await startRun('answered');
    await eventually(async () => expect(await run.reads()).toEqual(GOOD));
    run.answer({ status: 'done' });
    await untilOver();
    expect(await run.reads()).toEqual(OVER);
  });

  it('are good in a run that goes on, until its callback brings the outcome', async () => {
    const run = await startRun('accepted');
    run.answer({ status: 'accepted', withinSeconds: 60 });
    await eventually(async () => expect(await run.callback({ status: 'accepted', withinSeconds: 60 })).toBe(200));
    expect(await run.reads()).toEqual(GOOD);
    expect(await run.callback({ status: 'done' })).toBe(200);
    expect(await run.reads()).toEqual(OVER);
  });

  it('end no run of another key', async () => {
    const [one, other] = [await startRun('one'), await startRun('other')];
    for (const run of [one, other]) {
      run.answer({ status: 'accepted', withinSeconds: 60 });
      await eventually(async () => expect(await run.callback({ status: 'accepted', withinSeconds: 60 })).toBe(200));
    }
    const { callback, cache, kubernetes, requests } = one.trigger;
    const [{ run } = { run: 0 }] = requests;
    for (const token of [callback?.token, cache.token, kubernetes?.token]) {
      expect(await other.callback({ status: 'done' }, { token })).toBe(410);
    }
    // The token is for another run of that key.
    expect(await other.callback({ status: 'done' }, { run })).toBe(410);
    expect(await other.reads()).toEqual(GOOD);
    for (const each of [one, other]) expect(await each.callback({ status: 'done' })).toBe(200);
    await untilOver();
  });
});

describe('a reader of all of Redis', () => {
  it('finds no key that signs a token', async () => {
    const run = await startRun('read');
    const { cache, callback, kubernetes } = run.trigger;
    const reader = await userThatReads();
    const values = [...(await everything(reader)), CACHE_KEYS].flatMap(parts);
    expect(values.length).toBeGreaterThan(100);
    run.answer({ status: 'done' });
    for (const token of [cache.token, kubernetes?.token, callback?.token]) {
      const [header = '', payload = '', signature] = (token ?? '').split('.');
      expect(signature).toBeTruthy();
      const signs = values.filter((value) =>
        (['utf8', 'base64', 'hex'] as const).some(
          (encoding) =>
            createHmac('sha256', Buffer.from(value, encoding)).update(`${header}.${payload}`).digest('base64url') ===
            signature,
        ),
      );
      expect(signs).toEqual([]);
    }
    const [, key = ''] = CACHE_KEYS.split(':');
    expect((await everything(reader)).join('\n')).not.toContain(key);
    await untilOver();
  });

  /** A backup, or an operator's tool. */
  async function userThatReads(): Promise<Redis> {
    const admin = new Redis(setting.redisUrl);
    started.add(async () => admin.disconnect());
    const username = uniqueName('backup');
    await admin.call('ACL', 'SETUSER', username, 'on', '>known', '~*', '+@read');
    started.add(async () => void (await admin.call('ACL', 'DELUSER', username)));
    const url = new URL(setting.redisUrl);
    const reader = new Redis(url.href, { username, password: 'known', enableReadyCheck: false });
    started.add(async () => reader.disconnect());
    return reader;
  }

  /** Each value below the key prefix of this test. */
  async function everything(reader: Redis): Promise<string[]> {
    const texts: string[] = [];
    let cursor = '0';
    do {
      const [next, keys] = await reader.scan(cursor, 'MATCH', `*${setting.keyPrefix}*`, 'COUNT', 1000);
      cursor = next;
      for (const key of keys) texts.push(...(await valuesOf(reader, key)));
    } while (cursor !== '0');
    return texts;
  }

  async function valuesOf(reader: Redis, key: string): Promise<string[]> {
    switch (await reader.type(key)) {
      case 'hash':
        return Object.entries(await reader.hgetall(key)).flat();
      case 'string':
        return [(await reader.get(key)) ?? ''];
      case 'list':
        return reader.lrange(key, 0, -1);
      case 'set':
        return reader.smembers(key);
      case 'zset':
        return reader.zrange(key, '0', '-1');
      case 'stream':
        return (await reader.xrange(key, '-', '+')).flatMap(([, fields]) => fields);
      default:
        return [];
    }
  }

  /** A value, and when it is JSON each text in it. */
  function parts(text: string): string[] {
    const found = [text, ...text.split(/[:\s]/)];
    try {
      JSON.stringify(JSON.parse(text), (_, value: unknown) => {
        if (typeof value === 'string') found.push(value);
        return value;
      });
    } catch {
      // It is none.
    }
    return found;
  }
});

describe('the tokens and the Redis user of a function that is declared otherwise', () => {
  const accepted = async (name: string): Promise<{ run: HeldRun; loginEnded: Promise<unknown> }> => {
    const run = await startRun(name);
    run.answer({ status: 'accepted', withinSeconds: 60 });
    await eventually(async () => expect(await run.callback({ status: 'accepted', withinSeconds: 60 })).toBe(200));
    await eventually(async () => expect(await run.reads()).toEqual(GOOD));
    return { run, loginEnded: once(await run.login(), 'end') };
  };
  /** @param code of a callback: that the run is over, or that there is no controller. */
  const isOver = async ({ run, loginEnded }: Awaited<ReturnType<typeof accepted>>, code = 410): Promise<void> => {
    // Before the run ends by itself.
    await eventually(async () => expect(await run.reads()).toEqual(OVER), 20_000);
    await eventually(async () => expect(await run.callback({ status: 'done' })).toBe(code));
    expect(await run.reads()).toEqual(OVER);
    await loginEnded;
    // A gateway that hears of the change later than the other one may have created the user again until then.
    await eventually(() => expect(run.login()).rejects.toThrow('WRONGPASS'));
  };

  it('end when its endpoint changes, and those of the new endpoint are good', async () => {
    const old = await accepted('endpoint');
    await world.tenant.change('raw', { endpoint: { url: moved.url } });
    await isOver(old);
    const next = await startRun('at-the-new-endpoint');
    await eventually(async () => expect(await next.reads()).toEqual(GOOD));
    await next.login();
    next.answer({ status: 'done' });
    expect(moved.arrivals.map(({ key }) => key)).toContain('at-the-new-endpoint');
  });

  const reader = { namespace, name: 'reader' };

  it('end when its ServiceAccount is another one, also one of the same name', async () => {
    const old = await accepted('account');
    await world.cluster.delete(accounts, reader);
    await world.cluster.create(accounts, { metadata: reader });
    await isOver(old);
    const next = await startRun('with-the-new-account');
    await eventually(async () => expect(await next.reads()).toEqual(GOOD));
    next.answer({ status: 'done' });
  });

  it('end when its ServiceAccount is deleted, and the function goes on with the next one', async () => {
    const old = await accepted('deleted-account');
    await world.cluster.delete(accounts, reader);
    await isOver(old, 404);
    await world.tenant.until('raw', 'Authorized', { status: 'False', reason: 'ServiceAccountNotFound' });
    await world.cluster.create(accounts, { metadata: reader });
    await world.tenant.until('raw', 'Ready', { status: 'True' });
    const next = await startRun('after-the-deleted-account');
    await eventually(async () => expect(await next.reads()).toEqual(GOOD));
    next.answer({ status: 'done' });
  });

  it('are not revived by a new object of the same name', async () => {
    const old = await accepted('object');
    await world.tenant.remove('raw');
    await eventually(async () => expect(await old.run.reads()).toEqual(OVER));
    // Its keys wait until the runs of the old one are over, but it is there.
    await declare();
    await isOver(old);
  });

  it('end with its ServiceAccount when it has credentials of its own, too', async () => {
    const where = { ...spec.for, labelSelector: { matchLabels: { for: 'own' } } };
    const declared = { credentials: 'own', timeoutSeconds: 30, for: where, endpoint: { url: own.url } };
    await world.tenant.declare('own', declared);
    await world.tenant.until('own', 'Ready', { status: 'True' });
    const old = await startRun('own-credentials', 'own');
    await eventually(async () => expect(await old.reads()).toEqual([200, 200]));
    await world.cluster.delete(accounts, reader);
    await world.cluster.create(accounts, { metadata: reader });
    await eventually(async () => expect(await old.reads()).toEqual([401, 401]), 20_000);
    old.answer({ status: 'done' });
    // A run that begins before the review has the old token.
    let runs = 0;
    await eventually(async () => {
      runs += 1;
      const next = await startRun(`own-credentials-${runs}`, 'own');
      const statuses = await next.reads();
      next.answer({ status: 'done' });
      expect(statuses).toEqual([200, 200]);
    });
  });
});
