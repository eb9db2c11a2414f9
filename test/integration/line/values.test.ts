import { expect } from 'vitest';
import { cel, controller, formatJson, resource as kindOf } from 'levelhook/function';
import { kubeConfigTransport } from 'levelhook/function/node';
import { conversionWebhook, mutatingWebhook } from 'levelhook/function/webhooks';
import { replicaset } from '../../../functions/replicaset/controller.ts';
import { type KubernetesObject, resource, type Resource, resourcePath } from '../../../src/core/index.ts';
import { CACHE_KEYS } from '../../harness/cache-keys.ts';
import { type Pod, pods, replicaSets } from '../../harness/cluster.ts';
import { CacheClient } from '../../harness/cache-client.ts';
import { eventually } from '../../harness/eventually.ts';
import { exact } from '../../harness/exact-json.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { openFunction } from '../../harness/opened.ts';
import { everyName, randomInteger, randomObject, randomPodTemplate } from '../../harness/random-values.ts';
import { type Random, seededRandom } from '../../harness/seeded-random.ts';
import { configureWebhook, reviewServing, reviewsUrl } from '../../harness/webhook-configurations.ts';
import { it } from '../../harness/world.ts';

interface Amount extends KubernetesObject {
  spec?: Record<string, unknown>;
  /** The spec of `v2`. */
  content?: Record<string, unknown>;
}

const MAX = '9223372036854775807';
const ODD = '9007199254740993';
const WRITES = ['replace', 'json', 'merge', 'apply'] as const;
const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io';
const group = `${uniqueName('amounts')}.test.levelhook.dev`;
const v1 = kindOf<Amount>(`${group}/v1`, 'Amount');
const v2 = kindOf<Amount>(`${group}/v2`, 'Amount');
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });

let namespace: string;
let gatewayUrl: string;
let random: Random;
/** Past everything that is tested: texts to and from the apiserver. */
let ask: (method: 'GET' | 'POST', path: string, body?: string) => Promise<string>;
let cache: CacheClient;
/** The spec that a run has read from the cache, by name. */
const read = new Map<string, string>();
/** The names of the objects that the predicates let pass. */
const passed = { equal: [] as string[], above: [] as string[] };

const amounts = controller({
  name: 'amounts',
  for: v1,
  webhooks: [
    mutatingWebhook({ name: 'mark', for: v1, operations: ['CREATE'] }).mutate((object: Amount) => {
      object.metadata.labels = { ...object.metadata.labels, marked: 'true' };
      // The apiserver gets these values from the webhook, and not from its client.
      if (object.spec?.['all']) object.spec['copy'] = object.spec['all'];
    }),
    conversionWebhook({ name: 'versions', hub: v1 }).spoke(v2, {
      toHub: ({ content }) => ({ spec: content ?? {} }),
      fromHub: ({ spec }) => ({ content: spec ?? {} }),
    }),
  ],
}).reconcile(async ({ name }, { api, cache }) => {
  const object = await cache.get(v1, { namespace, name });
  const write = object?.metadata.annotations?.['write'];
  if (!object || write === undefined || object.metadata.annotations?.['done'] === write) return;
  read.set(name, formatJson(object.spec));
  const { metadata, spec } = object;
  const annotations = { ...metadata.annotations, done: write };
  if (write === 'replace') await api.replace(v1, { ...object, metadata: { ...metadata, annotations } });
  else if (write === 'json') {
    const body = Object.entries({ '/metadata/annotations': annotations, '/spec': spec }).map(([at, value]) => ({
      op: 'replace',
      path: at,
      value,
    }));
    await api.patch(v1, { namespace, name }, { type: 'json', body });
  } else if (write === 'merge') {
    // In such a patch null removes a field, so the other values stay out of it.
    const { size } = spec ?? {};
    await api.patch(v1, { namespace, name }, { type: 'merge', body: { metadata: { annotations }, spec: { size } } });
  } else {
    const applied = { metadata: { namespace, name, annotations: { done: write } }, spec: spec ?? {} };
    await api.apply(v1, applied, { fieldManager: 'amounts', force: true });
  }
});

