import { Redis } from 'ioredis';
import { describe, expect } from 'vitest';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { type KubernetesObject, type Resource, resource } from '../../../src/core/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import { type Observer, type ObserverSpec, openObserved } from '../../harness/observer.ts';
import { QueueClient } from '../../harness/queue-client.ts';
import { defineWebs, referencesTo } from '../../harness/webs.ts';
import { it } from '../../harness/world.ts';

const TO = 'levelhook.test/to';
/** Of the objects that were made for a Web that is gone. */
const LEFT = 30;
/** Keeps them from Kubernetes' garbage collection while the test runs. */
const FINALIZER = 'levelhook.test/left';
const accounts = resource('v1', 'ServiceAccount');

describe('when all keys are queued', () => {
  let observers: ReadonlyMap<string, Observer>;
  let cluster: Cluster;
  let n: string;
  let gatewayUrl: string;

  const controllersOf = (webs: Resource): Record<string, Omit<ObserverSpec, 'name'>> => {
    const watching = (map: NonNullable<ObserverSpec['watches']>[number]['map'], more: object = {}) => ({
      for: webs,
      watches: [{ resource: configMaps, namespaces: [n], map, ...more }],
    });
    const selected = { resource: webs, labelSelector: { matchLabels: { tier: 'front' } } };
    return {
      owns: { for: webs, owns: [configMaps] },
      'of-two-kinds': { for: webs, owns: [configMaps, accounts] },
      'by-owner': watching({ by: 'owner', owner: 'any' }),
      'by-label': watching({ by: 'label', label: TO }),
      'by-annotation': watching({ by: 'annotation', annotation: TO }),
      'by-field': watching({ by: 'field', path: 'data.to' }),
      'by-cel': watching({ by: 'cel', expression: `has(object.data) && has(object.data.to) ? [object.data.to] : []` }),
      'left-out': watching(
        { by: 'field', path: 'data.to' },
        { predicate: { labelSelector: { matchLabels: { x: 'y' } } } },
      ),
      elsewhere: watching({ by: 'field', path: 'data.to' }, { namespaces: ['default'] }),
      'for-elsewhere': {
        ...watching({ by: 'field', path: 'data.to' }),
        for: { resource: webs, namespaces: ['default'] },
      },
      'for-selected': { ...watching({ by: 'field', path: 'data.to' }), for: selected },
      'for-predicate': {
        ...watching({ by: 'index', index: 'field:spec.configs' }),
        for: { resource: webs, predicate: { labelSelector: { matchLabels: { tier: 'front' } } } },
      },
    };
  };

  it.beforeAll(async ({ world }) => {
    const { setting, started } = world;
    ({ cluster, namespace: n } = world);
    const { webs } = await defineWebs(started, cluster, `${n}.levelhook.test`);
    const create = (name: string, tier: string): Promise<KubernetesObject> =>
      cluster.create(webs, { metadata: { namespace: n, name, labels: { tier } }, spec: { configs: ['named'] } });
    const [here, gone] = [await create('here', 'front'), await create('gone', 'front')];
    await create('back', 'back');
    await cluster.delete(webs, { namespace: n, name: 'gone' });
    const leave = (name: string, owner: KubernetesObject): Promise<KubernetesObject> => {
      const to = owner.metadata.name;
      const ownerReferences = referencesTo([owner], owner);
      const told = { labels: { [TO]: to }, annotations: { [TO]: to } };
      const metadata = { namespace: n, name, ...told, ownerReferences, finalizers: [FINALIZER] };
      return cluster.create(configMaps, { metadata, data: { to } });
    };
    const left = Array.from({ length: LEFT }, (_, at) => `left-${at}`);
    await Promise.all(left.map((name) => leave(name, gone)));
    // Kubernetes' garbage collection would do it later, and each key would run for that change.
    await Promise.all(left.map((name) => cluster.delete(configMaps, { namespace: n, name })));
    started.add(async () => {
      const free = { metadata: { finalizers: null } };
      const owned = [...left, 'of-here'];
      await Promise.all(owned.map((name) => cluster.patch(configMaps, { namespace: n, name }, free)));
    });
    await leave('of-here', here);
    const ownerReferences = referencesTo([gone], gone);
    const metadata = { namespace: n, name: 'left', ownerReferences, finalizers: [FINALIZER] };
    await cluster.create(accounts, { metadata });
    await cluster.delete(accounts, { namespace: n, name: 'left' });
    started.add(async () => {
      await cluster.patch(accounts, { namespace: n, name: 'left' }, { metadata: { finalizers: null } });
    });
    await cluster.create(configMaps, { metadata: { namespace: n, name: 'to-back' }, data: { to: 'back' } });
    await cluster.create(configMaps, { metadata: { namespace: n, name: 'named' } });
    ({ observers, gatewayUrl } = await openObserved(started, setting, controllersOf(webs)));
  });

  const keysOf = (names: readonly string[]): string[] => names.map((name) => `${n}/${name}`);

  it('so are those to which objects of other kinds lead, each once', () => {
    const runs = Object.fromEntries(
      [...observers].map(([name, observer]) => [
        name,
        observer
          .seen()
          .map(({ key }) => key)
          .toSorted(),
      ]),
    );
    const own = ['back', 'here'];
    expect(runs).toEqual({
      owns: keysOf(['back', 'gone', 'here']),
      'of-two-kinds': keysOf(['back', 'gone', 'here']),
      'by-owner': keysOf(['back', 'gone', 'here']),
      'by-label': keysOf(['back', 'gone', 'here']),
      'by-annotation': keysOf(['back', 'gone', 'here']),
      'by-field': keysOf(['back', 'gone', 'here']),
      'by-cel': keysOf(['back', 'gone', 'here']),
      'left-out': keysOf(own),
      elsewhere: keysOf(own),
      'for-elsewhere': [],
      'for-selected': keysOf(['gone', 'here']),
      // A predicate of the kind itself says nothing of the others' events.
      'for-predicate': keysOf(own),
    });
  });

  it('they say so', () => {
    const [run] = observers.get('owns')?.seen({ key: `${n}/gone` }) ?? [];
    expect(run).toMatchObject({ uid: null, reasons: [{ type: 'initial' }] });
  });

  it('each of them is queued once, although objects of two kinds lead to it', async () => {
    expect(await metric(gatewayUrl, 'workqueue_adds_total', { name: 'of-two-kinds' })).toBe(3);
  });

  it('they wait in the backlog as the keys of their own kind do, after the record of the last time is lost', async ({
    world,
  }) => {
    const queue = new QueueClient(gatewayUrl, 'owns');
    const keys = queueKeys({ ...world.setting, clusterId: await clusterIdentity(cluster.client) }, 'owns');
    const redis = new Redis(world.setting.redisUrl);
    // What waits in a paused queue stays where it was put.
    await queue.pause();
    try {
      expect(await redis.hdel(keys.queue, 'initial')).toBe(1);
      await eventually(async () => expect(await queue.keysIn('backlog')).toEqual(keysOf(['back', 'gone', 'here'])));
      for (const list of ['queued', 'waiting'] as const) expect(await queue.keysIn(list)).toEqual([]);
    } finally {
      redis.disconnect();
      await queue.resume();
    }
  });
});
