import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { ApiError, type KubernetesObject, type Resource, resource, silentLogger } from '../../../src/core/index.ts';
import {
  ApiWriter,
  type Condition,
  controllerOf,
  DisruptionBudgetError,
  ensureFinalizer,
  EventRecorder,
  isStatusConditionTrue,
  removeFinalizer,
  setControllerReference,
  setStatusCondition,
} from '../../../src/function/index.ts';
import { kubeConfigTransport } from '../../../src/function/node/index.ts';
import { type Cluster, configMaps, pods, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';

interface Site extends KubernetesObject {
  spec?: { replicas?: number; title?: string };
  status?: { replicas?: number; conditions?: readonly Condition[] };
}
interface Budget extends KubernetesObject {
  spec: object;
  status?: object;
}
interface Event extends KubernetesObject {
  message: string;
  count: number;
  involvedObject: { uid: string };
}

const namespace = uniqueName('sdk');
const group = `${uniqueName('sites')}.example.com`;
const Site = resource<Site>(`${group}/v1`, 'Site');
const CustomResourceDefinition = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const PodDisruptionBudget = resource<Budget>('policy/v1', 'PodDisruptionBudget');
const Event = resource<Event>('v1', 'Event');
const Services = resource<KubernetesObject & { spec: Record<string, unknown> }>('v1', 'Service');

const transport = kubeConfigTransport(inject('kubeconfig'));
const started = new Started();
let cluster: Cluster;
const writer = () => new ApiWriter(transport, { signal: AbortSignal.timeout(30_000), deadlineMs: Date.now() + 30_000 });
const failure = (asked: Promise<unknown>) => asked.then(() => undefined).catch((error: unknown) => error);

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  const anything = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  await cluster.create(CustomResourceDefinition, {
    metadata: { name: `sites.${group}` },
    spec: {
      group,
      names: { kind: 'Site', plural: 'sites' },
      scope: 'Namespaced',
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', properties: { spec: anything, status: anything } } },
          subresources: {
            status: {},
            scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' },
          },
        },
      ],
    },
  });
  started.add(() => cluster.delete(CustomResourceDefinition, { name: `sites.${group}` }));
  await eventually(() => cluster.list(Site, namespace));
});

afterAll(() => started.stop());

const site = (name: string, spec: object = {}) => writer().create(Site, { metadata: { namespace, name }, spec });
const pod = (name: string, labels: Record<string, string> = {}) =>
  cluster.create(pods, {
    metadata: { namespace, name, labels },
    spec: { containers: [{ name: 'main', image: 'pause' }] },
  });

describe('list', () => {
  it('reads all pages of what is selected, live, and gives items their kind', async () => {
    const labels = { of: 'list' };
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      await cluster.create(configMaps, { metadata: { namespace, name: `list-${name}`, labels } });
    }
    const options = { namespace, labelSelector: { matchLabels: labels }, pageSize: 2 };
    const { items, version } = await writer().list(configMaps, options);
    expect(items.map(({ metadata }) => metadata.name)).toEqual(['list-a', 'list-b', 'list-c', 'list-d', 'list-e']);
    expect(items[0]).toMatchObject({ apiVersion: 'v1', kind: 'ConfigMap' });
    expect(BigInt(version)).toBeGreaterThanOrEqual(BigInt(items[4]?.metadata.resourceVersion ?? ''));
    const others = { namespace, labelSelector: 'of=list', fieldSelector: 'metadata.name!=list-a' };
    expect((await writer().list(configMaps, others)).items).toHaveLength(4);
    expect((await writer().list(configMaps, { namespace, labelSelector: 'of=nothing' })).items).toEqual([]);
  });
});

describe('the status subresource', () => {
  it('is replaced, patched and applied, and nothing else with it', async () => {
    const api = writer();
    const made = await site('status', { title: 'before' });
    await api.replace(Site, { ...made, spec: { title: 'not this' }, status: { replicas: 1 } }, 'status');
    const key = { namespace, name: 'status' };
    await api.patch(Site, key, { type: 'merge', body: { spec: { title: 'nor this' }, status: { a: 1 } } }, 'status');
    const applied = await api.apply(
      Site,
      { metadata: key, status: { conditions: [] } },
      { fieldManager: 'conditions', subresource: 'status' },
    );
    expect(applied.spec).toEqual({ title: 'before' });
    expect(applied.status).toEqual({ replicas: 1, a: 1, conditions: [] });
    expect(api.writes.at(-1)?.resourceVersion).toBe((await cluster.get(Site, key))?.metadata.resourceVersion);
  });

  it('keeps a condition as set, time included, and there is nothing to write the second time', async () => {
    const api = writer();
    const made = await site('conditions');
    const ready = { type: 'Ready', status: 'True', reason: 'Up', observedGeneration: 1 } as const;
    const conditions = setStatusCondition(undefined, ready);
    const { status } = await api.replace(Site, { ...made, status: { conditions } }, 'status');
    expect(status?.conditions).toEqual(conditions);
    expect(isStatusConditionTrue(status?.conditions, 'Ready')).toBe(true);
    expect(setStatusCondition(status?.conditions, ready)).toBe(status?.conditions);
  });
});

