import { describe, expect, it } from 'vitest';
import type { Patch } from '../../../src/function/index.ts';
import { ConfigMap, Deployment, Service } from '../../../src/function/kinds/index.ts';
import type { ApiserverFixture } from './fixture.ts';

/** The three kinds of patches, and server-side apply. */
export function patchesContract(
  name: string,
  { world, api, key, code, configMap, deployment, site, Site }: ApiserverFixture,
): void {
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
      // The owner must exist, because the garbage collector deletes objects of absent owners.
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

    it('tells ports of one number by their protocols', async () => {
      const at = key('ports');
      const ports = [
        { name: 'dns', port: 53, protocol: 'UDP', targetPort: 5353 },
        { name: 'dns-tcp', port: 53, targetPort: 5353 },
      ];
      const spec = { clusterIP: 'None', selector: { app: 'dns' } };
      const shown = ({ spec: found }: Service): unknown[] =>
        (found?.ports ?? []).map(({ name: its, protocol = 'TCP' }) => `${its} ${protocol}`).toSorted();
      const both = await api().apply(Service, { metadata: at, spec: { ...spec, ports } }, mine);
      expect(shown(both)).toEqual(['dns UDP', 'dns-tcp TCP']);
      const named = [{ name: 'other', port: 53, protocol: 'TCP', targetPort: 5353 }];
      const forced = { ...yours, force: true };
      const renamed = await api().apply(Service, { metadata: at, spec: { ports: named } }, forced);
      expect(shown(renamed)).toEqual(['dns UDP', 'other TCP']);
      const left = await api().apply(
        Service,
        { metadata: at, spec: { ...spec, ports: ports.slice(1) } },
        {
          ...mine,
          force: true,
        },
      );
      expect(shown(left)).toEqual(['dns-tcp TCP']);
    });

    it("tells containers' ports by their protocols, and constraints by their effects", async () => {
      const at = key('keys');
      const labelSelector = { matchLabels: { app: 'keys' } };
      const constraint = (whenUnsatisfiable: 'DoNotSchedule' | 'ScheduleAnyway', maxSkew: number) => ({
        topologyKey: 'zone',
        whenUnsatisfiable,
        maxSkew,
        labelSelector,
      });
      const ports = [
        { name: 'udp', containerPort: 53, protocol: 'UDP' },
        { name: 'tcp', containerPort: 53 },
      ];
      const topologySpreadConstraints = [constraint('DoNotSchedule', 1), constraint('ScheduleAnyway', 2)];
      const made = deployment(at);
      const spec = made.spec?.template.spec;
      const [main] = spec?.containers ?? [];
      const applied = await api().apply(
        Deployment,
        {
          ...made,
          spec: {
            ...made.spec,
            template: {
              ...made.spec?.template,
              spec: { ...spec, topologySpreadConstraints, containers: [{ ...main, ports }] },
            },
          },
        } as never,
        mine,
      );
      const inside = applied.spec?.template.spec;
      expect(inside?.topologySpreadConstraints).toMatchObject(topologySpreadConstraints);
      expect(inside?.containers[0]?.ports).toMatchObject(ports);
      const again = {
        metadata: at,
        spec: { template: { spec: { topologySpreadConstraints: [constraint('ScheduleAnyway', 3)] } } },
      };
      const changed = await api().apply(Deployment, again, { ...yours, force: true });
      expect(changed.spec?.template.spec?.topologySpreadConstraints?.map(({ maxSkew }) => maxSkew)).toEqual([1, 3]);
    });

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
      // This manager gives the field up, so the field stays as the other manager has it.
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

    it('owns an empty object as it owns a value', async () => {
      const at = key('empty');
      const spec = (fields: object) => ({ metadata: at, spec: fields });
      await api().apply(Site(), spec({ title: 'x', empty: {}, filled: {} }), mine);
      await api().apply(Site(), spec({ filled: { more: 1 } }), yours);
      const taken = api().apply(Site(), spec({ empty: 1 }), yours);
      await expect(taken).rejects.toMatchObject({
        code: 409,
        status: { details: { causes: [{ reason: 'FieldManagerConflict', field: '.spec.empty' }] } },
      });
      const left = await api().apply(Site(), spec({ title: 'x' }), mine);
      expect(left.spec).toEqual({ title: 'x', filled: { more: 1 } });
    });

    it('takes away objects that it has emptied, unless another manager owns them', async () => {
      const at = key('emptied');
      const spec = (fields: object) => ({ metadata: at, spec: fields });
      await api().apply(Site(), spec({ title: 'x', gone: { inner: { a: 1 } }, shared: { a: 1 } }), mine);
      await api().apply(Site(), spec({ shared: { a: 1 } }), yours);
      const left = await api().apply(Site(), spec({ title: 'x' }), mine);
      expect(left.spec).toEqual({ title: 'x', shared: { a: 1 } });
      // Of a built-in kind, too.
      const applied = deployment(key('emptied'));
      const inside = applied.spec?.template.spec;
      const securityContext = { runAsUser: 1 };
      const template = (pod: object) => ({ ...applied.spec?.template, spec: { ...inside, ...pod } });
      const withPod = (pod: object) => ({ ...applied, spec: { ...applied.spec, template: template(pod) } }) as never;
      const volumes = [{ name: 'v', emptyDir: {} }];
      await api().apply(Deployment, withPod({ volumes, securityContext }), mine);
      const bare = await api().apply(Deployment, withPod({}), mine);
      expect(bare.spec?.template.spec?.volumes).toBeUndefined();
      expect(bare.spec?.template.spec?.securityContext ?? {}).toEqual({});
    });

    it('makes a new version when only the owners change, and none when nothing does', async () => {
      const at = key('owners');
      const whole = { metadata: at, spec: { title: 'x' } };
      const made = await api().create(Site(), whole);
      const shared = await api().apply(Site(), whole, mine);
      expect(shared.metadata.resourceVersion).not.toBe(made.metadata.resourceVersion);
      expect(shared.metadata.generation).toBe(made.metadata.generation);
      const again = await api().apply(Site(), whole, mine);
      expect(again.metadata.resourceVersion).toBe(shared.metadata.resourceVersion);
      const status = { metadata: at, status: { phase: 'Up' } };
      const both = await api().apply(Site(), status, { ...mine, subresource: 'status' });
      // The status of the same manager has owners of its own.
      expect((await api().apply(Site(), whole, mine)).metadata.resourceVersion).toBe(both.metadata.resourceVersion);
    });

    it('of a status leaves the rest alone', async () => {
      const made = await site();
      const { name: own } = made.metadata;
      const status = { metadata: { namespace: world().namespace, name: own }, status: { phase: 'Up' } };
      const applied = await api().apply(Site(), status, { ...mine, subresource: 'status' });
      expect(applied).toMatchObject({ spec: { title: 'x' }, status: { phase: 'Up' } });
    });
  });
}
