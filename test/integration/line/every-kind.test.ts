import { expect } from 'vitest';
import { controller } from 'levelhook/function';
import { kubeConfigTransport } from 'levelhook/function/node';
import { mutatingWebhook } from 'levelhook/function/webhooks';
import {
  ConfigMap,
  Deployment,
  Endpoints,
  EndpointSlice,
  Event,
  Lease,
  Namespace,
  Node,
  Pod,
  ReplicaSet,
  Service,
} from '../../../src/function/kinds/index.ts';
import { ApiError, groupOf, type KubernetesObject, type Resource, resourcePath } from '../../../src/core/index.ts';
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
import { configureWebhook, reviewServing, reviewsUrl } from '../../harness/webhook-configurations.ts';
import { it } from '../../harness/world.ts';

/** The kinds that the functions in the box read or write, each with fields for an object, as JSON. */
function objectsOf(random: Random, namespace: string): readonly (readonly [Resource, string])[] {
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
  const about = target().replace('{', `{"namespace":"${namespace}",`);
  const counted = '"count":2147483647,"firstTimestamp":"2025-01-01T00:00:00Z","type":"Normal"';
  const times = '"acquireTime":"2025-01-01T00:00:00.000001Z","renewTime":"2025-02-28T23:59:59.999999Z"';
  return [
    [ConfigMap, `"data":{"__proto__":${text()},${randomTexts(random).slice(1)},"binaryData":{"empty":"","4":"AA=="}`],
    [Service, `"spec":{"ports":[{"port":80}],${affinity}}`],
    [Endpoints, `"subsets":[{"addresses":[${address}],"ports":[{"port":80,"name":""}]}]`],
    [EndpointSlice, `"addressType":"IPv4","endpoints":[${endpoint}],"ports":[]`],
    [Node, `"spec":{"unschedulable":true},"status":{"capacity":${amounts},"images":${images}}`],
    [Lease, `"spec":{"holderIdentity":"größe 9007199254740993","leaseTransitions":2147483647,${times}}`],
    [Event, `"involvedObject":${about},"reason":${text()},"message":${text()},${counted}`],
    [Pod, `"spec":${randomPodSpec(random)}`],
    [ReplicaSet, workload('set')],
    [Deployment, workload('deployment')],
  ];
}

const WRITES = ['replace', 'json', 'merge', 'apply'] as const;
/** Objects of each namespaced kind. */
const DRAWS = 5;
/** An annotation, which each write sets, and a label, which the webhook sets to the same. */
const CHANGED = 'changed';
const REVIEWED = 'reviewed';

/** The object without the fields that each write changes. */
function unchanged({ metadata, ...rest }: KubernetesObject): unknown {
  // An annotation of a Deployment counts as a new generation.
  const { managedFields: _, generation: __, resourceVersion, annotations, labels, ...others } = metadata;
  const { [CHANGED]: ___, ...kept } = annotations ?? {};
  const { [REVIEWED]: ____, ...keptLabels } = labels ?? {};
  expect(resourceVersion).toMatch(/^\d+$/);
  return { ...rest, metadata: { ...others, annotations: kept, labels: keptLabels } };
}

const objectOf = (text: string): KubernetesObject => exact(text) as KubernetesObject;

