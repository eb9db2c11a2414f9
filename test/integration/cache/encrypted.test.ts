import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { viewKeys, viewPrefix } from '../../../src/contract/cache-layout.ts';
import { ObjectCodec, UnreadableObjectError } from '../../../src/contract/node/codec.ts';
import { type CacheKey, KeyRing } from '../../../src/contract/node/key-ring.ts';
import { ViewReader } from '../../../src/contract/node/view-reader.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { ForeignWriterError } from '../../../src/gateway/informer/cache/view-writer.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { storedObjects } from '../../harness/stored-objects.ts';

const secrets = resource('v1', 'Secret');
const newKey = (id: string): CacheKey => ({ id, bytes: randomBytes(32) });
const [first, second] = [newKey('first'), newKey('second')];
const COUNT = 1500;

const secret = (at: number): KubernetesObject & { data: object } => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { namespace: 'a', name: `s${at}`, uid: `u${at}`, resourceVersion: String(at + 1) },
  data: { password: Buffer.from(`hunter-${at}`).toString('base64') },
});

describe('an encrypted view', () => {
  let redis: Redis;
  let prefix: string;

  beforeAll(async () => {
    redis = await connectRedis(inject('redisUrl'));
  });
  afterAll(() => redis.disconnect());
  beforeEach(() => {
    prefix = viewPrefix({ keyPrefix: uniqueName('test'), clusterId: 'c', resource: secrets, settings: 's' });
  });

  /** The view as a gateway with these keys opens it. */
  async function open(...keys: readonly CacheKey[]): Promise<View> {
    const view = new View(redis, secrets, { prefix }, new ObjectCodec({ prefix, keyRing: new KeyRing(keys) }));
    await view.writer.claim('writer');
    return view;
  }

  async function fill(view: View, count = COUNT): Promise<void> {
    await view.objects.reencrypt();
    const applier = applierOf(view);
    await applier.apply(
      listOf(
        '5000',
        Array.from({ length: count }, (_, at) => secret(at)),
      ),
    );
  }

  const storedIds = async (): Promise<Set<string>> => {
    const stored = Object.values(await storedObjects(redis, viewKeys(prefix).objects));
    return new Set(stored.map((bytes) => bytes.toString('latin1', 2, 2 + (bytes[1] ?? 0))));
  };

  it('is read by the gateway and by no one without its keys', async () => {
    const view = await open(first);
    await fill(view, 3);
    expect(view.objects.encrypted).toBe(true);
    expect(await view.objects.get('a/s1')).toEqual(secret(1));
    expect(await view.objects.get('a/none')).toBeUndefined();
    const { stored } = await view.reader().get('a/s2');
    expect(view.reader().found('a/s2', stored)?.decode()).toEqual(secret(2));
    expect(() => new ViewReader(redis, prefix).found('a/s2', stored)).toThrow('read it through the cache API');
    await expect(new View(redis, secrets, { prefix }).objects.get('a/s2')).rejects.toThrow(UnreadableObjectError);
  });

  it('is written anew under a new first key, after which the old one opens nothing', async () => {
    await fill(await open(first));
    expect(await storedIds()).toEqual(new Set(['first']));
    const before = await (await open(first)).record.state();
    const rotated = await open(second, first);
    await rotated.objects.reencrypt();
    expect(await storedIds()).toEqual(new Set(['second']));
    // What it holds, and what it says of itself, is as it was: nobody has to look again.
    expect(await rotated.record.state()).toEqual(before);
    const alone = await open(second);
    await alone.objects.reencrypt();
    expect(await alone.objects.get('a/s0')).toEqual(secret(0));
    expect(await alone.objects.get(`a/s${COUNT - 1}`)).toEqual(secret(COUNT - 1));
    await expect((await open(first)).objects.get('a/s0')).rejects.toThrow('the key "second" is not known here');
  });

  it('goes on with a rotation that was cut off in the middle', async () => {
    await fill(await open(first));
    const cut = await open(second, first);
    const whole = await open(second, first);
    let parts = 0;
    cut.objects.keys = async function* cutOff() {
      for await (const part of whole.objects.keys()) {
        parts += 1;
        if (parts > 1) throw new Error('cut off');
        yield part;
      }
    };
    await expect(cut.objects.reencrypt()).rejects.toThrow('cut off');
    expect(await storedIds()).toEqual(new Set(['first', 'second']));
    const next = await open(second, first);
    await next.objects.reencrypt();
    expect(await storedIds()).toEqual(new Set(['second']));
    expect(await next.objects.get(`a/s${COUNT - 1}`)).toEqual(secret(COUNT - 1));
  });

  it('is not rotated by a gateway that has been replaced', async () => {
    await fill(await open(first), 3);
    const late = await open(second, first);
    await new View(redis, secrets, { prefix }).writer.claim('another');
    await expect(late.objects.reencrypt()).rejects.toThrow(ForeignWriterError);
    expect(await storedIds()).toEqual(new Set(['first']));
  });

  it('tells its listener when its keys are gone, or are others under the same ids', async () => {
    await fill(await open(first), 3);
    for (const keys of [[second], [newKey('first')]]) {
      const view = await open(...keys);
      const heard: string[] = [];
      view.objects.onUnreadable((error) => heard.push(error.message));
      await expect(view.objects.reencrypt()).rejects.toThrow(UnreadableObjectError);
      expect(heard).toHaveLength(1);
      expect(heard[0]).toMatch(/cannot be decrypted \((the key "first" is not known here|.*another key "first")\)$/);
    }
  });

  it('takes nothing that was put there without a key', async () => {
    const view = await open(first);
    await fill(view, 2);
    const { objects } = viewKeys(prefix);
    const [zero] = await redis.hmgetBuffer(objects, 'a/s0');
    await redis.hset(objects, 'a/s1', zero ?? '');
    await expect(view.objects.get('a/s1')).rejects.toThrow('moved');
    await redis.hset(objects, 'a/s1', JSON.stringify(secret(1)));
    await expect(view.objects.get('a/s1')).rejects.toThrow('is not encrypted');
  });
});
