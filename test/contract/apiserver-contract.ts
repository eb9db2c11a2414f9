import { describe, expect, it } from 'vitest';
import { type KubernetesObject, type ObjectKey, silentLogger } from '../../src/core/index.ts';
import {
  discoverResources,
  ensureFinalizer,
  EventRecorder,
  type Patch,
  removeFinalizer,
} from '../../src/function/index.ts';
import { ConfigMap, Deployment, Lease, Namespace, Pod, ReplicaSet, Service } from '../../src/function/kinds/index.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { apiserverFixture, type ApiserverWorld, type Site } from './apiserver/fixture.ts';
import { patchesContract } from './apiserver/patches.ts';
import { statusContract } from './apiserver/status.ts';

/** What every apiserver that a reconciler is tested with does. Run for the one in memory and for a real one. */
export function apiserverContract(name: string, world: () => ApiserverWorld): void {
  const fixture = apiserverFixture(world);
  const { api, key, code, configMap, deployment, site, Site } = fixture;

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

    it('stay when a write has empty or null metadata in place of absent', async () => {
      const empty = { labels: {}, annotations: null, finalizers: [], ownerReferences: [] } as never;
      const custom = await api().create(Site(), { metadata: { ...key('site'), ...(empty as object) }, spec: {} });
      const map = await configMap(empty);
      for (const { metadata } of [custom, map]) {
        for (const field of ['labels', 'annotations', 'finalizers', 'ownerReferences'])
          expect(metadata).not.toHaveProperty(field);
      }
      const replaced = await api().replace(Site(), {
        ...custom,
        metadata: { ...custom.metadata, ...(empty as object) },
      });
      const body = { metadata: { labels: {}, annotations: {}, finalizers: [] } };
      const patched = await api().patch(Site(), custom.metadata, { type: 'merge', body });
      expect([replaced, patched].map((each) => each.metadata.resourceVersion)).toEqual(
        [custom, custom].map((each) => each.metadata.resourceVersion),
      );
      const same = await api().patch(ConfigMap, map.metadata, { type: 'merge', body: { ...body, binaryData: {} } });
      expect(same.metadata.resourceVersion).toBe(map.metadata.resourceVersion);
    });

    it('count no change when a built-in kind gets what its types take for absent, or another text of a quantity', async () => {
      const at = key('quantity');
      const made = deployment(at);
      const [main, ...rest] = made.spec?.template.spec?.containers ?? [];
      const containers = (memory: string, more: object) => [
        { ...main, resources: { limits: { memory } }, ...more },
        ...rest,
      ];
      const spec = (memory: string, more: object, pod: object) => ({
        ...made.spec,
        template: { ...made.spec?.template, spec: { containers: containers(memory, more), ...pod } },
      });
      const created = await api().create(Deployment, { ...made, spec: spec('1Gi', {}, {}) } as never);
      const patch = { spec: spec('1024Mi', { command: null, args: [] }, { nodeSelector: {}, tolerations: [] }) };
      const patched = await api().patch(Deployment, at, { type: 'strategic', body: patch });
      expect(patched.metadata.generation).toBe(created.metadata.generation);
      const security = { spec: { template: { spec: { containers: [{ name: 'main', securityContext: {} }] } } } };
      const secured = await api().patch(Deployment, at, { type: 'strategic', body: security });
      expect(secured.metadata.generation).toBe(2);
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

    it('may not be left out of a replace of a custom kind or of a Lease', async () => {
      const unversioned = <T extends KubernetesObject>({ metadata, ...rest }: T): T => {
        const { resourceVersion: _, ...others } = metadata;
        return { ...rest, metadata: others } as never;
      };
      const custom = await site();
      await expect(api().replace(Site(), unversioned(custom))).rejects.toEqual(code(422));
      const lease = await api().create(Lease, { metadata: key('lease'), spec: { holderIdentity: 'a' } });
      await expect(api().replace(Lease, unversioned(lease))).rejects.toEqual(code(422));
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

  patchesContract(name, fixture);
  statusContract(name, fixture);

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

  it(`${name}: lists metadata without the rest`, async () => {
    const { namespace, name: of } = (await configMap({ labels: { of: 'metadata' } })).metadata;
    const { items } = await api().listMetadata(ConfigMap, { namespace: namespace ?? '', labelSelector: 'of=metadata' });
    const found = items.find(({ metadata }) => metadata.name === of);
    expect(found).toMatchObject({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { labels: { of: 'metadata' } } });
    expect(found).not.toHaveProperty('data');
  });

  it(`${name}: tells which kinds it serves`, async () => {
    await site();
    const { resources, stale, invalid } = await discoverResources(api());
    const verbs = expect.arrayContaining(['get', 'list', 'delete', 'deletecollection']);
    for (const { objectType: _, ...each } of [ConfigMap, Namespace, Site()]) {
      const needed = each.kind === 'Namespace' ? expect.arrayContaining(['get', 'list', 'delete']) : verbs;
      expect(resources).toContainEqual({ ...each, verbs: needed });
    }
    expect({ stale, invalid }).toEqual({ stale: [], invalid: [] });
  });

  it(`${name}: keeps a Namespace until the last finalizer of its spec is taken away`, async () => {
    const at = { name: uniqueName('finalized') };
    await api().create(Namespace, { metadata: at, spec: { finalizers: ['example.com/theirs'] } });
    await api().delete(Namespace, at);
    const deleting = await api().get(Namespace, at);
    expect(deleting?.metadata.deletionTimestamp).toBeDefined();
    if (!deleting) return;
    const writer = api();
    const stays = await writer.replace(
      Namespace,
      { ...deleting, spec: { finalizers: ['example.com/theirs', 'example.com/ours'] } },
      'finalize',
    );
    expect(stays.spec?.finalizers).toEqual(['example.com/theirs', 'example.com/ours']);
    await writer.replace(Namespace, { ...stays, spec: { finalizers: [] } }, 'finalize');
    expect(await api().get(Namespace, at)).toBeUndefined();
    const { uid } = deleting.metadata;
    expect(writer.writes).toMatchObject([{ resourceVersion: stays.metadata.resourceVersion }, { uid, gone: true }]);
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

  it(`${name}: keeps integers of 64 bits through each kind of write`, async () => {
    const spec = { title: 'x', max: 9223372036854775807n, min: -9223372036854775808n, odd: [9007199254740993n] };
    const made = await site(spec);
    expect(made.spec).toEqual(spec);
    const replaced = await api().replace(Site(), { ...made, metadata: { ...made.metadata, labels: { a: 'b' } } });
    expect(replaced.spec).toEqual(spec);
    const patch = { type: 'merge', body: { spec: { odd: [9007199254740995n] } } } as const;
    expect((await api().patch(Site(), made.metadata, patch)).spec).toEqual({ ...spec, odd: [9007199254740995n] });
    const { namespace, name: its } = made.metadata;
    const metadata = { ...(namespace === undefined ? {} : { namespace }), name: its };
    const applied = await api().apply(Site(), { metadata, spec }, { fieldManager: 'test', force: true });
    expect(applied.spec).toEqual(spec);
    expect((await api().get(Site(), made.metadata))?.spec).toEqual(spec);
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
