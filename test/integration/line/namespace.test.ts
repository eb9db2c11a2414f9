import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Resource, resource } from '../../../src/core/index.ts';
import { APIService, CustomResourceDefinition, Namespace, NetworkPolicy } from '../../../src/function/kinds/index.ts';
import { type Cluster, configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';
import { WorkloadPlane } from '../../harness/workload-plane.ts';

const HELD = ['levelhook.test/held'];
/** Five seconds until the first look, eight until the next one, and the machine's load. */
const LIMIT_MS = 120_000;

/** A control plane of its own: without the built-in controller, and with definitions that concern each Namespace. */
describe('the namespace function behind a gateway, on a real control plane', () => {
  const started = new Started();
  let workloads: WorkloadPlane;
  let cluster: Cluster;

  beforeAll(async () => {
    workloads = await WorkloadPlane.start(started, { functions: ['namespace'], nodes: 1 });
    ({ cluster } = workloads);
    await workloads.startLine();
  });

  afterAll(() => started.stop());

  async function made(stem: string): Promise<string> {
    const name = uniqueName(stem);
    await cluster.createNamespace(name);
    return name;
  }

  const configMap = (namespace: string, name: string, finalizers: readonly string[] = []) =>
    cluster.create(configMaps, { metadata: { namespace, name, finalizers }, data: { a: 'b' } });
  const release = (of: Resource, namespace: string, name: string) =>
    cluster.patch(of, { namespace, name }, { metadata: { finalizers: null } });
  const goes = (name: string) =>
    eventually(
      async () => expect(await cluster.get(Namespace, { name }), workloads.output(3000)).toBeUndefined(),
      LIMIT_MS,
    );

  /** The message of a condition, once it is True. */
  const said = (name: string, type: string): Promise<string> =>
    eventually(async () => {
      const { conditions = [] } = (await cluster.get(Namespace, { name }))?.status ?? {};
      expect(conditions.map((each) => each.type)).toHaveLength(5);
      const condition = conditions.find((each) => each.type === type);
      expect(condition).toMatchObject({ status: 'True' });
      return condition?.message ?? '';
    }, LIMIT_MS);

  it('waits for finalizers, says which, and lets the Namespace go when they are gone', async () => {
    const name = await made('held');
    await configMap(name, 'held', HELD);
    await configMap(name, 'free');
    await cluster.deleteNamespace(name);
    expect(await said(name, 'NamespaceFinalizersRemaining')).toContain('levelhook.test/held in 1 resource instances');
    expect(await said(name, 'NamespaceContentRemaining')).toBe(
      'Some resources are remaining: configmaps. has 1 resource instances',
    );
    await release(configMaps, name, 'held');
    await goes(name);
  });

  it('deletes the pods, and what they need to end only after them', async () => {
    const name = await made('pods');
    const spec = { terminationGracePeriodSeconds: 4, containers: [{ name: 'main', image: 'pause' }] };
    await eventually(() =>
      cluster.create(pods, { metadata: { namespace: name, name: 'held', finalizers: HELD }, spec }),
    );
    await cluster.create(pods, { metadata: { namespace: name, name: 'quick' }, spec });
    await cluster.create(NetworkPolicy, { metadata: { namespace: name, name: 'wall' }, spec: { podSelector: {} } });
    await eventually(async () => {
      const phases = (await cluster.list(pods, name)).items.map(({ status }) => status?.phase);
      expect(phases).toEqual(['Running', 'Running']);
    });
    await cluster.deleteNamespace(name);
    expect(await said(name, 'NamespaceContentRemaining')).toContain('pods.');
    expect((await cluster.list(NetworkPolicy, name)).items).toHaveLength(1);
    await release(pods, name, 'held');
    await goes(name);
  });

  it('deletes more objects of a kind than fit into a request or an outcome', async () => {
    const name = await made('many');
    const numbers = Array.from({ length: 1200 }, (_, at) => at);
    const next = numbers.values();
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        for (const at of next) await configMap(name, `map-${at}`);
      }),
    );
    await cluster.deleteNamespace(name);
    await goes(name);
    const requests = (await workloads.audit.requests()).filter(({ namespace }) => namespace === name);
    const deletes = requests.filter(({ verb, resource: of }) => verb === 'deletecollection' && of === 'configmaps');
    // 1,200 and `kube-root-ca.crt`, 500 at a time, in one run.
    expect(deletes).toHaveLength(3);
  });

  it('finalizes a Namespace that others change all the time', async () => {
    const name = await made('busy');
    await configMap(name, 'held', HELD);
    await cluster.deleteNamespace(name);
    const over = new AbortController();
    const busy = (async () => {
      for (let at = 0; !over.signal.aborted; at += 1) {
        await cluster.patch(Namespace, { name }, { metadata: { annotations: { at: String(at) } } }).catch(() => {});
        await sleep(5);
      }
    })();
    try {
      await said(name, 'NamespaceContentRemaining');
      await release(configMaps, name, 'held');
      await goes(name);
    } finally {
      over.abort();
      await busy;
    }
  });

  it('leaves alone what is in the next Namespace of the name', async () => {
    const name = await made('again');
    await configMap(name, 'old');
    await cluster.deleteNamespace(name);
    await goes(name);
    await cluster.createNamespace(name);
    await configMap(name, 'new');
    // The wakeup by the end of the first one waits for five seconds.
    await sleep(8000);
    expect(await cluster.get(configMaps, { namespace: name, name: 'new' })).toBeDefined();
    expect((await cluster.get(Namespace, { name }))?.status?.phase).toBe('Active');
    await cluster.deleteNamespace(name);
    await goes(name);
  });

  describe('with kinds that come and go', () => {
    const group = 'namespace.levelhook.test';
    const sites = resource(`${group}/v1`, 'Site');
    const definition = (served: boolean) => {
      const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
      return {
        metadata: { name: `sites.${group}` },
        spec: {
          group,
          scope: 'Namespaced',
          names: { kind: 'Site', plural: 'sites' },
          versions: [{ name: 'v1', served, storage: true, schema }],
        },
      };
    };
    const key = { name: `sites.${group}` };
    const site = (namespace: string, finalizers: readonly string[] = []) =>
      eventually(() => cluster.create(sites, { metadata: { namespace, name: 'site', finalizers } }));
    const serve = (served: boolean) =>
      cluster.patch(CustomResourceDefinition, key, { spec: { versions: definition(served).spec.versions } });
    const untilServed = () => eventually(() => cluster.list(sites));
    const undefine = async () => {
      await cluster.delete(CustomResourceDefinition, key);
      await eventually(async () => expect(await cluster.get(CustomResourceDefinition, key)).toBeUndefined());
    };

    it('is not held up by one that is deleted in the middle', async () => {
      await cluster.create(CustomResourceDefinition, definition(true));
      await untilServed();
      const name = await made('goes');
      await site(name, HELD);
      await configMap(name, 'held', HELD);
      await cluster.deleteNamespace(name);
      expect(await said(name, 'NamespaceContentRemaining')).toContain(`sites.${group} has 1`);
      await cluster.delete(CustomResourceDefinition, key);
      await release(sites, name, 'site');
      await eventually(async () => expect(await cluster.get(CustomResourceDefinition, key)).toBeUndefined());
      await release(configMaps, name, 'held');
      await goes(name);
    });

    it('deletes the objects of one that is made in the middle', async () => {
      await cluster.create(CustomResourceDefinition, definition(true));
      await untilServed();
      const name = await made('comes');
      await site(name);
      await serve(false);
      await eventually(async () => await expect(cluster.list(sites)).rejects.toThrow());
      await configMap(name, 'held', HELD);
      await cluster.deleteNamespace(name);
      expect(await said(name, 'NamespaceContentRemaining')).not.toContain('sites');
      await serve(true);
      await untilServed();
      await release(configMaps, name, 'held');
      await goes(name);
      expect((await cluster.list(sites)).items).toEqual([]);
      await undefine();
    });

    // The last one: it concerns all Namespaces.
    it('keeps a Namespace while an aggregated server does not answer, since its kinds are not known', async () => {
      const version = 'v1';
      const service = { name: `${version}.absent.levelhook.test` };
      const name = await made('stale');
      await configMap(name, 'a');
      await cluster.create(APIService, {
        metadata: service,
        spec: {
          group: 'absent.levelhook.test',
          version,
          groupPriorityMinimum: 100,
          versionPriority: 100,
          insecureSkipTLSVerify: true,
          service: { namespace: 'default', name: 'absent', port: 443 },
        },
      });
      // Discovery lists it once the aggregator has tried to reach it.
      await eventually(async () => {
        const { conditions = [] } = (await cluster.get(APIService, service))?.status ?? {};
        expect(conditions).toContainEqual(expect.objectContaining({ type: 'Available', status: 'False' }));
      });
      await sleep(3000);
      await cluster.deleteNamespace(name);
      expect(await said(name, 'NamespaceDeletionDiscoveryFailure')).toBe(
        'Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: ' +
          'absent.levelhook.test/v1: stale GroupVersion discovery: absent.levelhook.test/v1',
      );
      // What is known is deleted.
      expect((await cluster.list(configMaps, name)).items).toEqual([]);
      expect(await cluster.get(Namespace, { name })).toBeDefined();
      await cluster.delete(APIService, service);
      await goes(name);
    });
  });
});
