import { Redis } from 'ioredis';
import { describe, expect } from 'vitest';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { type QueueKeys, queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { type KubernetesObject, type Resource, resource } from '../../../src/core/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import { untilIdle } from '../../harness/levelhook.ts';
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

/** The Webs that are there. */
const OWN = ['back', 'here', 'idle', 'stray'];
/** The keys that each controller runs at first, each once: `gone` has no object any more. */
const FIRST: Readonly<Record<string, readonly string[]>> = {
  owns: [...OWN, 'gone'],
  'of-two-kinds': [...OWN, 'gone'],
  'by-owner': [...OWN, 'gone'],
  'by-label': [...OWN, 'gone'],
  'by-annotation': [...OWN, 'gone'],
  'by-field': [...OWN, 'gone'],
  'by-cel': [...OWN, 'gone'],
  'by-selector': OWN,
  'left-out': OWN,
  elsewhere: OWN,
  'for-elsewhere': [],
  'for-selected': ['gone', 'here'],
  // A predicate of the kind itself says nothing of the others' events.
  'for-predicate': ['back', 'here', 'stray'],
  'for-predicate-selector': ['back', 'here', 'stray'],
  // The object that `stray` selects has a controller.
  'for-predicate-orphans': ['back', 'here'],
};
/** Keys that have named an object of a watched kind. The predicate passes one object and leaves the other out. */
const RELATED = ['back', 'here'];
const LISTS = ['backlog', 'queued', 'waiting'] as const;

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
    const passing = { resource: webs, predicate: { labelSelector: { matchLabels: { tier: 'front' } } } };
    const bySelector = { by: 'selector', path: 'spec.selector' } as const;
    const related = { ...watching({ by: 'related' }), for: passing };
    return {
      owns: { for: webs, owns: [configMaps] },
      'of-two-kinds': { for: webs, owns: [configMaps, accounts] },
      'by-owner': watching({ by: 'owner', owner: 'any' }),
      'by-label': watching({ by: 'label', label: TO }),
      'by-annotation': watching({ by: 'annotation', annotation: TO }),
      'by-field': watching({ by: 'field', path: 'data.to' }),
      'by-cel': watching({ by: 'cel', expression: `has(object.data) && has(object.data.to) ? [object.data.to] : []` }),
      'by-selector': watching(bySelector),
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
      'for-predicate': { ...watching({ by: 'index', index: 'field:spec.configs' }), for: passing },
      'for-predicate-selector': { ...watching(bySelector), for: passing },
      'for-predicate-orphans': { ...watching({ ...bySelector, orphansOnly: true }), for: passing },
      related: {
        ...related,
        // Wakes `back` for its first run, until the account is deleted.
        watches: [...related.watches, { resource: accounts, namespaces: [n], map: { by: 'label', label: TO } }],
        names: [{ resource: configMaps, namespace: n, names: ['named'] }],
      },
      'related-any-kind': {
        for: webs,
        relatedKinds: 'any',
        names: [{ resource: accounts, namespace: n, names: ['waker'] }],
      },
    };
  };

  it.beforeAll(async ({ world }) => {
    const { setting, started } = world;
    ({ cluster, namespace: n } = world);
    const { webs } = await defineWebs(started, cluster, `${n}.levelhook.test`);
    const create = (name: string, tier: string, selected: string): Promise<KubernetesObject> => {
      const spec = { configs: [selected], selector: { matchLabels: { app: selected } } };
      return cluster.create(webs, { metadata: { namespace: n, name, labels: { tier } }, spec });
    };
    const [here, gone] = [await create('here', 'front', 'named'), await create('gone', 'front', 'named')];
    await create('back', 'back', 'named');
    await create('stray', 'back', 'of-here');
    await create('idle', 'back', 'nothing');
    await cluster.delete(webs, { namespace: n, name: 'gone' });
    const leave = (name: string, owner: KubernetesObject): Promise<KubernetesObject> => {
      const to = owner.metadata.name;
      const ownerReferences = referencesTo([owner], owner);
      const told = { labels: { [TO]: to, app: name }, annotations: { [TO]: to } };
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
    await cluster.create(configMaps, { metadata: { namespace: n, name: 'named', labels: { app: 'named' } } });
    await cluster.create(accounts, { metadata: { namespace: n, name: 'waker', labels: { [TO]: 'back' } } });
    ({ observers, gatewayUrl } = await openObserved(started, setting, controllersOf(webs)));
  });

  const keysOf = (names: readonly string[]): string[] => names.map((name) => `${n}/${name}`).toSorted();

  const observerOf = (name: string): Observer => {
    const observer = observers.get(name);
    if (!observer) throw new Error(`there is no observer ${name}`);
    return observer;
  };

  it('so are those to which objects of other kinds lead, each once', () => {
    const runs = Object.keys(FIRST).map((name) => {
      const keys = observerOf(name)
        .seen()
        .map(({ key }) => key);
      return [name, keys.toSorted()];
    });
    const expected = Object.entries(FIRST).map(([name, names]) => [name, keysOf(names)]);
    expect(Object.fromEntries(runs)).toEqual(Object.fromEntries(expected));
  });

  it('they say so', () => {
    const [run] = observers.get('owns')?.seen({ key: `${n}/gone` }) ?? [];
    expect(run).toMatchObject({ uid: null, reasons: [{ type: 'initial' }] });
  });

  it('each of them is queued once, although objects of two kinds lead to it', async () => {
    const { length } = FIRST['of-two-kinds'] ?? [];
    expect(await metric(gatewayUrl, 'workqueue_adds_total', { name: 'of-two-kinds' })).toBe(length);
  });

  describe('again', () => {
    let redis: Redis;
    let keysOfQueue: (name: string) => QueueKeys;

    it.beforeAll(async ({ world: { setting, started } }) => {
      redis = new Redis(setting.redisUrl);
      started.add(async () => redis.disconnect());
      const clusterId = await clusterIdentity(cluster.client);
      keysOfQueue = (name) => queueKeys({ ...setting, clusterId }, name);
    });

    /** The keys in the lists of these queues after the work. The queues are paused, so each key stays in its list. */
    async function listsAfter(names: readonly string[], work: () => Promise<void>): Promise<Record<string, object>> {
      const queues = names.map((name) => new QueueClient(gatewayUrl, name));
      await Promise.all(queues.map((queue) => queue.pause()));
      try {
        await work();
        const lists = queues.map(async (queue) => {
          const [backlog, queued, waiting] = await Promise.all(LISTS.map((list) => queue.keysIn(list)));
          return { backlog, queued, waiting };
        });
        return Object.fromEntries((await Promise.all(lists)).map((each, at) => [names[at], each]));
      } finally {
        await Promise.all(queues.map((queue) => queue.resume()));
      }
    }

    const inBacklog = (names: readonly string[]): object => ({ backlog: keysOf(names), queued: [], waiting: [] });

    it('all of them wait in the backlog, after the record of the last time is lost', async () => {
      const related = observerOf('related');
      await eventually(async () => expect(related.keys()).toEqual(keysOf(RELATED)));
      const { count } = related;
      await cluster.delete(accounts, { namespace: n, name: 'waker' });
      await related.untilWokenBy(`v1/ServiceAccount ${n}/waker`, count);
      await untilIdle(gatewayUrl);
      const wanted: Readonly<Record<string, readonly string[]>> = { ...FIRST, related: RELATED };
      const names = Object.keys(wanted);
      const lists = await listsAfter(names, async () => {
        for (const name of names) expect(await redis.hdel(keysOfQueue(name).queue, 'initial')).toBe(1);
        await eventually(async () => {
          for (const name of names) expect(await redis.hget(keysOfQueue(name).queue, 'initial'), name).not.toBeNull();
        });
      });
      const expected = Object.entries(wanted).map(([name, keys]) => [name, inBacklog(keys)]);
      expect(lists).toEqual(Object.fromEntries(expected));
    });

    it('those that have named a kind wait in the backlog, once the kind is listed', async () => {
      const { relatedViews } = keysOfQueue('related-any-kind');
      const untilListed = (): Promise<void> =>
        eventually(async () => expect(await redis.hget(relatedViews, 'v1/ServiceAccount')).toMatch(/./));
      await untilListed();
      await untilIdle(gatewayUrl);
      const lists = await listsAfter(['related-any-kind'], async () => {
        expect(await redis.hdel(relatedViews, 'v1/ServiceAccount')).toBe(1);
        await untilListed();
      });
      expect(lists).toEqual({ 'related-any-kind': inBacklog(OWN) });
    });
  });
});
