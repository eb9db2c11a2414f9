import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseObjectKey } from '../../src/core/index.ts';
import type { RedisServer } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, untilReady } from '../harness/levelhook.ts';
import { LIST_FORMS, startListingPlane } from '../harness/listing-plane.ts';
import { startObserver, type Observer } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';

/** Together more than the gateway may have. */
const COUNT = 300;
const LENGTH = 1_000_000;
const HEAP_MIB = 160;
/** In which the apiserver could send them all. */
const FROZEN_MS = 10_000;
const namespace = 'large';
const keys = Array.from({ length: COUNT }, (_, at) => `${namespace}/large-${at}`);

describe.each(LIST_FORMS)('large objects of a first list, which comes by %s', (by) => {
  const started = new Started();
  let redis: RedisServer;
  let cluster: Cluster;
  let setting: Setting;
  let observer: Observer;

  beforeAll(async () => {
    const made = await startListingPlane(started, by);
    ({ redis, cluster } = made);
    const { plane } = made;
    await cluster.createNamespace(namespace);
    const text = 'x'.repeat(LENGTH);
    for (const key of keys) await cluster.create(configMaps, { metadata: { ...parseObjectKey(key) }, data: { text } });
    setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
    observer = started.keep(await startObserver(setting, { name: 'observer', for: configMaps, timeoutSeconds: 10 }));
  });

  afterAll(() => started.stop());

  test('wait at the server as long as Redis does not take them', async () => {
    const heap = { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` };
    const gateway = started.keep(await startGateway(setting, [observer.url], heap));
    const form = by === 'pages' ? 'paged' : 'streaming';
    const begun = new RegExp(`levelhook_reflector_lists_total\\{.*form="${form}".*\\} 1`);
    await eventually(async () => expect(await (await fetch(`${gateway.url}/metrics`)).text()).toMatch(begun));
    const { pid } = redis;
    if (pid === undefined) throw new Error('Redis does not run');
    process.kill(pid, 'SIGSTOP');
    await sleep(FROZEN_MS);
    process.kill(pid, 'SIGCONT');
    await eventually(async () => {
      expect(gateway.process.alive, gateway.process.output).toBe(true);
      const seen = new Set(observer.seen().map(({ key }) => key));
      expect(keys.filter((key) => !seen.has(key))).toEqual([]);
    }, 120_000);
    await untilReady(gateway.url, 30_000);
  });
});