describe('the scale subresource', () => {
  it.each<[string, Resource, () => Promise<unknown>]>([
    ['a built-in kind', replicaSets, () => cluster.create(replicaSets, replicaSet({ namespace, name: 'scaled' }, 1))],
    ['a custom kind', Site, () => site('scaled', { replicas: 1 })],
  ])('of %s is read and set, and recorded as a write of the object', async (_, of, create) => {
    await create();
    const key = { namespace, name: 'scaled' };
    const api = writer();
    const scale = await api.getScale(of, key);
    expect(scale?.spec.replicas).toBe(1);
    const set = await api.setScale(of, key, 0, { resourceVersion: scale?.metadata.resourceVersion ?? '' });
    expect(set.spec.replicas ?? 0).toBe(0);
    const live = await api.get(of, key);
    expect(live).toMatchObject({ spec: { replicas: 0 } });
    const { uid, resourceVersion } = live?.metadata ?? {};
    expect(api.writes).toEqual([{ apiVersion: of.apiVersion, kind: of.kind, ...key, uid, resourceVersion }]);
    const stale = api.setScale(of, key, 5, { resourceVersion: scale?.metadata.resourceVersion ?? '' });
    await expect(stale).rejects.toMatchObject({ code: 409 });
    await api.setScale(of, key, 2);
    expect(await api.get(of, key)).toMatchObject({ spec: { replicas: 2 } });
    expect(await api.getScale(of, { namespace, name: 'absent' })).toBeUndefined();
  });
});

describe('deleteCollection', () => {
  it.each([
    ['a built-in kind', configMaps],
    ['a custom kind', Site],
  ])('of %s tells which objects it has deleted, or begun to', async (_, of) => {
    const labels = { of: 'collection' };
    const make = (name: string, finalizers: string[] = []) =>
      cluster.create(of, { metadata: { namespace, name, labels, finalizers } });
    const made = [await make('gone-1'), await make('gone-2'), await make('kept', ['example.com/cleanup'])];
    await cluster.create(of, { metadata: { namespace, name: 'not-selected' } });
    const api = writer();
    expect(await api.deleteCollection(of, { namespace, labelSelector: 'of=collection' })).toBe(3);
    const uids = made.map(({ metadata }) => metadata.uid);
    expect(api.writes.map(({ uid, deleted, gone }) => [uid, deleted, gone])).toEqual(
      uids.map((uid) => [uid, true, undefined]),
    );
    // What the barrier waits for: absent, or being deleted.
    const left = await api.list(of, { namespace, labelSelector: 'of=collection' });
    expect(left.items.map(({ metadata }) => [metadata.name, Boolean(metadata.deletionTimestamp)])).toEqual([
      ['kept', true],
    ]);
    expect(await api.get(of, { namespace, name: 'not-selected' })).toBeDefined();
    await cluster.patch(of, { namespace, name: 'kept' }, { metadata: { finalizers: [] } });
    expect(await api.deleteCollection(of, { namespace, labelSelector: 'of=collection' })).toBe(0);
  });
});