const passing = (name: keyof typeof passed, expression: string) =>
  controller({ name, for: { resource: v1, predicate: cel(expression) } }).reconcile(async (request) => {
    passed[name].push(request.name);
  });

const path = (of: Resource, name?: string): string =>
  resourcePath(of, name === undefined ? { namespace } : { namespace, name });

function create(name: string, spec: string, write?: string): Promise<string> {
  const annotations = write === undefined ? {} : { write };
  const head = JSON.stringify({ apiVersion: v1.apiVersion, kind: v1.kind, metadata: { name, annotations } });
  return ask('POST', path(v1), `${head.slice(0, -1)},"spec":${spec}}`);
}

const fieldOf = (text: string, field: string): unknown => (exact(text) as Record<string, unknown>)[field];

it.beforeAll(async ({ world }) => {
  const { cluster, setting, started } = world;
  ({ namespace } = world);
  random = seededRandom('values');
  const transport = kubeConfigTransport(setting.kubeconfig);
  ask = async (method, to, body) => {
    const answer = await transport({
      method,
      path: to,
      signal: AbortSignal.timeout(30_000),
      ...(body === undefined ? {} : { body, contentType: 'application/json' }),
    });
    if (answer.status >= 300) throw new Error(answer.body);
    return answer.body;
  };
  const open = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  const version = (name: string) => ({
    name,
    served: true,
    storage: name === 'v1',
    schema: { openAPIV3Schema: open },
    additionalPrinterColumns: [{ name: 'Size', type: 'integer', jsonPath: '.spec.size' }],
  });
  await cluster.create(definitions, {
    metadata: { name: `amounts.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind: 'Amount', plural: 'amounts' },
      versions: [version('v1'), version('v2')],
    },
  });
  started.add(() => cluster.delete(definitions, { name: `amounts.${group}` }));
  await eventually(() => cluster.list(v1, namespace));
  // The gateway lists these two.
  await create('listed', `{"size":${ODD}}`, 'replace');
  await create('listed-max', `{"size":${MAX}}`, 'replace');
  const fn = started.keep(
    await openFunction(setting, [
      amounts,
      passing('equal', `object.spec.size == ${ODD}`),
      passing('above', `object.spec.size > ${MAX.slice(0, -1)}6`),
      // Those of other tests have controllers of their own.
      { ...replicaset, for: { resource: replicaSets, namespaces: [namespace] } },
    ]),
  );
  const { ca, settings } = await reviewServing(started, setting.kubeconfig);
  const urls = ['amounts', 'equal', 'above', 'replicaset'].map((name) => `${fn.url}/${name}`);
  const gateway = await world.gateway(urls, { ...settings, LEVELHOOK_CACHE_KEYS: CACHE_KEYS });
  gatewayUrl = gateway.url;
  const { keyPrefix } = setting;
  cache = await CacheClient.of(gatewayUrl, { cluster, keyPrefix }, { controller: 'amounts', kinds: [v1] });
  const url = `${await reviewsUrl(gateway)}/webhooks/amounts`;
  await configureWebhook({ cluster, started, ca, namespace, name: namespace }, url, {
    type: 'mutating',
    name: 'mark',
    operations: ['CREATE'],
    rule: [group, 'v1', 'amounts'],
  });
  const clientConfig = { url: `${url}/versions`, caBundle: Buffer.from(ca).toString('base64') };
  const webhook = { conversionReviewVersions: ['v1'], clientConfig };
  const conversion = { spec: { conversion: { strategy: 'Webhook', webhook } } };
  await cluster.patch(definitions, { name: `amounts.${group}` }, conversion);
  let probes = 0;
  await eventually(async () => {
    probes += 1;
    expect(await create(`probe-${probes}`, '{"size":1}')).toContain('"marked":"true"');
    expect(await ask('GET', path(v2, 'probe-1'))).toContain('"content":{"size":1}');
  });
});

it('all values pass through cache, function and webhooks as they are', async ({ world: { cluster } }) => {
  const sizes = new Map([
    ['listed', ODD],
    ['listed-max', MAX],
  ]);
  const specs = new Map([...sizes].map(([name, size]) => [name, `{"size":${size}}`]));
  for (let at = 0; at < 24; at += 1) {
    const name = `random-${at}`;
    const [all, size] = [at < WRITES.length ? everyName : randomObject(random), randomInteger(random)];
    sizes.set(name, size);
    // The copy is the webhook's.
    specs.set(name, `{"all":${all},"copy":${all},"size":${size}}`);
    const written = await create(name, `{"all":${all},"size":${size}}`, WRITES[at % WRITES.length]);
    expect(fieldOf(written, 'spec'), name).toEqual(exact(specs.get(name) ?? ''));
  }
  await eventually(async () => {
    const { items } = await cluster.list(v1, namespace);
    const open = items.filter(({ metadata: { annotations = {} } }) => annotations['write'] !== annotations['done']);
    expect(open.map(({ metadata }) => metadata.name)).toEqual([]);
  });
  for (const [name, spec] of specs) {
    expect(exact(read.get(name) ?? ''), `${name} in the cache`).toEqual(exact(spec));
    expect(fieldOf(await ask('GET', path(v1, name)), 'spec'), `${name} as written`).toEqual(exact(spec));
    expect(fieldOf(await ask('GET', path(v2, name)), 'content'), `${name} in v2`).toEqual(exact(spec));
    expect(fieldOf(await cache.get(path(v1, name)), 'spec'), `${name} from the cache API`).toEqual(exact(spec));
  }
  const { items } = exact(await cache.get(path(v1))) as { items: Amount[] };
  const { rows } = exact(await cache.get(path(v1), TABLE)) as { rows: { cells: unknown[] }[] };
  const listed = new Map(items.map(({ metadata, spec }) => [metadata.name, spec]));
  const cells = new Map(rows.map(({ cells: [name, size] }) => [name, size]));
  for (const [name, spec] of specs) {
    expect(listed.get(name), `${name} in a list`).toEqual(exact(spec));
    expect(cells.get(name), `${name} in a table`).toEqual(exact(sizes.get(name) ?? ''));
  }
});

it('a list in the other version does not fail for one object with such a number', async () => {
  expect(await ask('GET', path(v2))).toContain(`{"size":${ODD}}`);
});

it('predicates compare them as the apiserver does', async () => {
  await create('equal', `{"size":${ODD}}`);
  await create('below', `{"size":${ODD.slice(0, -1)}2}`);
  await create('max', `{"size":${MAX}}`);
  await create('less', `{"size":${MAX.slice(0, -1)}6}`);
  // Events are applied in their order.
  await create('equal-last', `{"size":${ODD}}`);
  await create('max-last', `{"size":${MAX}}`);
  await eventually(async () => {
    expect(passed.equal).toEqual(expect.arrayContaining(['equal', 'equal-last']));
    expect(passed.above).toEqual(expect.arrayContaining(['max', 'max-last']));
  });
  expect(passed.equal).not.toContain('below');
  expect(passed.above).not.toContain('less');
});

it('the template of a ReplicaSet reaches its pods as it is', async () => {
  const templates = new Map<string, object>();
  for (let at = 0; at < 8; at += 1) {
    const labels = { set: `set-${at}` };
    const selector = `{"matchLabels":${JSON.stringify(labels)}}`;
    const spec = `{"replicas":1,"selector":${selector},"template":${randomPodTemplate(random, labels)}}`;
    const head = `"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"${labels.set}"}`;
    const created = fieldOf(await ask('POST', path(replicaSets), `{${head},"spec":${spec}}`), 'spec');
    templates.set(labels.set, (created as { template: object }).template);
  }
  await eventually(async () => {
    const { items } = exact(await ask('GET', path(pods))) as { items: Pod[] };
    const found = new Map(items.map((pod) => [pod.metadata.labels?.['set'], pod]));
    for (const [name, template] of templates) expect(found.get(name), name).toMatchObject(template);
  });
});
