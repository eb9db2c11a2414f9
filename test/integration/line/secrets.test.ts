import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { viewKeys } from '../../../src/contract/cache-layout.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import type { Program } from '../../harness/program.ts';
import { dumpRedis } from '../../harness/redis-dump.ts';
import { secrets, startSecretFunction } from '../../harness/secret-function.ts';
import { Started } from '../../harness/started.ts';
import { storedObjects } from '../../harness/stored-objects.ts';

const newKey = (id: string): string => `${id}:${randomBytes(32).toString('base64')}`;
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

describe('Secrets', () => {
  const started = new Started();
  const namespace = uniqueName('secrets');
  const directory = mkdtempSync(join(tmpdir(), 'levelhook-secrets-'));
  const plain = `hunter-${randomBytes(6).toString('hex')}`;
  const password = Buffer.from(plain).toString('base64');
  let cluster: Cluster;
  let setting: Setting;
  let fn: Awaited<ReturnType<typeof startSecretFunction>>;
  let redis: Redis;
  let gateway: Opened | undefined;
  const outputs: Program[] = [];

  const run = async (variables: Record<string, string>, of = setting): Promise<Opened> => {
    await gateway?.process.kill('SIGTERM');
    gateway = started.keep(await openGateway(of, [fn.url], variables));
    outputs.push(gateway.process);
    return gateway;
  };
  const runReady = async (variables: Record<string, string>): Promise<Opened> => {
    const running = await run(variables);
    await untilReady(running.url);
    return running;
  };
  const create = (name: string) =>
    cluster.create(secrets, {
      metadata: { namespace, name, annotations: { [LAST_APPLIED]: `{"data":{"password":"${password}"}}` } },
      // One that is compressed, too.
      data: { password, large: Buffer.from(`${plain} `.repeat(2000)).toString('base64') },
    });
  const readsOf = (name: string) => fn.reads.filter(({ key }) => key === name);
  /** Under which prefixes Secrets are kept, and the ids of the keys that they are encrypted with. */
  const kept = async (): Promise<{ prefixes: string[]; ids: Set<string> }> => {
    const all = await redis.keys(`*${setting.keyPrefix}:*:v1/Secret:*:objects`);
    const ids = new Set<string>();
    for (const key of all) {
      for (const bytes of Object.values(await storedObjects(redis, key))) {
        ids.add(bytes.toString('latin1', 0, 1) === 'e' ? bytes.toString('latin1', 2, 2 + (bytes[1] ?? 0)) : 'none');
      }
    }
    return { prefixes: all.map((key) => key.slice(0, -':objects'.length)), ids };
  };
  const [first, second, third] = [newKey('first'), newKey('second'), newKey('third')];

  beforeAll(async () => {
    const kubeconfig = inject('kubeconfig');
    cluster = await started.cluster(kubeconfig, namespace);
    setting = createSetting({ kubeconfig, redisUrl: inject('redisUrl') });
    redis = new Redis(setting.redisUrl);
    started.add(async () => redis.disconnect());
    started.add(async () => rmSync(directory, { recursive: true }));
    fn = await startSecretFunction(setting, 'secretive', namespace);
    started.add(() => fn.stop());
  });
  afterAll(() => started.stop());

  it('are refused by a gateway without keys, in a sentence that says what to set', async () => {
    await create('early');
    const { url } = await run({});
    await eventually(async () => {
      const text = await (await fetch(`${url}/readyz`)).text();
      expect(text).toContain(
        'the controller "secretive" asks for v1/Secret, which is cached only encrypted: set LEVELHOOK_CACHE_KEYS',
      );
    });
    expect(await kept()).toEqual({ prefixes: [], ids: new Set() });
    expect(fn.reads).toEqual([]);
  });

  it('are read over HTTP and never from Redis, and nothing in Redis or the log shows their values', async () => {
    const { url } = await runReady({ LEVELHOOK_CACHE_KEYS: first, LEVELHOOK_LOG_LEVEL: 'debug' });
    await create('web');
    await eventually(async () => expect(readsOf('web').at(-1)?.http).toBe(password));
    await eventually(async () => expect(readsOf('early').at(-1)?.http).toBe(password));
    const read = readsOf('web').at(-1);
    expect(read?.redisCache).toBe(password);
    expect(read?.listed).toEqual(['early', 'web']);
    expect(read?.redisReader).toBeInstanceOf(TypeError);
    expect(String(read?.redisReader)).toContain(
      'v1/Secret is encrypted in Redis and cannot be read there: use the HTTP reader',
    );
    expect(read?.location).toMatchObject({ views: {}, encrypted: { 'v1/Secret': '*' } });
    expect(read?.location.views).toEqual({});
    await untilIdle(url);
    expect((await kept()).ids).toEqual(new Set(['first']));

    const dump = await dumpRedis(setting.redisUrl, setting.keyPrefix);
    // It is the dump of where the Secret is.
    expect(dump).toContain(`${namespace}/web`);
    for (const shown of [plain, password, 'last-applied', first.split(':')[1] ?? '']) {
      expect(dump).not.toContain(shown);
      expect(await (await fetch(`${url}/metrics`)).text()).not.toContain(shown);
    }
  });

  it('are written anew under a new key, without a run', async () => {
    const before = await kept();
    const runs = fn.reads.length;
    const { url } = await runReady({ LEVELHOOK_CACHE_KEYS: `${second} ${first}` });
    expect(await kept()).toEqual({ prefixes: before.prefixes, ids: new Set(['second']) });
    await untilIdle(url);
    expect(fn.reads.length).toBe(runs);
    // Without the old one, and from a file.
    const file = join(directory, 'keys');
    await writeFile(file, `${second}\n`);
    await runReady({ LEVELHOOK_CACHE_KEYS_FILE: file });
    await create('after-rotation');
    await eventually(async () => expect(readsOf('after-rotation').at(-1)?.http).toBe(password));
    expect(readsOf('after-rotation').at(-1)?.listed).toEqual(['after-rotation', 'early', 'web']);
  });

  it('are listed anew when their key is lost', async () => {
    const running = await runReady({ LEVELHOOK_CACHE_KEYS: third });
    await eventually(async () => expect((await kept()).ids).toEqual(new Set(['third'])));
    await create('after-loss');
    await eventually(async () => expect(readsOf('after-loss').at(-1)?.http).toBe(password));
    expect(running.process.output).toContain('the view cannot be read: listing it anew');
    expect(running.process.output).toContain('the key \\"second\\" is not known here');
  });

  it('are listed anew when they were altered in Redis', async () => {
    const { prefixes } = await kept();
    const { objects } = viewKeys(prefixes[0] ?? '');
    const bytes = (await redis.hgetBuffer(objects, `${namespace}/web`)) ?? Buffer.alloc(0);
    await redis.hset(objects, `${namespace}/early`, bytes);
    const runs = readsOf('early').length;
    // Some other change makes the function list.
    await create('after-damage');
    await eventually(async () => {
      expect(readsOf('after-damage').at(-1)?.listed).toContain('early');
      expect(readsOf('early').length).toBeGreaterThan(runs);
      expect(readsOf('early').at(-1)?.http).toBe(password);
    });
  });

  it('of which only the metadata is cached are kept without what kubectl noted of their values', async () => {
    const file = join(directory, 'cache.yaml');
    await writeFile(file, 'kinds: { v1/Secret: { metadataOnly: true } }');
    const { prefixes } = await kept();
    const running = await runReady({ LEVELHOOK_CACHE_FILE: file });
    await create('metadata');
    const dump = (): Promise<string> => dumpRedis(setting.redisUrl, setting.keyPrefix);
    await eventually(async () => expect(await dump()).toContain(`"name":"metadata"`));
    await untilIdle(running.url);
    expect(await dump()).not.toContain(password);
    expect(await dump()).not.toContain('last-applied');
    expect(await redis.exists(...prefixes.map((prefix) => viewKeys(prefix).objects))).toBe(0);
  });

  it('are in no output of any gateway of this test, nor are the keys', () => {
    for (const { output } of outputs) {
      for (const shown of [plain, password, first, second, third].map((text) => text.split(':').at(-1) ?? '')) {
        expect(output).not.toContain(shown);
      }
    }
  });
});
