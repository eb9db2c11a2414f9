import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { describe, expect } from 'vitest';
import { viewKeys } from '../../../src/contract/cache-layout.ts';
import {
  generateSecret,
  importSecret,
  sign,
  type SignatureHeaders,
  type SigningKey,
  type Trigger,
} from '../../../src/contract/index.ts';
import { configMapsOf, type Observer, startObserver } from '../../harness/observer.ts';
import { it } from '../../harness/world.ts';

const MINUTE_MS = 60_000;

describe('a function in a process of its own', () => {
  let namespace: string;
  let view: string;
  let observer: Observer;
  let key: SigningKey;

  it.beforeAll(async ({ world }) => {
    const { setting, started } = world;
    ({ namespace } = world);
    view = `{${setting.keyPrefix}}`;
    key = await importSecret(setting.secret);
    observer = started.keep(await startObserver(setting, configMapsOf(namespace)));
    // A cache that is complete, and empty.
    const redis = new Redis(setting.redisUrl);
    started.add(async () => redis.disconnect());
    await redis.hset(viewKeys(view).view, 'version', '1');
    started.add(() => redis.del(viewKeys(view).view));
  });

  function trigger(name: string): string {
    const body: Trigger = {
      version: 'v1',
      controller: observer.name,
      deadline: new Date(Date.now() + 4000).toISOString(),
      remainingSeconds: 4,
      cache: { views: { 'v1/ConfigMap': [{ prefix: view }] } },
      requests: [{ namespace, name, attempt: 1, run: 1, reasons: [] }],
    };
    return JSON.stringify(body);
  }

  function signed(body: string, by = key, atMs = Date.now()): Promise<SignatureHeaders> {
    return sign([by], { id: randomUUID(), nowMs: atMs, body });
  }

  async function post(body: string, headers: SignatureHeaders | undefined): Promise<number> {
    const response = await fetch(observer.url, { method: 'POST', body, headers: { ...headers } });
    await response.text();
    return response.status;
  }

  const reconciled = (): string[] => observer.seen().map((each) => each.key.replace(`${namespace}/`, ''));

  it('does what a signed trigger says', async () => {
    const body = trigger('signed');
    expect(await post(body, await signed(body))).toBe(200);
    await observer.process.line((line) => line['key'] === `${namespace}/signed`);
  });

  it.each<{ name: string; headers: (body: string) => Promise<SignatureHeaders | undefined> }>([
    { name: 'unsigned', headers: async () => undefined },
    { name: 'signed-by-another', headers: async (body) => signed(body, await importSecret(generateSecret())) },
    { name: 'six-minutes-old', headers: (body) => signed(body, key, Date.now() - 6 * MINUTE_MS) },
    { name: 'six-minutes-early', headers: (body) => signed(body, key, Date.now() + 6 * MINUTE_MS) },
    { name: 'changed', headers: () => signed(trigger('another')) },
    {
      name: 'made-young-again',
      headers: async (body) => ({
        ...(await signed(body, key, Date.now() - 6 * MINUTE_MS)),
        'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
      }),
    },
  ])('refuses a trigger that is $name with 401, and does no work', async ({ name, headers }) => {
    const body = trigger(name);
    expect(await post(body, await headers(body))).toBe(401);
    // Its records come in order: after that of a good one, none of the refused one can be under way.
    const next = trigger(`after-${name}`);
    expect(await post(next, await signed(next))).toBe(200);
    await observer.process.line((line) => line['key'] === `${namespace}/after-${name}`);
    expect(reconciled()).not.toContain(name);
    expect(reconciled()).not.toContain('another');
  });

  it('describes itself to a holder of the secret, and to no one else', async () => {
    const ask = async (headers: object): Promise<number> =>
      (await fetch(observer.url, { headers: { ...headers } as Record<string, string> })).status;
    expect(await ask(await signed(''))).toBe(200);
    expect(await ask({})).toBe(401);
    expect(await ask(await signed('', await importSecret(generateSecret())))).toBe(401);
    expect(await ask(await signed('', key, Date.now() - 6 * MINUTE_MS))).toBe(401);
  });
});