/** An item of a list, which has its kind from the list. */
function itemOf(list: string, name: string): unknown {
  const { items } = exact(list) as { items: KubernetesObject[] };
  const found = items.find(({ metadata }) => metadata.name === name);
  return found && { ...(unchanged(found) as object), apiVersion: '', kind: '' };
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
  const draws = Array.from({ length: DRAWS }, (_, draw) =>
    objectsOf(random, namespace).map((each) => ({ draw, each })),
  );
  for (const { draw, each } of draws.flat()) {
    const [of, fields] = each;
    const key = keyOf(of, of.namespaced ? `odd-${draw}` : `odd-${draw}-${namespace}`);
    const metadata = `{"name":"${key.name}","annotations":${randomTexts(random)}}`;
    const head = `"apiVersion":"${of.apiVersion}","kind":"${of.kind}","metadata":${metadata}`;
    const path = resourcePath(of, of.namespaced ? { namespace } : {});
    // A pod needs the ServiceAccount of its namespace, which Kubernetes makes a moment later.
    await eventually(() => ask('POST', path, `{${head},${fields}}`));
    if (!of.namespaced) started.add(() => cluster.delete(of, key));
    objects.push({ of, key });
  }

  const kindsOf = [...new Set(objects.map(({ of }) => of))];
  const reviewed = kindsOf.filter(({ namespaced }) => namespaced);
  const compared = new Map<string, { before: string; after: string }>();
  const open = objects.flatMap(({ of, key }) =>
    WRITES.map((write) => ({ of, key, write, id: `${of.kind} ${key.name} ${write}` })),
  );
  const kinds = controller({
    name: 'every-kind',
    for: { resource: ConfigMap, namespaces: [namespace] },
    reads: kindsOf.map((of) => (of.namespaced ? { resource: of, namespaces: [namespace] } : of)),
    writesAcrossNamespaces: true,
    // Built-in kinds are not converted by webhooks.
    webhooks: reviewed.map((of) =>
      mutatingWebhook({ name: of.plural, for: of, operations: ['UPDATE'] }).mutate((object: KubernetesObject) => {
        const { annotations: { [CHANGED]: changed } = {}, labels } = object.metadata;
        if (changed !== undefined) object.metadata.labels = { ...labels, [REVIEWED]: changed };
      }),
    ),
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
      // The apiserver hears of the webhooks a moment later.
      const isReviewed = !of.namespaced || written?.metadata.labels?.[REVIEWED] === changed;
      if (isReviewed && written?.metadata.resourceVersion === versionOf(after)) compared.set(id, { before, after });
    }
    return compared.size < open.length ? { requeueAfterSeconds: 0.1 } : {};
  });
  const fn = started.keep(await openFunction(setting, [kinds]));
  const { ca, settings } = await reviewServing(started, setting.kubeconfig);
  const gateway = await world.gateway([`${fn.url}/every-kind`], { ...settings, LEVELHOOK_CACHE_KEYS: CACHE_KEYS });
  const webhooks = `${await reviewsUrl(gateway)}/webhooks/every-kind`;
  for (const of of reviewed) {
    await configureWebhook({ cluster, started, ca, namespace, name: `${namespace}-${of.plural}` }, webhooks, {
      type: 'mutating',
      name: of.plural,
      operations: ['UPDATE'],
      rule: [groupOf(of), of.apiVersion.replace(/^.*\//, ''), of.plural],
    });
  }
  const all = open.map(({ id }) => id).toSorted();
  await eventually(async () => expect([...compared.keys()].toSorted()).toEqual(all), 170_000);
  for (const [id, { before, after }] of compared) {
    const { metadata } = objectOf(after);
    expect(metadata.annotations?.[CHANGED], id).toBe(versionOf(before));
    if (metadata.namespace !== undefined) expect(metadata.labels?.[REVIEWED], id).toBe(versionOf(before));
    expect(unchanged(objectOf(after)), id).toEqual(unchanged(objectOf(before)));
  }
  const read = { controller: 'every-kind', kinds: kindsOf };
  const client = await CacheClient.of(gateway.url, { cluster, keyPrefix: setting.keyPrefix }, read);
  for (const { of, key } of objects) {
    await eventually(async () => {
      const [cached, stored] = [await client.get(resourcePath(of, key)), await ask('GET', resourcePath(of, key))];
      expect(versionOf(cached), of.kind).toBe(versionOf(stored));
      expect(unchanged(objectOf(cached)), of.kind).toEqual(unchanged(objectOf(stored)));
      const path = resourcePath(of, of.namespaced ? { namespace } : {});
      const [cachedList, storedList] = [await client.get(path), await ask('GET', path)];
      expect(itemOf(cachedList, key.name), of.kind).toEqual(itemOf(storedList, key.name));
    });
  }
});