describe('evict', () => {
  /** A budget guards pods that run; others it lets go. */
  const runningPod = async (name: string, labels: Record<string, string>) => {
    const made = await pod(name, labels);
    const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
    return writer().patch(pods, made.metadata, { type: 'merge', body: { status } }, 'status');
  };
  const budget = (name: string, minAvailable: number, labels: Record<string, string>) =>
    cluster.create(PodDisruptionBudget, {
      metadata: { namespace, name },
      spec: { minAvailable, selector: { matchLabels: labels } },
    });

  it('is told of a budget in the way, and evicts when the budget allows it, this pod and no other', async () => {
    const labels = { app: 'guarded' };
    const guarded = await runningPod('guarded', labels);
    await cluster.patch(pods, { namespace, name: 'guarded' }, { metadata: { finalizers: ['example.com/cleanup'] } });
    await budget('guard', 1, labels);
    const api = writer();
    await eventually(async () => {
      const refused = await failure(api.evict(guarded));
      expect(refused).toBeInstanceOf(DisruptionBudgetError);
      expect(refused).toMatchObject({ retryAfterSeconds: 10, message: expect.stringContaining('needs 1 healthy pod') });
    });
    expect([api.writes, api.unanswered]).toEqual([[], []]);
    await cluster.patch(PodDisruptionBudget, { namespace, name: 'guard' }, { spec: { minAvailable: 0 } });
    await eventually(async () => {
      const key = { namespace, name: 'guard' };
      expect(await cluster.get(PodDisruptionBudget, key)).toMatchObject({ status: { disruptionsAllowed: 1 } });
    });
    await api.evict(guarded);
    const { uid } = guarded.metadata;
    expect(api.writes).toEqual([{ apiVersion: 'v1', kind: 'Pod', namespace, name: 'guarded', uid, deleted: true }]);
    expect((await api.get(pods, guarded.metadata))?.metadata.deletionTimestamp).toBeDefined();
    await cluster.patch(pods, { namespace, name: 'guarded' }, { metadata: { finalizers: [] } });
    await eventually(async () => expect(await api.get(pods, guarded.metadata)).toBeUndefined());
    await expect(api.evict(guarded)).rejects.toMatchObject({ code: 404 });
    // Where no budget is in the way; it would have counted this one.
    const { metadata } = await runningPod('unguarded', {});
    const other = { metadata: { ...metadata, uid: '00000000-0000-0000-0000-000000000000' } };
    await expect(writer().evict(other)).rejects.toMatchObject({ code: 409 });
  });

  it('is sure that nothing was done where several budgets select the pod', async () => {
    const labels = { app: 'twice' };
    await budget('one', 0, labels);
    await budget('two', 0, labels);
    // The apiserver learns of the budgets by a watch.
    await eventually(async () => {
      const api = writer();
      const twice = await runningPod(uniqueName('twice'), labels);
      await expect(api.evict(twice)).rejects.toMatchObject({ code: 500 });
      expect(api.unanswered).toEqual([]);
    });
  });
});

describe('finalizers', () => {
  const finalizer = 'example.com/clean-up';

  it.each([
    ['a built-in kind', configMaps],
    ['a custom kind', Site],
  ])('of %s are added once and removed once, beside those of others', async (_, of) => {
    const key = { namespace, name: 'finalized' };
    const made = await writer().create(of, { metadata: { ...key, finalizers: ['example.com/other'] } });
    const api = writer();
    const ensured = await ensureFinalizer(api, of, made, finalizer);
    expect(ensured.metadata.finalizers).toEqual(['example.com/other', finalizer]);
    expect(await ensureFinalizer(api, of, ensured, finalizer)).toBe(ensured);
    expect(api.writes).toHaveLength(1);
    // From a version that somebody has changed meanwhile.
    await cluster.patch(of, key, { metadata: { finalizers: [finalizer, 'example.com/late'] } });
    const removed = await removeFinalizer(api, of, ensured, finalizer);
    expect(removed?.metadata.finalizers).toEqual(['example.com/late']);
    expect(api.writes).toHaveLength(2);
    expect(await removeFinalizer(api, of, ensured, finalizer)).toMatchObject({ metadata: removed?.metadata });
    expect(api.writes).toHaveLength(2);

    await cluster.delete(of, key);
    await expect(ensureFinalizer(api, of, made, finalizer)).rejects.toMatchObject({ code: 422 });
    await cluster.patch(of, key, { metadata: { finalizers: [] } });
    await expect(ensureFinalizer(api, of, made, finalizer)).rejects.toMatchObject({ code: 404 });
    expect(await removeFinalizer(api, of, ensured, finalizer)).toBeUndefined();
    await cluster.create(of, { metadata: { ...key, finalizers: [finalizer] } });
    expect(await removeFinalizer(api, of, ensured, finalizer)).toBeUndefined();
    expect((await cluster.get(of, key))?.metadata.finalizers).toEqual([finalizer]);
  });

  it.each([
    ['a built-in kind', configMaps],
    ['a custom kind', Site],
  ])(
    'of %s: the last one removed is recorded as a delete, since its answer has the version of before',
    async (_, of) => {
      const key = { namespace, name: 'last' };
      const made = await writer().create(of, { metadata: { ...key, finalizers: [finalizer] } });
      await cluster.delete(of, key);
      const deleting = await cluster.get(of, key);
      const api = writer();
      const removed = await removeFinalizer(api, of, made, finalizer);
      // If this ever fails, the apiserver has begun to tell the version of the delete.
      expect(removed?.metadata.resourceVersion).toBe(deleting?.metadata.resourceVersion);
      const { uid } = made.metadata;
      expect(api.writes).toEqual([
        { apiVersion: of.apiVersion, kind: of.kind, ...key, uid, deleted: true, gone: true },
      ]);
      expect(await api.get(of, key)).toBeUndefined();
    },
  );
});

