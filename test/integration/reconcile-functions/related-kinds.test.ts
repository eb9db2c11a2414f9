import { describe, expect } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { controller } from '../../../src/function/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { ServedFunction } from '../../harness/served-function.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

const GROUP = 'related.levelhook.test';
const widgets = resource(`${GROUP}/v1`, 'Widget');
const accounts = resource('v1', 'ServiceAccount');
const definitions = resource<KubernetesObject & { status?: { conditions?: { type: string; status: string }[] } }>(
  'apiextensions.k8s.io/v1',
  'CustomResourceDefinition',
  { namespaced: false },
);
const definition = { name: `widgets.${GROUP}` };

describe('related objects of any kind, named by the function of a tenant', () => {
  const role = uniqueName('kinds');
  /** What the last run has seen of each kind; undefined: the kind is not cached for it. */
  const seen = new Map<string, readonly string[] | undefined>();
  let runs = 0;
  let cluster: Cluster;
  let namespace: string;
  let tenant: Tenant;
  let fn: ServedFunction;

  const curious = controller({ name: 'curious', for: configMaps, relatedKinds: 'any' }).reconcile(
    async ({ name }, { cache, related }) => {
      if (name !== 'parent') return;
      related([
        { resource: widgets, namespace },
        { resource: accounts, namespace, names: ['one'] },
      ]);
      for (const kind of [widgets, accounts]) {
        const list = await cache.list(kind, { namespace }).catch((error: unknown) => {
          if (error instanceof TypeError && error.message.includes('is not cached')) return undefined;
          throw error;
        });
        seen.set(
          kind.kind,
          list?.items.map(({ metadata }) => metadata.name),
        );
      }
      runs += 1;
    },
  );

  it.beforeAll(async ({ world }) => {
    const { started } = world;
    ({ cluster, namespace } = world);
    await installReconcileFunctions(cluster);
    tenant = await new Tenant(cluster, namespace).create();
    await tenant.allow('own', [{ apiGroups: [''], resources: ['configmaps'] }]);
    const setting = { ...world.setting, secret: tenant.secret };
    fn = await started.open(new ServedFunction(curious, setting));
    const gateway = started.keep(await openGateway(setting, [], settingsFor([namespace], [fn.url])));
    await untilReady(gateway.url);
    started.add(removeDefinition);
    await cluster.create(configMaps, { metadata: { namespace, name: 'parent' } });
    await tenant.declare('curious', {
      endpoint: { url: fn.url },
      for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] },
      relatedKinds: 'any',
    });
    await tenant.until('curious', 'Ready', { status: 'True' });
    await eventually(async () => expect(runs).toBeGreaterThan(0));
  });

  async function define(): Promise<void> {
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    const names = { kind: 'Widget', plural: 'widgets', singular: 'widget', listKind: 'WidgetList' };
    const versions = [{ name: 'v1', served: true, storage: true, schema }];
    await cluster.create(definitions, {
      metadata: definition,
      spec: { group: GROUP, scope: 'Namespaced', names, versions },
    });
    await eventually(() => cluster.create(widgets, { metadata: { namespace, name: 'first' } }));
  }

  async function removeDefinition(): Promise<void> {
    if (await cluster.get(definitions, definition)) await cluster.delete(definitions, definition);
    await eventually(async () => expect(await cluster.get(definitions, definition)).toBeUndefined());
  }

  const untilSeen = (kind: string, names: readonly string[] | undefined): Promise<void> =>
    eventually(async () => expect(seen.get(kind)).toEqual(names));

  it('wake its key for a kind that it may not read from when it may, until it may not', async ({ world }) => {
    await cluster.create(accounts, { metadata: { namespace, name: 'one' } });
    expect(seen.get('ServiceAccount')).toBeUndefined();
    expect(Object.keys(fn.triggers.at(-1)?.cache.views ?? {})).toEqual([]);
    await tenant.allowEverywhere(role, [{ apiGroups: [''], resources: ['serviceaccounts'] }]);
    world.started.add(() => tenant.denyEverywhere(role).catch(() => {}));
    await eventually(async () => expect(seen.get('ServiceAccount')).toContain('one'));
    await cluster.delete(accounts, { namespace, name: 'one' });
    await eventually(async () => expect(seen.get('ServiceAccount')).not.toContain('one'));
    const before = runs;
    await tenant.denyEverywhere(role);
    await eventually(async () => {
      await cluster.patch(configMaps, { namespace, name: 'parent' }, { data: { run: String(Date.now()) } });
      expect(runs).toBeGreaterThan(before);
      expect(seen.get('ServiceAccount')).toBeUndefined();
    });
    await tenant.until('curious', 'Ready', { status: 'True' });
  });

  it('wake its key when the kind is defined, removed and defined again', async ({ world: { started } }) => {
    const all = `${role}-widgets`;
    await tenant.allowEverywhere(all, [{ apiGroups: [GROUP], resources: ['widgets'] }]);
    started.add(() => tenant.denyEverywhere(all));
    expect(seen.get('Widget')).toBeUndefined();
    await define();
    await untilSeen('Widget', ['first']);
    await cluster.create(widgets, { metadata: { namespace, name: 'second' } });
    await untilSeen('Widget', ['first', 'second']);
    await removeDefinition();
    await eventually(async () => expect(seen.get('Widget') ?? []).toEqual([]));
    await define();
    await untilSeen('Widget', ['first']);
  }, 240_000);
});
