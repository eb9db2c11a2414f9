import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { importSecret, type KubernetesLocation, RUN_HEADER, type Trigger } from '../../../src/contract/index.ts';
import { readerPassword } from '../../../src/contract/node/reader-user.ts';
import { type Action, WRITTEN } from './actions.ts';
import { textOf } from './bulk.ts';
import type { Delivery } from './hostile-function.ts';
import type { RestrictedUser } from '../../harness/restricted-user.ts';
import type { HostileKinds } from './world.ts';

/** A place where something of the victim was seen. */
export interface Leak {
  readonly where: string;
  /** What stood around it. */
  readonly text: string;
}

export interface SpyOptions {
  /** What must not be seen anywhere. */
  readonly secretTexts: readonly string[];
  readonly namespace: string;
  /** Whose objects it tries to read. */
  readonly victimNamespace: string;
  readonly user: RestrictedUser;
  readonly kinds: HostileKinds;
  readonly redisUrl: string;
  /** Lists all keys: to make the attempts worth more than guesses. */
  readonly admin: Redis;
  /** What the tenant's triggers are signed with. */
  readonly signingSecret: string;
}

/** Of the newest, each is tried. */
const TOKENS = 4;
/** Proxied requests that wait for a run. */
const WAITING = 10;
const ASK_MS = 5000;
/** How long a run goes on for such a request. */
const RUN_MS = 300;

type Proxied = Action & { readonly do: 'proxy' };
/** The Kubernetes API of a trigger, and its run. */
type Granted = KubernetesLocation & { readonly run: number };
/** Paths of the cache for each trigger. */
const PATHS = 3;
/** Keys that one look at Redis tries, at most: the newest that there are are among them sooner or later. */
const KEYS = 400;

/** Reads all that a tenant can see, and more that it tries to, and looks whether something of the victim is in it. */
export class Spy {
  readonly leaks: Leak[] = [];
  /** How much was looked at, by where. */
  readonly looked = new Map<string, number>();
  readonly #options: SpyOptions;
  readonly #tokens = new Map<string, string>();
  readonly #redisUsers = new Set<string>();
  #granted: Granted[] = [];
  #waiting: Proxied[] = [];
  #asked = 0;

  constructor(options: SpyOptions) {
    this.#options = options;
  }