describe('delete', () => {
  it('tells what is gone from what is being deleted', async () => {
    const api = writer();
    for (const finalizers of [[], ['example.com/cleanup']]) {
      await cluster.create(configMaps, { metadata: { namespace, name: `del-${finalizers.length}`, finalizers } });
      await api.delete(configMaps, { namespace, name: `del-${finalizers.length}` });
    }
    expect(api.writes.map(({ gone }) => gone)).toEqual([true, undefined]);
    await cluster.patch(configMaps, { namespace, name: 'del-1' }, { metadata: { finalizers: [] } });
  });
});

describe('fields that the types do not know', () => {
  it('survive when a built-in object is read, changed and written', async () => {
    const spec = { clusterIP: 'None', ports: [{ port: 80 }], internalTrafficPolicy: 'Local' };
    const made = await writer().create(Services, { metadata: { namespace, name: 'survivor' }, spec });
    const { resourceVersion: _, managedFields: __, ...metadata } = made.metadata;
    const replaced = await writer().replace(Services, {
      ...made,
      metadata: { ...made.metadata, labels: { a: 'b' } },
    });
    expect(replaced.spec).toEqual(made.spec);
    expect(replaced.metadata).toMatchObject({ ...metadata, labels: { a: 'b' } });
  });

  it('survive in a custom object too, and in its status', async () => {
    const spec = { title: 'x', ofTomorrow: { deep: [1, { big: 9_007_199_254_740_991 }, null, ''] } };
    const made = await site('unknown', spec);
    const status = { ofTomorrow: [{ a: 1 }] } as Site['status'];
    const withStatus = await writer().replace(Site, { ...made, status: status ?? {} }, 'status');
    const replaced = await writer().replace(Site, { ...withStatus, spec: { ...withStatus.spec, title: 'y' } });
    expect(replaced.spec).toEqual({ ...spec, title: 'y' });
    expect(replaced.status).toEqual(status);
  });
});

describe('setControllerReference', () => {
  it('makes a reference that the apiserver takes, and blocks nobody', async () => {
    const owner = await site('owner');
    const child = setControllerReference(Site, owner, { metadata: { namespace, name: 'child' } });
    const made = await writer().create(configMaps, child);
    expect(controllerOf(made)).toMatchObject({ uid: owner.metadata.uid, blockOwnerDeletion: true });
    const rival = await site('rival');
    expect(() => setControllerReference(Site, rival, made)).toThrow('Site owner controls it');
  });
});

describe('EventRecorder', () => {
  const eventsOf = async (object: KubernetesObject) =>
    (await cluster.list(Event, namespace)).items.filter(
      ({ involvedObject }) => involvedObject.uid === object.metadata.uid,
    );

  it('counts the same event of several runs, and combines similar ones', async () => {
    const recorder = new EventRecorder({ component: 'sdk-test' });
    const about = await site('told');
    for (let run = 0; run < 3; run += 1) {
      const api = writer();
      const events = recorder.about(Site, about, { api, log: silentLogger });
      events.normal('Deployed', 'version 1');
      events.normal('Deployed', 'version 1');
      await api.finish();
    }
    expect(await eventsOf(about)).toMatchObject([
      { type: 'Normal', reason: 'Deployed', message: 'version 1', count: 6, source: { component: 'sdk-test' } },
    ]);
    const api = writer();
    const events = recorder.about(Site, about, { api, log: silentLogger });
    for (let at = 0; at < 14; at += 1) events.warning('Failed', `attempt ${at}`);
    await api.finish();
    const warnings = (await eventsOf(about)).filter(({ message }) => message !== 'version 1');
    expect(warnings).toHaveLength(10);
    const combined = warnings.find(({ message }) => message.startsWith('(combined'));
    expect(combined).toMatchObject({ message: '(combined from similar events): attempt 13', count: 5 });
  });

  it('makes an event again that the apiserver has forgotten, and fails nobody', async () => {
    const recorder = new EventRecorder({ component: 'sdk-test' });
    const about = await site('forgotten');
    const tell = async () => {
      const api = writer();
      recorder.about(Site, about, { api, log: silentLogger }).normal('Deployed', 'version 1');
      await api.finish();
    };
    await tell();
    const [event] = await eventsOf(about);
    await cluster.delete(Event, event?.metadata ?? { name: '' });
    await tell();
    expect(await eventsOf(about)).toMatchObject([{ count: 2 }]);
    const warned: unknown[] = [];
    const log = { ...silentLogger, warn: (fields: object) => void warned.push(fields) };
    const api = writer();
    const elsewhere = { ...about, metadata: { ...about.metadata, namespace: 'absent' } };
    recorder.about(Site, elsewhere, { api, log }).normal('Deployed', 'version 1');
    await api.finish();
    expect(warned).toMatchObject([{ event: 'Deployed', error: expect.stringContaining('not found') }]);
  });
});

it('create tells of a name that is taken', async () => {
  await site('taken');
  const error = await failure(site('taken'));
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({ code: 409, reason: 'AlreadyExists' });
});
