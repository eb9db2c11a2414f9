import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type Cluster, configMaps, pods } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilIdle, untilReady } from '../harness/levelhook.ts';
import { type Observer, startObserver } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';

const namespace = uniqueName('two');
const NAMES = Array.from({ length: 20 }, (_, at) => `object-${at}`);
const started = new Started();
let cluster: Cluster;
let setting: Setting;
let old: Observer;
let updated: Observer;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const name = 'updated';
  const reconciled = { resource: configMaps, namespaces: [namespace] };
  old = started.keep(await startObserver(setting, { name, for: reconciled }));
  // The new version of the function reads one kind more: all keys are due once.
  updated = started.keep(await startObserver(setting, { name, for: reconciled, reads: [pods] }));
  await Promise.all(NAMES.map((each) => cluster.create(configMaps, { metadata: { namespace, name: each }, data: {} })));
}, 120_000);

afterAll(() => started.stop());

test(
  'a gateway whose views another has taken stops before it queues keys against it',
  { timeout: 120_000 },
  async () => {
    const first = started.keep(await startGateway(setting, [old.url]));
    await untilReady(first.url);
    await eventually(async () => expect(old.count).toBeGreaterThanOrEqual(NAMES.length));
    await untilIdle(first.url);
    const second = started.keep(await startGateway(setting, [updated.url]));
    await untilReady(second.url);
    expect(await first.process.exited).toBe(1);
    expect(first.process.output).toContain('Another gateway has taken over this cluster');
    // The first takes keys that the second has queued until it notices: each is due once more, by either of them.
    await eventually(async () => expect(old.count + updated.count).toBeGreaterThanOrEqual(2 * NAMES.length));
    await untilIdle(second.url);
    // Both would have queued all keys once a second.
    expect(old.count + updated.count).toBeLessThanOrEqual(3 * NAMES.length);
  },
);
