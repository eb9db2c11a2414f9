import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, type Resource, resource } from '../../../src/core/index.ts';
import { controller } from '../../../src/function/index.ts';
import { discoverResource } from '../../../src/ground/apiserver/discovery.ts';
import { type ControlPlane, startControlPlane } from '../../../src/testing/index.ts';
import { untilCacheEqualsServer } from '../../harness/cache-equals-server.ts';
import { Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import {
  createSetting,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../../harness/levelhook.ts';
import { type Observer, startObservers } from '../../harness/observer.ts';
import type { TestProcess } from '../../harness/process.ts';
import { ServedFunction } from '../../harness/served-function.ts';

const GROUP = 'informer.levelhook.test';
const widgets = resource<KubernetesObject & { spec?: { size: number } }>(`${GROUP}/v1`, 'Widget');
const gadgets = resource(`${GROUP}/v1alpha1`, 'Gadget');
const newGadgets = resource(`${GROUP}/v1`, 'Gadget');
const namespacesKind = resource('v1', 'Namespace', { namespaced: false });
const leases = resource('coordination.k8s.io/v1', 'Lease');
const AWAY = 'away.levelhook.test';
const things = resource(`${AWAY}/v1`, 'Thing');
const accounts = resource('v1', 'ServiceAccount');
const apiServices = resource('apiregistration.k8s.io/v1', 'APIService', { namespaced: false });
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });

function version(name: string, served: boolean, storage: boolean) {
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  return { name, served, storage, schema, subresources: { status: {} } };
}

