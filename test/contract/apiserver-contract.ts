import { describe, expect, it } from 'vitest';
import { type KubernetesObject, type ObjectKey, type Resource, silentLogger } from '../../src/core/index.ts';
import {
  ApiWriter,
  ensureFinalizer,
  EventRecorder,
  type NewObject,
  type Patch,
  removeFinalizer,
} from '../../src/function/index.ts';
import {
  ConfigMap,
  CronJob,
  DaemonSet,
  Deployment,
  Ingress,
  Job,
  Namespace,
  PersistentVolumeClaim,
  Pod,
  PodDisruptionBudget,
  ReplicaSet,
  ReplicationController,
  Service,
  StatefulSet,
} from '../../src/function/kinds/index.ts';
import type { TestApiserver } from '../../src/testing/index.ts';
import { uniqueName } from '../harness/levelhook.ts';

/** A custom kind with status and scale subresources, whose fields are not declared. */
export interface Site extends KubernetesObject {
  spec?: { replicas?: number; title?: string; list?: readonly object[] };
  status?: Record<string, unknown>;
}

export interface ApiserverWorld {
  readonly apiserver: TestApiserver;
  /** Exists. */
  readonly namespace: string;
  readonly Site: Resource<Site>;
}

/** What every apiserver that a reconciler is tested with does. Run for the one in memory and for a real one. */
export function apiserverContract(name: string, world: () => ApiserverWorld): void {
  const api = () =>
    new ApiWriter(world().apiserver.transport, {
      signal: new AbortController().signal,
      deadlineMs: Date.now() + 30_000,
    });
  const key = (stem: string): ObjectKey & { namespace: string } => ({
    namespace: world().namespace,
    name: uniqueName(stem),
  });
  const code = (of: number) => expect.objectContaining({ code: of });
  const configMap = (more: Partial<KubernetesObject['metadata']> = {}, data: Record<string, string> = { a: '1' }) =>
    api().create(ConfigMap, { metadata: { ...key('map'), ...more }, data });
  const deployment = (at: ObjectKey): NewObject<Deployment> => ({
    metadata: { ...at, labels: { app: at.name } },
    spec: {
      replicas: 1,
      // Its own: a Deployment adopts what matches.
      selector: { matchLabels: { app: at.name } },
      template: {
        metadata: { labels: { app: at.name } },
        spec: {
          containers: [
            { name: 'main', image: 'main:1', env: [{ name: 'A', value: '1' }] },
            { name: 'side', image: 'side:1' },
          ],
        },
      },
    },
  });
  const site = (spec: Site['spec'] = { title: 'x' }) => api().create(Site(), { metadata: key('site'), spec });
  const Site = () => world().Site;

  describe(`${name}: names`, () => {
    /** A namespace of its own, with something in it: what is at stake. */
    const inhabited = async () => {
      const namespace = uniqueName('names');
      await api().create(Namespace, { metadata: { name: namespace } });
      await api().create(ConfigMap, { metadata: { namespace, name: 'kept' } });
      return namespace;
    };

    it.each(['..', '.', '', '/', 'a/b', '../kept', '%2e%2e', 'a%2fb', '\ud800'])(
      'that are none are refused before anything is sent: %j',
      async (wrong) => {
        const namespace = await inhabited();
        const key = { namespace, name: wrong };
        const object = { apiVersion: 'v1', kind: 'Pod', metadata: { ...key, uid: 'x', resourceVersion: '1' } };
        const patch: Patch = { type: 'merge', body: { metadata: { labels: { a: 'b' } } } };
        const before = world().apiserver.requests.length;
        for (const refused of [
          () => api().delete(ConfigMap, key),
          () => api().delete(ConfigMap, { namespace: wrong, name: 'kept' }),
          () => api().deleteCollection(ConfigMap, { namespace: wrong }),
          () => api().get(ConfigMap, key),
          () => api().list(ConfigMap, { namespace: wrong }),
          () => api().replace(ConfigMap, object),
          () => api().replace(ConfigMap, object, 'status'),
          () => api().patch(ConfigMap, key, patch),
          () => api().apply(ConfigMap, object, { fieldManager: 'test' }),
          () => api().getScale(ReplicaSet, key),
          () => api().setScale(ReplicaSet, key, 0),
          () => api().evict(object),
          () => ensureFinalizer(api(), ConfigMap, object, 'example.com/a'),
          () =>
            removeFinalizer(api(), ConfigMap, { ...object, metadata: { ...object.metadata, finalizers: ['a'] } }, 'a'),
          () => api().create(ConfigMap, { metadata: { namespace: wrong, name: 'new' } }),
        ])
          await expect(refused()).rejects.toThrow(TypeError);
        expect(world().apiserver.requests).toHaveLength(before);
        expect((await api().get(Namespace, { name: namespace }))?.metadata.deletionTimestamp).toBeUndefined();
        expect(await api().get(ConfigMap, { namespace, name: 'kept' })).toBeDefined();
      },
    );

    it('are not looked at by a transport: a path with dots leads to another object', async () => {
      const namespace = await inhabited();
      const path = `/api/v1/namespaces/${namespace}/configmaps/..`;
      const { signal } = new AbortController();
      const answer = await world().apiserver.transport({ method: 'GET', path, signal });
      expect(answer.status).toBe(200);
      expect(JSON.parse(answer.body)).toMatchObject({ kind: 'Namespace', metadata: { name: namespace } });
    });

    it('that are missing do not make a request for one object one for all', async () => {
      const namespace = await inhabited();
      const key = { namespace } as ObjectKey;
      await expect(api().delete(ConfigMap, { ...key, name: undefined as unknown as string })).rejects.toThrow(
        TypeError,
      );
      expect(await api().get(ConfigMap, { namespace, name: 'kept' })).toBeDefined();
    });

    it('of fields may be any: one called __proto__ is kept by each kind of patch', async () => {
      const { namespace } = world();
      const data = (text: string) =>
        JSON.parse(`{"__proto__": "${text}", "constructor": "${text}"}`) as Record<string, string>;
      const { metadata } = await configMap({}, data('0'));
      const at = { namespace, name: metadata.name };
      const body = (text: string) => ({ data: data(text) });
      const entries = (object: { data?: object }) =>
        Object.entries(object.data ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
      const expected = (text: string) => [
        ['__proto__', text],
        ['constructor', text],
      ];
      expect(entries(await api().patch(ConfigMap, at, { type: 'merge', body: body('1') }))).toEqual(expected('1'));
      expect(entries(await api().patch(ConfigMap, at, { type: 'strategic', body: body('2') }))).toEqual(expected('2'));
      const operations = ['__proto__', 'constructor'].map((name) => ({
        op: 'replace',
        path: `/data/${name}`,
        value: '3',
      }));
      expect(entries(await api().patch(ConfigMap, at, { type: 'json', body: operations }))).toEqual(expected('3'));
      const applied = { metadata: at, ...body('4') };
      expect(entries(await api().apply(ConfigMap, applied, { fieldManager: 'x', force: true }))).toEqual(expected('4'));
      expect(Object.prototype).not.toHaveProperty('data');
    });

    it.each(['..', 'a/b', 'a%b'])('that no path can hold are refused for new objects: %j', async (wrong) => {
      const { namespace } = world();
      await expect(api().create(ConfigMap, { metadata: { namespace, name: wrong } })).rejects.toEqual(code(422));
    });
  });

  describe(`${name}: versions`, () => {
    it('grow with each change, and stay when nothing changes', async () => {
      const made = await configMap();
      const patched = await api().patch(ConfigMap, made.metadata, { type: 'merge', body: { data: { b: '2' } } });
      expect(BigInt(patched.metadata.resourceVersion)).toBeGreaterThan(BigInt(made.metadata.resourceVersion));
      const same = await api().patch(ConfigMap, made.metadata, { type: 'merge', body: { data: { b: '2' } } });
      expect(same.metadata.resourceVersion).toBe(patched.metadata.resourceVersion);
      const { items, version } = await api().list(ConfigMap, { namespace: world().namespace });
      expect(BigInt(version)).toBeGreaterThanOrEqual(BigInt(patched.metadata.resourceVersion));
      expect(items.find(({ metadata }) => metadata.uid === made.metadata.uid)).toMatchObject({
        data: { a: '1', b: '2' },
      });
    });

    it('refuse a write made of an older one', async () => {
      const made = await configMap();
      await api().patch(ConfigMap, made.metadata, { type: 'merge', body: { data: { b: '2' } } });
      await expect(api().replace(ConfigMap, made)).rejects.toMatchObject({ code: 409, reason: 'Conflict' });
      const { resourceVersion } = made.metadata;
      const body = { metadata: { resourceVersion }, data: { c: '3' } };
      await expect(api().patch(ConfigMap, made.metadata, { type: 'merge', body })).rejects.toEqual(code(409));
      const preconditions = { resourceVersion };
      await expect(api().delete(ConfigMap, made.metadata, { preconditions })).rejects.toEqual(code(409));
    });

    it('may be left out of a replace, which then takes what is there', async () => {
      const made = await configMap();
      await api().patch(ConfigMap, made.metadata, { type: 'merge', body: { data: { b: '2' } } });
      const { resourceVersion: _, ...metadata } = made.metadata;
      const replaced = await api().replace(ConfigMap, { ...made, metadata: metadata as typeof made.metadata });
      expect(replaced.data).toEqual({ a: '1' });
    });
  });

  describe(`${name}: names and identity`, () => {
    it('are completed, and unique', async () => {
      const { namespace } = world();
      const one = await api().create(ConfigMap, { metadata: { namespace, generateName: 'some-' } });
      const two = await api().create(ConfigMap, { metadata: { namespace, generateName: 'some-' } });
      expect(one.metadata.name).toMatch(/^some-[a-z0-9]{5}$/);
      expect(two.metadata.name).not.toBe(one.metadata.name);
      expect(two.metadata.uid).not.toBe(one.metadata.uid);
      expect(Date.parse(one.metadata.creationTimestamp ?? '')).toBeGreaterThan(Date.now() - 60_000);
      const taken = api().create(ConfigMap, { metadata: { namespace, name: one.metadata.name } });
      await expect(taken).rejects.toMatchObject({ code: 409, reason: 'AlreadyExists' });
      await expect(api().create(ConfigMap, { metadata: { namespace } })).rejects.toEqual(code(422));
    });

    it('are asked for what is not there', async () => {
      expect(await api().get(ConfigMap, key('absent'))).toBeUndefined();
      await expect(api().patch(ConfigMap, key('absent'), { type: 'merge', body: {} })).rejects.toEqual(code(404));
      await expect(api().delete(ConfigMap, key('absent'))).rejects.toEqual(code(404));
    });

    it('do not change, and another UID is another object', async () => {
      const made = await configMap();
      const uid = '00000000-0000-4000-8000-ffffffffffff';
      for (const type of ['merge', 'strategic'] as const) {
        const patch = { type, body: { metadata: { uid } } };
        await expect(api().patch(ConfigMap, made.metadata, patch)).rejects.toEqual(code(type === 'merge' ? 422 : 422));
      }
      const other = { ...made, metadata: { ...made.metadata, uid } };
      await expect(api().replace(ConfigMap, other)).rejects.toEqual(code(409));
      await expect(api().delete(ConfigMap, made.metadata, { preconditions: { uid } })).rejects.toEqual(code(409));
      const dated = { metadata: { creationTimestamp: '2020-01-01T00:00:00Z', generation: 99 } };
      const patched = await api().patch(ConfigMap, made.metadata, { type: 'merge', body: dated });
      expect(patched.metadata.creationTimestamp).toBe(made.metadata.creationTimestamp);
      expect(patched.metadata.generation).toBeUndefined();
    });
  });

  describe(`${name}: patches`, () => {
    it.each<[string, Patch, unknown]>([
      ['merge', { type: 'merge', body: { data: { a: null, b: '2' } } }, { b: '2' }],
      ['JSON', { type: 'json', body: [{ op: 'move', from: '/data/a', path: '/data/b' }] }, { b: '1' }],
      [
        'JSON with a test',
        {
          type: 'json',
          body: [
            { op: 'test', path: '/data/a', value: '1' },
            { op: 'add', path: '/metadata/annotations', value: {} },
            { op: 'add', path: '/metadata/annotations/x.io~1y', value: '3' },
            { op: 'replace', path: '/data/new', value: '3' },
            { op: 'copy', from: '/data/a', path: '/data/z' },
            { op: 'remove', path: '/data/a' },
          ],
        },
        { new: '3', z: '1' },
      ],
      ['strategic', { type: 'strategic', body: { data: { a: null, c: '3' } } }, { c: '3' }],
    ])('%s', async (_, patch, data) => {
      const made = await configMap();
      expect((await api().patch(ConfigMap, made.metadata, patch)).data).toEqual(data);
    });

    it.each<[string, object[]]>([
      ['a test that fails', [{ op: 'test', path: '/data/a', value: '2' }]],
      ['a path that is not there', [{ op: 'remove', path: '/data/none' }]],
    ])('JSON is refused for %s', async (_, body) => {
      const made = await configMap();
      await expect(api().patch(ConfigMap, made.metadata, { type: 'json', body })).rejects.toEqual(code(422));
    });

    it('strategic merge lists by their keys, and knows its directives', async () => {
      const made = await api().create(Deployment, deployment(key('strategic')));
      const containers = [
        { name: 'main', env: [{ name: 'B', value: '2' }] },
        { name: 'side', $patch: 'delete' },
        { name: 'new', image: 'new:1' },
      ];
      const metadata = { labels: { app: null, more: 'yes' }, finalizers: ['example.com/a'] };
      const body = { metadata, spec: { template: { spec: { containers } } } };
      const patched = await api().patch(Deployment, made.metadata, { type: 'strategic', body });
      const inside = patched.spec?.template.spec?.containers ?? [];
      expect(inside.map((each) => each.name)).toEqual(expect.arrayContaining(['main', 'new']));
      expect(inside).toHaveLength(2);
      expect(inside.find((each) => each.name === 'main')).toMatchObject({ image: 'main:1' });
      expect(inside.find((each) => each.name === 'main')?.env).toEqual(
        expect.arrayContaining([
          { name: 'A', value: '1' },
          { name: 'B', value: '2' },
        ]),
      );
      expect(patched.metadata).toMatchObject({ labels: { more: 'yes' }, finalizers: ['example.com/a'] });
      expect(patched.metadata.labels).not.toHaveProperty('app');
      const drop = { metadata: { '$deleteFromPrimitiveList/finalizers': ['example.com/a'] } };
      const dropped = await api().patch(Deployment, made.metadata, { type: 'strategic', body: drop });
      expect(dropped.metadata.finalizers ?? []).toEqual([]);
    });

    it('strategic owns and disowns by UID', async () => {
      const made = await configMap();
      // One that exists: the garbage collector looks.
      const { name: ownerName, uid } = (await configMap()).metadata;
      const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: ownerName, uid };
      const own = (ownerReferences: object[]) =>
        api().patch(ConfigMap, made.metadata, { type: 'strategic', body: { metadata: { ownerReferences } } });
      const disown = { $patch: 'delete', uid: owner.uid };
      expect((await own([disown])).metadata.ownerReferences ?? []).toEqual([]);
      expect((await own([owner])).metadata.ownerReferences).toEqual([owner]);
      expect((await own([disown])).metadata.ownerReferences ?? []).toEqual([]);
    });

    it('strategic is not for custom kinds', async () => {
      const made = await site();
      await expect(api().patch(Site(), made.metadata, { type: 'strategic', body: {} })).rejects.toEqual(code(415));
    });
  });

  describe(`${name}: apply`, () => {
    const mine = { fieldManager: 'mine' };
    const yours = { fieldManager: 'yours' };

    it('creates, changes, and takes away what is applied no more, but for what others own', async () => {
      const at = key('applied');
      await api().apply(ConfigMap, { metadata: { ...at, labels: { l: '1' } }, data: { a: '1', b: '2' } }, mine);
      await api().apply(ConfigMap, { metadata: at, data: { b: '2', c: '3' } }, yours);
      const applied = await api().apply(ConfigMap, { metadata: at, data: { a: '9' } }, mine);
      expect(applied.data).toEqual({ a: '9', b: '2', c: '3' });
      expect(applied.metadata.labels ?? {}).toEqual({});
    });

    it('refuses what another manager owns, and names it, unless forced', async () => {
      const at = key('conflict');
      await api().apply(ConfigMap, { metadata: at, data: { a: '1' } }, mine);
      const refused = api().apply(ConfigMap, { metadata: at, data: { a: '2' } }, yours);
      await expect(refused).rejects.toMatchObject({
        code: 409,
        message: expect.stringContaining('conflict with "mine"'),
        status: { details: { causes: [{ reason: 'FieldManagerConflict', field: '.data.a' }] } },
      });
      const forced = await api().apply(ConfigMap, { metadata: at, data: { a: '2' } }, { ...yours, force: true });
      expect(forced.data).toEqual({ a: '2' });
      await expect(api().apply(ConfigMap, { metadata: at, data: { a: '1' } }, mine)).rejects.toEqual(code(409));
      const left = await api().apply(ConfigMap, { metadata: at }, mine);
      expect(left.data).toEqual({ a: '2' });
    });

    it('loses to other kinds of writes what they change', async () => {
      const at = key('overwritten');
      await api().apply(ConfigMap, { metadata: at, data: { a: '1', b: '2' } }, mine);
      await api().patch(ConfigMap, at, { type: 'merge', body: { data: { a: '2' } } });
      await expect(api().apply(ConfigMap, { metadata: at, data: { a: '1' } }, mine)).rejects.toEqual(code(409));
      // Given up, and so left to whoever has it now.
      const left = await api().apply(ConfigMap, { metadata: at }, mine);
      expect(left.data).toEqual({ a: '2' });
    });

    it('knows the items of lists by their keys', async () => {
      const at = key('items');
      await api().create(Deployment, deployment(at));
      const container = (each: object) => ({ spec: { template: { spec: { containers: [each] } } } }) as object;
      const add = { name: 'extra', image: 'extra:1' };
      const applied = await api().apply(Deployment, { metadata: at, ...container(add) }, mine);
      expect(applied.spec?.template.spec?.containers.map((each) => each.name)).toEqual(['main', 'side', 'extra']);
      const dropped = await api().apply(Deployment, { metadata: at }, mine);
      expect(dropped.spec?.template.spec?.containers.map((each) => each.name)).toEqual(['main', 'side']);
      const taken = api().apply(Deployment, { metadata: at, ...container({ name: 'main', image: 'other' }) }, mine);
      await expect(taken).rejects.toEqual(code(409));
    });

    it('of a status leaves the rest alone', async () => {
      const made = await site();
      const { name: own } = made.metadata;
      const status = { metadata: { namespace: world().namespace, name: own }, status: { phase: 'Up' } };
      const applied = await api().apply(Site(), status, { ...mine, subresource: 'status' });
      expect(applied).toMatchObject({ spec: { title: 'x' }, status: { phase: 'Up' } });
    });
  });

  describe(`${name}: status, scale and generation`, () => {
    it('keeps a status out of other writes, and everything else out of those of the status', async () => {
      const at = key('status');
      const made = await api().create(Site(), {
        metadata: at,
        spec: { title: 'x' },
        status: { phase: 'Up' },
      } as object as NewObject<Site>);
      expect(made.status).toBeUndefined();
      const withStatus = await api().replace(Site(), { ...made, spec: {}, status: { phase: 'Up' } }, 'status');
      expect(withStatus).toMatchObject({ spec: { title: 'x' }, status: { phase: 'Up' } });
      const body = { spec: { title: 'y' }, status: { phase: 'Down' } };
      const patched = await api().patch(Site(), at, { type: 'merge', body });
      expect(patched).toMatchObject({ spec: { title: 'y' }, status: { phase: 'Up' } });
      expect([made, withStatus, patched].map(({ metadata }) => metadata.generation)).toEqual([1, 1, 2]);
    });

    it('lets a status write of a built-in kind change metadata too, as far as the kind does', async () => {
      const changed = { labels: { app: 'other' }, annotations: { a: 'b' } };
      const write = (kind: Resource, at: ObjectKey, status: object, metadata: object = changed) => {
        const body = { metadata, spec: { replicas: 5 }, status };
        return api().patch<KubernetesObject>(kind, at, { type: 'merge', body }, 'status');
      };
      const deployed = await api().create(Deployment, deployment(key('deployed')));
      expect(await write(Deployment, deployed.metadata, { collisionCount: 3 })).toMatchObject({
        metadata: { annotations: { a: 'b' }, labels: { app: deployed.metadata.name }, generation: 1 },
        spec: { replicas: 1 },
        status: { collisionCount: 3 },
      });
      const set = await api().create(ReplicaSet, deployment(key('set')));
      expect(await write(ReplicaSet, set.metadata, { observedGeneration: 1 })).toMatchObject({
        metadata: { ...changed, generation: 1 },
        spec: { replicas: 1 },
        status: { replicas: expect.any(Number), observedGeneration: 1 },
      });
      const containers = [{ name: 'main', image: 'pause' }];
      const pod = await api().create(Pod, { metadata: key('pod'), spec: { containers } });
      const { name: ownerName, uid } = (await configMap()).metadata;
      const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: ownerName, uid }];
      const told = await write(Pod, pod.metadata, { message: 'm' }, { ...changed, ownerReferences });
      expect(told.metadata).toMatchObject(changed);
      expect(told.metadata.ownerReferences ?? []).toEqual([]);
      const custom = await write(Site(), (await site()).metadata, { phase: 'Up' });
      expect(custom).toMatchObject({ spec: { title: 'x' }, status: { phase: 'Up' } });
      expect(custom.metadata).not.toHaveProperty('labels');
      expect(custom.metadata).not.toHaveProperty('annotations');
    });

    const template = (app: string, restartPolicy: string) => ({
      metadata: { labels: { app } },
      spec: { restartPolicy, containers: [{ name: 'main', image: 'pause' }] },
    });
    const workload = (app: string) => ({
      selector: { matchLabels: { app } },
      template: template(app, 'Always'),
    });
    const task = (app: string) => ({ template: template(app, 'Never') });
    it.each<[Resource, (app: string) => object, object]>([
      [
        DaemonSet,
        workload,
        { currentNumberScheduled: 0, numberMisscheduled: 0, desiredNumberScheduled: 0, numberReady: 0 },
      ],
      [Deployment, workload, {}],
      [ReplicaSet, workload, { replicas: 0 }],
      [StatefulSet, (app) => ({ ...workload(app), serviceName: app }), { replicas: 0, availableReplicas: 0 }],
      [ReplicationController, (app) => ({ selector: { app }, template: template(app, 'Always') }), { replicas: 0 }],
      [Job, task, {}],
      [CronJob, (app) => ({ schedule: '0 0 1 1 *', jobTemplate: { spec: task(app) } }), {}],
      [Ingress, (app) => ({ defaultBackend: { service: { name: app, port: { number: 80 } } } }), { loadBalancer: {} }],
      [Service, () => ({ ports: [{ port: 80 }] }), { loadBalancer: {} }],
      [
        PodDisruptionBudget,
        () => ({ maxUnavailable: 1 }),
        { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 },
      ],
      [
        PersistentVolumeClaim,
        () => ({ accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } }),
        { phase: 'Pending' },
      ],
    ])('gives a new object of a built-in kind the status that it always has: $kind', async (kind, spec, status) => {
      const at = key('new');
      const made = await api().create<KubernetesObject>(kind, {
        metadata: at,
        spec: spec(at.name),
      } as object as NewObject<KubernetesObject>);
      expect(made).toHaveProperty('status', status);
      await api().delete(kind, at, { propagationPolicy: 'Background' });
    });

    it('gives a new pod a phase', async () => {
      const containers = [{ name: 'main', image: 'pause' }];
      const pod = await api().create(Pod, { metadata: key('pod'), spec: { containers } });
      expect(pod.status).toMatchObject({ phase: 'Pending' });
    });

    it('counts changes of what is asked for, and a delete, as a generation', async () => {
      const made = await site();
      const patch = (body: object) => api().patch(Site(), made.metadata, { type: 'merge', body });
      expect((await patch({ metadata: { labels: { a: 'b' } } })).metadata.generation).toBe(1);
      expect((await patch({ spec: { title: 'y' }, metadata: { finalizers: ['a.b/c'] } })).metadata.generation).toBe(2);
      await api().delete(Site(), made.metadata);
      expect((await api().get(Site(), made.metadata))?.metadata.generation).toBe(3);
      await patch({ metadata: { finalizers: null } });
    });

    it.each([
      [
        'a built-in kind',
        () => api().create(ReplicaSet, { ...(deployment(key('rs')) as NewObject<ReplicaSet>) }),
        () => ReplicaSet,
      ],
      ['a custom kind', () => site({ replicas: 1 }), () => Site()],
    ])('scales %s', async (_, make, of) => {
      const { metadata } = await make();
      const scale = await api().getScale(of(), metadata);
      expect(scale).toMatchObject({ kind: 'Scale', metadata: { uid: metadata.uid }, spec: { replicas: 1 } });
      const set = await api().setScale(of(), metadata, 3);
      const live = await api().get<KubernetesObject>(of(), metadata);
      expect(live).toMatchObject({ spec: { replicas: 3 } });
      expect(set.metadata.resourceVersion).toBe(live?.metadata.resourceVersion);
      const { resourceVersion } = metadata;
      await expect(api().setScale(of(), metadata, 4, { resourceVersion })).rejects.toEqual(code(409));
    });
  });

  describe(`${name}: deletes`, () => {
    it('remove what has no finalizer, and mark what has one', async () => {
      const writer = api();
      const free = await configMap();
      await writer.delete(ConfigMap, free.metadata);
      expect(await api().get(ConfigMap, free.metadata)).toBeUndefined();
      const kept = await configMap({ finalizers: ['example.com/cleanup'] });
      await writer.delete(ConfigMap, kept.metadata);
      const marked = await api().get(ConfigMap, kept.metadata);
      expect(marked?.metadata.deletionTimestamp).toBeDefined();
      await api().delete(ConfigMap, kept.metadata);
      expect((await api().get(ConfigMap, kept.metadata))?.metadata).toEqual(marked?.metadata);
      expect(writer.writes.map(({ gone }) => gone)).toEqual([true, undefined]);
      await expect(ensureFinalizer(api(), ConfigMap, kept, 'example.com/late')).rejects.toEqual(code(422));
      const last = await removeFinalizer(writer, ConfigMap, kept, 'example.com/cleanup');
      expect(last?.metadata.resourceVersion).toBe(marked?.metadata.resourceVersion);
      expect(writer.writes.at(-1)).toMatchObject({ uid: kept.metadata.uid, gone: true });
      expect(await api().get(ConfigMap, kept.metadata)).toBeUndefined();
    });

    it('leave work to the garbage collector when they are asked to', async () => {
      const made = await configMap();
      const { name: owner, uid } = made.metadata;
      // It cannot go yet, so a garbage collector leaves its owner, too.
      const owned = await configMap({
        finalizers: ['example.com/cleanup'],
        ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: owner, uid, blockOwnerDeletion: true }],
      });
      await api().delete(ConfigMap, made.metadata, { propagationPolicy: 'Foreground' });
      const left = await api().get(ConfigMap, made.metadata);
      expect(left?.metadata.finalizers).toEqual(['foregroundDeletion']);
      await removeFinalizer(api(), ConfigMap, owned, 'example.com/cleanup');
    });

    it('give a pod on a node its time', async () => {
      const containers = [{ name: 'main', image: 'pause' }];
      const at = key('pod');
      const bound = await api().create(Pod, { metadata: at, spec: { nodeName: 'nowhere', containers } });
      await api().delete(Pod, bound.metadata, { gracePeriodSeconds: 30 });
      expect((await api().get(Pod, at))?.metadata).toMatchObject({ deletionGracePeriodSeconds: 30 });
      await api().delete(Pod, bound.metadata, { gracePeriodSeconds: 0 });
      expect(await api().get(Pod, at)).toBeUndefined();
      const unbound = await api().create(Pod, { metadata: key('pod'), spec: { containers } });
      const evicting = api();
      await evicting.evict(unbound);
      expect(evicting.writes).toMatchObject([{ uid: unbound.metadata.uid, deleted: true }]);
      expect(await api().get(Pod, unbound.metadata)).toBeUndefined();
    });

    it('of a collection are told object by object', async () => {
      const labels = { batch: uniqueName('batch') };
      const made = [await configMap({ labels }), await configMap({ labels, finalizers: ['example.com/cleanup'] })];
      const writer = api();
      const options = { namespace: world().namespace, labelSelector: { matchLabels: labels } };
      expect(await writer.deleteCollection(ConfigMap, options)).toBe(2);
      expect(new Set(writer.writes.map(({ uid }) => uid))).toEqual(new Set(made.map(({ metadata }) => metadata.uid)));
      const { items } = await api().list(ConfigMap, options);
      expect(items.map(({ metadata }) => Boolean(metadata.deletionTimestamp))).toEqual([true]);
      for (const item of items) await removeFinalizer(api(), ConfigMap, item, 'example.com/cleanup');
    });
  });

  describe(`${name}: lists`, () => {
    it('are selected by labels and fields, and paged', async () => {
      const { namespace } = world();
      const page = uniqueName('page');
      for (const tier of ['a', 'b', 'b']) await configMap({ labels: { page, tier } });
      const names = async (labelSelector: string) =>
        (await api().list(ConfigMap, { namespace, labelSelector, pageSize: 1 })).items.map(
          (item) => item.metadata.name,
        );
      expect(await names(`page=${page}`)).toHaveLength(3);
      expect(await names(`page=${page},tier in (b)`)).toHaveLength(2);
      expect(await names(`page=${page},tier!=b`)).toHaveLength(1);
      const [first = ''] = await names(`page=${page}`);
      const fieldSelector = `metadata.name=${first}`;
      expect((await api().list(ConfigMap, { namespace, fieldSelector })).items).toHaveLength(1);
      const wrong = api().list(ConfigMap, { namespace, fieldSelector: 'data.a=1' });
      await expect(wrong).rejects.toMatchObject({ code: 400 });
      expect((await api().list(ConfigMap, { namespace: 'absent' })).items).toEqual([]);
    });
  });

  it(`${name}: takes events, and counts them`, async () => {
    const about = await configMap();
    const recorder = new EventRecorder({ component: 'contract' });
    const Event = { apiVersion: 'v1', kind: 'Event', plural: 'events', namespaced: true };
    for (let run = 1; run <= 2; run += 1) {
      const writer = api();
      recorder.about(ConfigMap, about, { api: writer, log: silentLogger }).normal('Done', 'it is done');
      await writer.finish();
    }
    const { items } = await api().list(Event, {
      namespace: world().namespace,
      fieldSelector: `involvedObject.uid=${about.metadata.uid}`,
    });
    expect(items).toMatchObject([{ reason: 'Done', count: 2 }]);
  });

  it(`${name}: keeps fields that no type knows`, async () => {
    const spec = { title: 'x', ofTomorrow: { deep: [1, null, { a: '' }] } } as Site['spec'];
    const made = await site(spec);
    const replaced = await api().replace(Site(), { ...made, metadata: { ...made.metadata, labels: { a: 'b' } } });
    expect(replaced.spec).toEqual(spec);
    const ports = [{ port: 80, targetPort: 8080 }];
    const service = await api().create(Service, { metadata: key('svc'), spec: { clusterIP: 'None', ports } });
    expect(service.spec?.ports).toMatchObject(ports);
  });
}
