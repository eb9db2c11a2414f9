import { expect } from 'vitest';
import { controller } from 'levelhook/function';
import { kubeConfigTransport } from 'levelhook/function/node';
import {
  ConfigMap,
  Deployment,
  Endpoints,
  EndpointSlice,
  Lease,
  Namespace,
  Node,
  Pod,
  ReplicaSet,
  Service,
} from '../../../src/function/kinds/index.ts';
import { ApiError, type KubernetesObject, type Resource, resourcePath } from '../../../src/core/index.ts';
import { CACHE_KEYS } from '../../harness/cache-keys.ts';
import { CacheClient } from '../../harness/cache-client.ts';
import { eventually } from '../../harness/eventually.ts';
import { exact } from '../../harness/exact-json.ts';
import { openFunction } from '../../harness/opened.ts';
import {
  randomInteger,
  randomPodSpec,
  randomPodTemplate,
  randomQuantity,
  randomText,
  randomTexts,
} from '../../harness/random-values.ts';
import { type Random, seededRandom } from '../../harness/seeded-random.ts';
import { it } from '../../harness/world.ts';

/** The kinds that the functions in the box read or write, each with fields for an object, as JSON. */
function objectsOf(random: Random): readonly (readonly [Resource, string])[] {
  const text = (): string => JSON.stringify(randomText(random));
  const quantity = (): string => JSON.stringify(randomQuantity(random));
  const size = (): string => randomInteger(random).replace('-', '');
  const target = (): string => `{"kind":"Pod","name":${text()},"uid":${text()},"fieldPath":${text()}}`;
  const workload = (name: string): string => {
    const labels = { odd: name };
    const template = randomPodTemplate(random, labels);
    return `"spec":{"replicas":0,"selector":{"matchLabels":${JSON.stringify(labels)}},"template":${template}}`;
  };
  const affinity = `"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":86400}}`;
  const address = `{"ip":"10.9.9.9","hostname":"a","targetRef":${target()}}`;
  const endpoint = `{"addresses":["10.9.9.8"],"conditions":{"ready":null},"zone":"0","targetRef":${target()}}`;
  const amounts = `{"cpu":${quantity()},"memory":${quantity()},"pods":"110"}`;
  const images = `[{"names":[${text()},""],"sizeBytes":${size()}},{"sizeBytes":${size()}}]`;
  const times = '"acquireTime":"2025-01-01T00:00:00.000001Z","renewTime":"2025-02-28T23:59:59.999999Z"';
  return [
    [ConfigMap, `"data":{"__proto__":${text()},${randomTexts(random).slice(1)},"binaryData":{"empty":"","4":"AA=="}`],
    [Service, `"spec":{"ports":[{"port":80}],${affinity}}`],
    [Endpoints, `"subsets":[{"addresses":[${address}],"ports":[{"port":80,"name":""}]}]`],
    [EndpointSlice, `"addressType":"IPv4","endpoints":[${endpoint}],"ports":[]`],
    [Node, `"spec":{"unschedulable":true},"status":{"capacity":${amounts},"images":${images}}`],
    [Lease, `"spec":{"holderIdentity":"größe 9007199254740993","leaseTransitions":2147483647,${times}}`],
    [Pod, `"spec":${randomPodSpec(random)}`],
    [ReplicaSet, workload('set')],
    [Deployment, workload('deployment')],
  ];
}

const WRITES = ['replace', 'json', 'merge', 'apply'] as const;

/** The object without the fields that each write changes. */
function unchanged(text: string, annotation: string): unknown {
  const { metadata, ...rest } = exact(text) as KubernetesObject;
  // An annotation of a Deployment counts as a new generation.
  const { managedFields: _, generation: __, resourceVersion, annotations, ...others } = metadata;
  const { [annotation]: ___, ...kept } = annotations ?? {};
  expect(resourceVersion).toMatch(/^\d+$/);
  return { ...rest, metadata: { ...others, annotations: kept } };
}

const versionOf = (text: string): string => (JSON.parse(text) as KubernetesObject).metadata.resourceVersion ?? '';