  /**
   * Looks at a trigger, takes from it what to read with, and reads some paths of the cache before it is answered: a
   * token ends with its run.
   */
  async receive({ trigger, text }: Delivery): Promise<void> {
    this.look('trigger', text);
    const { cache, kubernetes, requests } = trigger as Partial<Trigger>;
    if (kubernetes?.recordsWrites) {
      const granted = { ...kubernetes, run: requests?.[0]?.run ?? 0 };
      this.#granted = [...this.#granted, granted].slice(-TOKENS);
      const asked = this.#waiting.shift();
      // Some requests go on after the run, which is answered then.
      if (asked) await Promise.race([this.#proxyWith(granted, asked), sleep(RUN_MS)]);
    }
    if (cache?.token !== undefined && cache.url !== undefined) {
      this.#tokens.delete(cache.token);
      this.#tokens.set(cache.token, cache.url);
      for (const old of [...this.#tokens.keys()].slice(0, -TOKENS)) this.#tokens.delete(old);
    }
    if (cache?.redisUser !== undefined) this.#redisUsers.add(cache.redisUser);
    if (cache?.token === undefined || cache.url === undefined) return;
    const paths = await this.#cachePaths();
    for (let count = 0; count < PATHS; count += 1) {
      this.#asked += 1;
      await this.#askWith(cache.token, cache.url, paths[this.#asked % paths.length] ?? '/api');
    }
  }

  /** Reads everything once. */
  async readAll(): Promise<void> {
    await this.readCluster();
    for (const path of await this.#cachePaths()) await this.ask(path);
    await this.readRedis();
  }

  /** Statuses, Events and all else that the apiserver shows it of its own namespace. */
  async readCluster(): Promise<void> {
    const { kinds, namespace, user } = this.#options;
    for (const what of WRITTEN) {
      const { status, text } = await user.get(kinds[what], { namespace });
      if (status !== 200) throw new Error(`the tenant cannot list its own ${what}: ${text}`);
      this.look(`${what} of its namespace`, text);
    }
  }

  /** Asks the cache API for a path, with each token. The path is sent as it is. */
  async ask(path: string): Promise<void> {
    for (const [token, url] of this.#tokens) await this.#askWith(token, url, path);
  }

  /**
   * Sends a request to the Kubernetes API with each token that was for it, and with the next one while its run goes on.
   */
  async proxy(asked: Proxied): Promise<void> {
    this.#waiting = [...this.#waiting, asked].slice(-WAITING);
    for (const granted of this.#granted) await this.#proxyWith(granted, asked);
  }

  async #proxyWith({ run, token, url }: Granted, asked: Proxied): Promise<void> {
    const { body, contentType, method, path } = asked;
    const headers = { 'content-type': contentType, [RUN_HEADER]: asked.run === 'its own' ? String(run) : asked.run };
    const sent = body === undefined || method === 'GET' || method === 'HEAD' ? {} : { body: textOf(body) };
    await this.#send('Kubernetes API', token, `${url}${path}`, { method, headers, ...sent });
  }

  async #askWith(token: string, url: string, path: string): Promise<void> {
    await this.#send('cache API', token, `${url}${path}`, { headers: {} });
  }

  async #send(
    what: string,
    token: string,
    url: string,
    { headers, ...init }: { headers: Record<string, string>; method?: string; body?: string },
  ): Promise<void> {
    try {
      const answer = await fetch(url, {
        ...init,
        headers: { ...headers, authorization: `Bearer ${token}` },
        signal: AbortSignal.timeout(ASK_MS),
      });
      this.look(answer.ok ? what : `refused by the ${what}`, await answer.text(), url);
    } catch {
      // No such URL, or no answer in time: nothing was seen.
    }
  }

  /** Every reading command on every key, as each of its Redis users. */
  async readRedis(): Promise<void> {
    const { admin, redisUrl, signingSecret } = this.#options;
    const keys = await allKeys(admin);
    const key = await importSecret(signingSecret);
    for (const username of this.#redisUsers) {
      const password = await readerPassword(key, username);
      const redis = new Redis(redisUrl, {
        username,
        password,
        lazyConnect: true,
        enableReadyCheck: false,
        retryStrategy: () => null,
      });
      redis.on('error', () => {});
      try {
        await redis.connect();
        for (const command of COMMANDS) this.look('Redis', await attempt(redis, command));
        for (const each of sample(keys)) {
          const answers = await Promise.all(READS(each).map((command) => attempt(redis, command)));
          for (const answer of answers) this.look('Redis', answer, each);
        }
        await this.#readFields(redis, keys);
      } catch {
        // The user was removed with its controller.
        this.#redisUsers.delete(username);
      } finally {
        redis.disconnect();
      }
    }
  }

  /** The fields of hashes are object keys, which it cannot list but might guess. */
  async #readFields(redis: Redis, keys: readonly string[]): Promise<void> {
    const { admin } = this.#options;
    for (const key of keys) {
      if ((await admin.type(key)) !== 'hash') continue;
      const fields = (await admin.hkeys(key)).slice(0, 200);
      if (fields.length > 0) this.look('Redis', await attempt(redis, ['hmget', key, ...fields]), key);
    }
  }

  async #cachePaths(): Promise<string[]> {
    const { kinds, namespace, victimNamespace } = this.#options;
    const roots = ['', '/', '/api', '/apis', '/api/v1', '/version', '/openapi/v2', '/metrics', '/callbacks'];
    const lists = WRITTEN.flatMap((what) => {
      const { apiVersion, plural } = kinds[what];
      const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
      return [
        `${root}/${plural}`,
        `${root}/namespaces/${namespace}/${plural}`,
        `${root}/namespaces/${victimNamespace}/${plural}`,
        `${root}/${plural}?fieldSelector=metadata.namespace%3D${victimNamespace}`,
        `${root}/namespaces/${namespace}%2F..%2F${victimNamespace}/${plural}`,
      ];
    });
    return [...roots, ...lists, '/api/v1/nodes', '/api/v1/namespaces', '/apis/apps/v1/deployments'];
  }

  /** Looks whether something of the victim is in a text. */
  look(where: string, text: string, detail = ''): void {
    this.looked.set(where, (this.looked.get(where) ?? 0) + 1);
    for (const secret of this.#options.secretTexts) {
      const at = text.indexOf(secret);
      if (at < 0) continue;
      this.leaks.push({ where: `${where} ${detail}`.trim(), text: text.slice(Math.max(0, at - 200), at + 200) });
      return;
    }
  }
}

/** Commands without a key. */
const COMMANDS = [
  ['keys', '*'],
  ['scan', '0', 'count', '1000'],
  ['randomkey'],
  ['acl', 'list'],
  ['client', 'list'],
  ['info'],
];

function READS(key: string): string[][] {
  return [
    ['get', key],
    ['hgetall', key],
    ['hget', key, 'version'],
    ['hkeys', key],
    ['hscan', key, '0', 'count', '1000'],
    ['smembers', key],
    ['sinter', key, key],
    ['zrangebylex', key, '-', '+'],
    ['zrange', key, '0', '-1'],
    ['lrange', key, '0', '-1'],
    ['xrange', key, '-', '+'],
    ['dump', key],
    ['eval', "return redis.call('hgetall', KEYS[1])", '1', key],
  ];
}

async function attempt(redis: Redis, [name = '', ...rest]: readonly string[]): Promise<string> {
  try {
    return JSON.stringify(await redis.call(name, ...rest)) ?? '';
  } catch (error) {
    if (error instanceof Error && error.name === 'ReplyError') return error.message;
    throw error;
  }
}

export async function allKeys(redis: Redis): Promise<string[]> {
  const found: string[] = [];
  for await (const keys of redis.scanStream({ count: 1000 }) as AsyncIterable<string[]>) found.push(...keys);
  return found;
}

/** Others each time. */
function sample(keys: readonly string[]): readonly string[] {
  if (keys.length <= KEYS) return keys;
  const from = Math.floor(Math.random() * keys.length);
  return [...keys, ...keys].slice(from, from + KEYS);
}
