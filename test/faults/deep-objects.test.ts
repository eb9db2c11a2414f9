import { Redis } from 'ioredis';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { controller, type FunctionAppOptions, type Resource } from 'levelhook/function';
import { redisCache } from 'levelhook/function/node';
import { messageOf, resourcePath } from '../../src/core/index.ts';
import { type Credentials, loadCredentials } from '../../src/ground/apiserver/credentials.ts';
import type { RedisServer } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, untilReady } from '../harness/levelhook.ts';
import { LIST_FORMS, startListingPlane } from '../harness/listing-plane.ts';
import { startObserver, type Observer } from '../harness/observer.ts';
import type { TestProcess } from '../harness/process.ts';
import { ServedFunction } from '../harness/served-function.ts';
import { Started } from '../harness/started.ts';
import { defineWebs } from '../harness/webs.ts';

const flat = ['flat-0', 'flat-1', 'flat-2'];
const deep = ['object-5000', 'list-5000', 'object-9000', 'list-9000'];
const namespace = 'deep';
const INDEX = 'field:spec.a.a' as const;

/**
 * `{"a":{"a":...` around a value, or lists in lists: as text, since it is too deep to be written by a function that
 * calls itself.
 */
function nested(form: 'object' | 'list', levels: number): string {
  const [open, close] = form === 'object' ? ['{"a":', '}'] : ['[', ']'];
  return `${open.repeat(levels)}"x"${close.repeat(levels)}`;
}

describe.each(LIST_FORMS)('objects nested thousands of levels deep, listed by %s', (by) => {
  const started = new Started();
  /** What the last run was told of its object, by function and name. */
  const told = new Map<string, string>();
  /** What a list held last, by function. */
  const lists = new Map<string, string[]>();
  let redis: RedisServer;
  let cluster: Cluster;
  let credentials: Credentials;
  let webs: Resource;
  let gateway: { process: TestProcess; url: string };
  let other: Observer;

  beforeAll(async () => {
    const made = await startListingPlane(started, by);
    ({ redis, cluster } = made);
    const { plane } = made;
    credentials = await loadCredentials(plane.kubeconfig);
    started.add(() => credentials.close());
    await cluster.createNamespace(namespace);
    ({ webs } = await defineWebs(started, cluster, 'deep.example.com'));
    for (const name of flat) await createWeb(name, nested('object', 2));
    for (const name of deep) {
      const [form, levels] = name.split('-') as ['object' | 'list', string];
      await createWeb(name, nested(form, Number(levels)));
    }
    const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
    const urls = [
      await serve('by-redis', setting, redisCache(redis.url)),
      // Through the cache API.
      await serve('by-http', setting),
    ];
    other = started.keep(await startObserver(setting, { name: 'other', for: configMaps }));
    gateway = started.keep(await startGateway(setting, [...urls, other.url]));
  });

  afterAll(() => started.stop());

  /** A function that reads its object and the list of all, and keeps what it was told. */
  async function serve(name: string, setting: Setting, cache?: FunctionAppOptions['cache']): Promise<string> {
    const options = {
      name,
      for: webs,
      indexes: [{ resource: webs, index: INDEX }],
      timeoutSeconds: 5,
      concurrency: 10,
    };
    const reading = controller(options).reconcile(async (asked, { cache: reader }) => {
      const key = `${name} ${asked.name}`;
      try {
        told.set(key, (await reader.get(webs, asked)) ? 'found' : 'absent');
        const { items } = await reader.list(webs, { namespace });
        lists.set(
          name,
          items.map(({ metadata }) => metadata.name),
        );
      } catch (error) {
        told.set(key, messageOf(error));
      }
    });
    const fn = await started.open(new ServedFunction(reading, setting, cache));
    return fn.url;
  }

  /** As text, which is what the apiserver accepts; `JSON.stringify` would call itself too often. */
  async function createWeb(name: string, a: string): Promise<void> {
    const { server, dispatcher, headers } = await credentials.access();
    const { statusCode, body } = await request(`${server}${resourcePath(webs, { namespace })}`, {
      dispatcher,
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: `{"apiVersion":"${webs.apiVersion}","kind":"Web","metadata":{"name":"${name}"},"spec":{"a":${a}}}`,
    });
    const text = await body.text();
    expect(statusCode, text.slice(0, 300)).toBe(201);
  }

  async function expectAllIsWell(): Promise<void> {
    await untilReady(gateway.url, 30_000);
    for (const reader of ['by-redis', 'by-http']) {
      for (const name of flat) await eventually(async () => expect(told.get(`${reader} ${name}`)).toBe('found'));
      // Its key is run like any other, and the reader is told why the object is not there.
      for (const name of deep) {
        await eventually(async () => expect(told.get(`${reader} ${name}`)).toMatch(/kept out of the cache/));
      }
      // The list comes after the object.
      await eventually(async () => expect(lists.get(reader)?.toSorted()).toEqual(flat));
    }
    await expectOthersRun();
  }

  async function expectOthersRun(): Promise<void> {
    const name = `other-${Date.now()}`;
    const { metadata } = await cluster.create(configMaps, { metadata: { namespace, name }, data: {} });
    await eventually(async () =>
      expect(other.seen({ key: `${namespace}/${name}` }).at(-1)?.resourceVersion).toBe(metadata.resourceVersion),
    );
  }

  test('are kept out of the cache one by one: readers are told why, and nothing else waits for them', async () => {
    await expectAllIsWell();
  });

  test('and again when Redis has lost everything', async () => {
    told.clear();
    lists.clear();
    const admin = new Redis(redis.url);
    started.add(async () => admin.disconnect());
    await admin.flushall();
    await expectAllIsWell();
    expect(gateway.process.alive).toBe(true);
  });

  test('take no part when they change, and come into the cache when they are flat again', async () => {
    const [name = ''] = deep;
    await cluster.delete(webs, { namespace, name });
    await eventually(async () => expect(told.get(`by-http ${name}`)).toBe('absent'));
    await createWeb(name, nested('object', 2));
    for (const reader of ['by-redis', 'by-http']) {
      await eventually(async () => expect(told.get(`${reader} ${name}`)).toBe('found'));
    }
    await expectOthersRun();
  });
});