it('an object of each kind in the box keeps all that a write of a function does not change', async ({ world }) => {
  const { cluster, namespace, setting, started } = world;
  const transport = kubeConfigTransport(setting.kubeconfig);
  /** Past everything that is tested: texts to and from the apiserver. */
  const ask = async (method: 'GET' | 'POST', path: string, body?: string): Promise<string> => {
    const sent = body === undefined ? {} : { body, contentType: 'application/json' };
    const answer = await transport({ method, path, signal: AbortSignal.timeout(30_000), ...sent });
    if (answer.status >= 300) throw new Error(answer.body);
    return answer.body;
  };
  const random = seededRandom('every kind');
  const keyOf = (of: Resource, name: string) => ({ name, ...(of.namespaced ? { namespace } : {}) });
  await cluster.patch(Namespace, { name: namespace }, { metadata: { annotations: { odd: '9007199254740993' } } });
  const objects = [{ of: Namespace as Resource, key: keyOf(Namespace, namespace) }];
  for (const [of, fields] of objectsOf(random)) {
    const key = keyOf(of, of.namespaced ? 'odd' : `odd-${namespace}`);
    const metadata = `{"name":"${key.name}","annotations":${randomTexts(random)}}`;
    const head = `"apiVersion":"${of.apiVersion}","kind":"${of.kind}","metadata":${metadata}`;
    const path = resourcePath(of, of.namespaced ? { namespace } : {});
    // A pod needs the ServiceAccount of its namespace, which Kubernetes makes a moment later.
    await eventually(() => ask('POST', path, `{${head},${fields}}`));
    if (!of.namespaced) started.add(() => cluster.delete(of, key));
    objects.push({ of, key });
  }

  const compared = new Map<string, { before: string; after: string }>();
  const open = objects.flatMap(({ of, key }) => WRITES.map((write) => ({ of, key, write, id: `${of.kind} ${write}` })));
  const kinds = controller({
    name: 'every-kind',
    for: { resource: ConfigMap, namespaces: [namespace] },
    reads: objects.map(({ of }) => (of.namespaced ? { resource: of, namespaces: [namespace] } : of)),
    writesAcrossNamespaces: true,
  }).reconcile(async (_, { api, cache }) => {
    for (const { of, key, write, id } of open.filter((each) => !compared.has(each.id))) {
      const before = await ask('GET', resourcePath(of, key));
      const changed = versionOf(before);
      const found = await cache.get(of, key);
      // Kubernetes' own controllers write some of these objects, too.
      if (found?.metadata.resourceVersion !== changed) continue;
      const { annotations: existing, ...metadata } = found.metadata;
      const annotations = { ...existing, changed };
      // A write of another client in between is a conflict.
      const resourceVersion = changed;
      const writes: Record<typeof write, () => Promise<KubernetesObject>> = {
        replace: () => api.replace(of, { ...found, metadata: { ...metadata, annotations } }),
        json: () => {
          const parts = { annotations, resourceVersion };
          const body = Object.entries(parts).map(([name, value]) => ({ op: 'add', path: `/metadata/${name}`, value }));
          return api.patch(of, key, { type: 'json', body });
        },
        merge: () => api.patch(of, key, { type: 'merge', body: { metadata: { annotations, resourceVersion } } }),
        apply: () =>
          api.apply(
            of,
            { metadata: { ...key, annotations: { changed }, resourceVersion } },
            { fieldManager: 'every-kind', force: true },
          ),
      };
      const written = await writes[write]().catch((error: unknown) => {
        if (error instanceof ApiError && error.code === 409) return undefined;
        throw error;
      });
      const after = await ask('GET', resourcePath(of, key));
      if (written?.metadata.resourceVersion === versionOf(after)) compared.set(id, { before, after });
    }
    return compared.size < open.length ? { requeueAfterSeconds: 0.1 } : {};
  });
  const fn = started.keep(await openFunction(setting, [kinds]));
  const { url } = await world.gateway([`${fn.url}/every-kind`], { LEVELHOOK_CACHE_KEYS: CACHE_KEYS });
  const all = open.map(({ id }) => id).toSorted();
  await eventually(async () => expect([...compared.keys()].toSorted()).toEqual(all), 30_000);
  for (const [id, { before, after }] of compared) {
    expect(after, id).toContain(`"changed":"${versionOf(before)}"`);
    expect(unchanged(after, 'changed'), id).toEqual(unchanged(before, 'changed'));
  }
  const read = { controller: 'every-kind', kinds: objects.map(({ of }) => of) };
  const client = await CacheClient.of(url, { cluster, keyPrefix: setting.keyPrefix }, read);
  for (const { of, key } of objects) {
    await eventually(async () => {
      const [cached, stored] = [await client.get(resourcePath(of, key)), await ask('GET', resourcePath(of, key))];
      expect(versionOf(cached), of.kind).toBe(versionOf(stored));
      expect(unchanged(cached, 'changed'), of.kind).toEqual(unchanged(stored, 'changed'));
    });
  }
});