function definition(kind: string, versions: ReturnType<typeof version>[]) {
  const plural = `${kind.toLowerCase()}s`;
  const names = { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` };
  return { metadata: { name: `${plural}.${GROUP}` }, spec: { group: GROUP, scope: 'Namespaced', names, versions } };
}

describe('any resource, whenever it is defined', () => {
  const namespace = uniqueName('any');
  let plane: ControlPlane;
  let cluster: Cluster;
  let setting: Setting;
  let gateway: { process: TestProcess; url: string };
  const observers = new Map<string, Observer>();
  let relating: ServedFunction;
  let redis: Redis;
  /** The kinds that a parent names as related to it, and how many runs of it have ended and how many are to be lost. */
  const parent = { names: [widgets, gadgets] as Resource[], runs: 0, toLose: 0 };

  const related = controller({
    name: 'related',
    for: { resource: configMaps, labelSelector: { matchLabels: { role: 'parent' } } },
    relatedKinds: 'any',
    timeoutSeconds: 2,
  }).reconcile(async (_, context) => {
    if (parent.toLose > 0) {
      parent.toLose -= 1;
      await sleep(3000);
    }
    context.related(parent.names.map((each) => ({ resource: each, namespace })));
    parent.runs += 1;
  });

  // A control plane of its own: definitions are the whole cluster's.
  beforeAll(async () => {
    plane = await startControlPlane();
    cluster = await Cluster.connect(plane.kubeconfig);
    setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: inject('redisUrl') });
    await cluster.createNamespace(namespace);
    const specs = { steady: configMaps, widgets, gadgets, spaces: namespacesKind, leases };
    const declared = Object.entries(specs).map(([name, kind]) => ({ name, for: kind, timeoutSeconds: 60 }));
    for (const observer of await startObservers(setting, declared)) observers.set(observer.name, observer);
    redis = new Redis(setting.redisUrl);
    relating = new ServedFunction(related, setting);
    await relating.open();
    gateway = await startGateway(setting, [...[...observers.values()].map(({ url }) => url), relating.url]);
  });

  afterAll(async () => {
    await gateway?.process.kill('SIGTERM');
    for (const { process } of observers.values()) await process.kill('SIGTERM');
    await relating?.close();
    redis?.disconnect();
    await cluster?.close();
    await plane?.stop();
  });

  function of(name: string): Observer {
    const observer = observers.get(name);
    if (!observer) throw new Error(`no observer ${name}`);
    return observer;
  }

  /** The last thing that an observer has told of a key. */
  function lastSeen(name: string, key: string, expected: object): Promise<void> {
    return eventually(async () => {
      expect(of(name).seen({ key }).at(-1), gateway.process.output.slice(-2000)).toMatchObject(expected);
    });
  }

  let changes = 0;

  /** A change of a ConfigMap still reaches its own controller: nobody is disturbed. */
  async function steady(): Promise<void> {
    changes += 1;
    const name = `steady-${changes}`;
    const { resourceVersion } = (await cluster.create(configMaps, { metadata: { namespace, name } })).metadata;
    await lastSeen('steady', `${namespace}/${name}`, { resourceVersion });
  }

  async function createWidget(name: string): Promise<string> {
    // Established a moment after it is created.
    return eventually(async () => {
      const made = await cluster.create(widgets, { metadata: { namespace, name }, spec: { size: 1 } });
      return made.metadata.resourceVersion;
    });
  }

  /** The mark of the view of the old version of gadgets. */
  async function unserved(): Promise<string | null> {
    const [view = ''] = await redis.keys(`*${setting.keyPrefix}:*:${GROUP}/v1alpha1/Gadget:*}:view`);
    return redis.hget(view, 'unserved');
  }

  const ready = async (): Promise<number> => (await fetch(`${gateway.url}/readyz`)).status;
  const lines = (text: string): number =>
    gateway.process.lines.filter((line) => JSON.stringify(line).includes(text)).length;

  it('asks discovery for the scope, and takes no subresource for a kind', async () => {
    const discover = (apiVersion: string, kind: string) => discoverResource(cluster.client, { apiVersion, kind });
    expect(await discover('v1', 'Pod')).toMatchObject({ plural: 'pods', namespaced: true });
    expect(await discover('v1', 'Node')).toMatchObject({ plural: 'nodes', namespaced: false });
    expect(await discover('networking.k8s.io/v1', 'Ingress')).toMatchObject({ plural: 'ingresses', namespaced: true });
    expect(await discover('discovery.k8s.io/v1', 'EndpointSlice')).toMatchObject({ plural: 'endpointslices' });
    // Kind of the subresources deployments/scale, pods/eviction, serviceaccounts/token, and of nothing else.
    await expect(discover('apps/v1', 'Scale')).rejects.toThrow('no kind Scale in apps/v1');
    await expect(discover('v1', 'Eviction')).rejects.toThrow('no kind Eviction');
    await expect(discover('v1', 'TokenRequest')).rejects.toThrow('no kind TokenRequest');
    await expect(discover('v1', 'Binding')).rejects.toThrow('cannot be watched');
    await expect(discover('nobody.example.com/v1', 'Thing')).rejects.toThrow('does not serve the API version');
  });

  it('runs the controllers that it can, and says which kind is missing', async () => {
    await steady();
    await eventually(async () => {
      expect(await (await fetch(`${gateway.url}/readyz`)).text()).toContain(
        `does not serve the API version ${GROUP}/v1`,
      );
    });
  });

  it('watches cluster-scoped kinds, and built-in ones of a group', async () => {
    const { uid } = (await cluster.get(namespacesKind, { name: namespace }))?.metadata ?? {};
    await lastSeen('spaces', namespace, { uid });
    const lease = { metadata: { namespace, name: 'lease' }, spec: { holderIdentity: 'nobody' } };
    const { resourceVersion } = (await cluster.create(leases, lease)).metadata;
    await lastSeen('leases', `${namespace}/lease`, { resourceVersion });
    await untilCacheEqualsServer(setting, cluster, [{ resource: namespacesKind }]);
  });

  it('starts a controller whose kind is defined while it runs', async () => {
    await cluster.create(definitions, definition('Widget', [version('v1', true, true)]));
    await cluster.create(definitions, definition('Gadget', [version('v1alpha1', true, true)]));
    for (const name of ['a', 'b', 'c']) {
      const resourceVersion = await createWidget(name);
      await lastSeen('widgets', `${namespace}/${name}`, { resourceVersion });
    }
    await untilReady(gateway.url);
    await untilCacheEqualsServer(setting, cluster, [{ resource: widgets }]);
  });

  it('watches a kind that a run names', async () => {
    await cluster.create(configMaps, { metadata: { namespace, name: 'parent', labels: { role: 'parent' } } });
    await eventually(async () => expect(parent.runs).toBeGreaterThan(0));
    // In every view that the controller reads: the kind is watched.
    await eventually(async () => expect(viewsOf(relating)).toContain(`${GROUP}/v1/Widget`));
    expect(viewsOf(relating)).toContain(`${GROUP}/v1alpha1/Gadget`);
  });

  it('lets the objects go with their definition, wakes each key once, and disturbs no other controller', async () => {
    await untilIdle(gateway.url);
    const from = of('widgets').count;
    const name = `widgets.${GROUP}`;
    await cluster.delete(definitions, { name });
    await eventually(async () => expect(await cluster.get(definitions, { name })).toBeUndefined());
    for (const key of ['a', 'b', 'c']) await lastSeen('widgets', `${namespace}/${key}`, { resourceVersion: null });
    await eventually(async () => {
      expect(await ready()).toBe(200);
      expect(lines('no longer serves this resource')).toBe(1);
    });
    await steady();
    expect(
      of('widgets')
        .seen({ from })
        .map(({ key, reasons }) => [key, reasons.map(({ type }) => type)])
        .toSorted(([a], [b]) => String(a).localeCompare(String(b))),
    ).toEqual(['a', 'b', 'c'].map((key) => [`${namespace}/${key}`, ['deleted']]));
    // Not one warning for each attempt, however long the kind stays away.
    expect(lines('list or watch failed')).toBeLessThan(8);
    expect(await ready()).toBe(200);
  });

  /** Of the run that is lost, and of those after it. */
  async function untilRunAgain(): Promise<void> {
    const before = parent.runs;
    parent.toLose = 1;
    await cluster.patch(configMaps, { namespace, name: 'parent' }, { data: { lost: String(before) } });
    await eventually(async () => expect(parent.toLose).toBe(0));
    await eventually(async () => expect(parent.runs).toBeGreaterThan(before + 1));
  }

  it('runs a key again whose run was lost, although a kind that it names is gone', async () => {
    await untilRunAgain();
    expect(await ready()).toBe(200);
  });

  it('goes on when it is defined again', async () => {
    await cluster.create(definitions, definition('Widget', [version('v1', true, true)]));
    const from = of('widgets').count;
    const resourceVersion = await createWidget('b');
    await lastSeen('widgets', `${namespace}/b`, { resourceVersion });
    const later = await cluster.patch(widgets, { namespace, name: 'b' }, { spec: { size: 2 } });
    await lastSeen('widgets', `${namespace}/b`, { resourceVersion: later.metadata.resourceVersion });
    expect(
      new Set(
        of('widgets')
          .seen({ from })
          .map(({ key }) => key),
      ),
    ).toEqual(new Set([`${namespace}/b`]));
    await untilCacheEqualsServer(setting, cluster, [{ resource: widgets }]);
  });

  it('reports a controller whose version is no longer served, takes none of its objects for deleted, and goes on when it is back', async () => {
    const key = { namespace, name: 'old' };
    const { resourceVersion } = (await cluster.create(gadgets, { metadata: key })).metadata;
    await lastSeen('gadgets', `${namespace}/old`, { resourceVersion });
    await untilIdle(gateway.url);
    const from = of('gadgets').count;
    const name = { name: `gadgets.${GROUP}` };
    await cluster.patch(definitions, name, {
      spec: { versions: [version('v1', true, true), version('v1alpha1', true, false)] },
    });
    await cluster.patch(definitions, name, {
      spec: { versions: [version('v1', true, true), version('v1alpha1', false, false)] },
    });
    const line = await gateway.process.line(({ msg }) => String(msg).includes('no longer serves this version'));
    expect(line).toMatchObject({ resource: `${GROUP}/v1alpha1/Gadget`, served: [`${GROUP}/v1`] });
    await steady();
    await eventually(async () => expect(await unserved()).toBe('1'));
    await untilRunAgain();
    expect(await ready()).toBe(200);
    await eventually(async () => expect(await cluster.get(newGadgets, key)).toBeDefined());
    expect(
      of('gadgets')
        .seen({ from })
        .filter((each) => each.resourceVersion === null),
    ).toEqual([]);

    await cluster.patch(definitions, name, {
      spec: { versions: [version('v1', true, true), version('v1alpha1', true, false)] },
    });
    const back = await eventually(() => cluster.patch(gadgets, key, { metadata: { labels: { back: 'yes' } } }));
    await lastSeen('gadgets', `${namespace}/old`, { resourceVersion: back.metadata.resourceVersion });
    await untilCacheEqualsServer(setting, cluster, [{ resource: gadgets }]);
    await eventually(async () => expect(await unserved()).toBe(''));
  });

  it('watches the other kinds that a run names while the group of one does not answer', async () => {
    const name = { name: `v1.${AWAY}` };
    await cluster.create(apiServices, {
      metadata: name,
      spec: {
        group: AWAY,
        version: 'v1',
        groupPriorityMinimum: 100,
        versionPriority: 100,
        service: { namespace, name: 'nobody' },
        insecureSkipTLSVerify: true,
      },
    });
    await eventually(async () =>
      expect(cluster.client.json({ path: `/apis/${AWAY}/v1` })).rejects.toMatchObject({ code: 503 }),
    );
    parent.names = [things, widgets, accounts];
    await cluster.patch(configMaps, { namespace, name: 'parent' }, { data: { kinds: 'three' } });
    await eventually(async () => expect(viewsOf(relating)).toContain('v1/ServiceAccount'));
    expect(viewsOf(relating)).toContain(`${GROUP}/v1/Widget`);
    const before = parent.runs;
    await cluster.create(accounts, { metadata: { namespace, name: 'one' } });
    await eventually(async () => expect(parent.runs).toBeGreaterThan(before));
    await cluster.delete(apiServices, name);
  });
});

/** The kinds that the last trigger could be read with. */
function viewsOf({ triggers }: ServedFunction): string[] {
  return Object.keys(triggers.at(-1)?.cache.views ?? {});
}
