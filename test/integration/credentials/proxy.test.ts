import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { KubernetesObject } from '../../../src/core/index.ts';
import { CONTRACT_VERSION, type Trigger } from '../../../src/contract/index.ts';
import { ApiError, controller, type Reconcile } from '../../../src/function/index.ts';
import { kubeConfigTransport } from '../../../src/function/node/index.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { exact } from '../../harness/exact-json.ts';
import { createSetting, type Setting, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { NodeFunction } from '../../harness/node-function.ts';
import { openGateway } from '../../harness/opened.ts';
import { ask, type ProxiedTenant, proxiedTenant } from '../../harness/proxied-tenant.ts';
import { QueueClient } from '../../harness/queue-client.ts';
import { randomInteger, randomObject, randomPodSpec, randomTexts } from '../../harness/random-values.ts';
import { RawFunction } from '../../harness/raw-function.ts';
import { recordedWrites } from '../../harness/recorded-writes.ts';
import { type Random, seededRandom } from '../../harness/seeded-random.ts';
import { Started } from '../../harness/started.ts';
import { settingsFor } from '../../harness/tenant.ts';
import { TestProcess } from '../../harness/process.ts';
import { defineWebs } from '../../harness/webs.ts';

/** For a run that makes many requests, one after the other. */
const RUN_SECONDS = 120;
/** The apiserver makes a float of it. */
const BEYOND_INT64 = '9223372036854775808';
const namespace = uniqueName('proxy');
const started = new Started();
const configMapsOf = (label: string) => ({
  for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace], labelSelector: { matchLabels: { for: label } } },
});
const path = `/api/v1/namespaces/${namespace}/configmaps`;

let world: ProxiedTenant;
let setting: Setting;
let redis: Redis;
let served: NodeFunction;
let raw: RawFunction;
let binder: RawFunction;
let twins: RawFunction;
let gatewayUrl: string;
let output: () => string;
let reconcile: Reconcile;

beforeAll(async () => {
  world = await proxiedTenant(started, namespace);
  const handler = controller({ name: 'parent', for: configMaps, concurrency: 5 }).reconcile(async (...run) =>
    reconcile(...run),
  );
  served = await started.open(new NodeFunction(handler, world.tenant.secret));
  raw = await started.open(
    new RawFunction({
      name: 'raw',
      for: { apiVersion: 'v1', kind: 'ConfigMap' },
      concurrency: 2,
      maxBatch: 2,
      timeoutSeconds: 30,
    }),
  );
  const kind = (name: string) => ({ apiVersion: 'v1', kind: name });
  const reads = [kind('Pod'), kind('Event')];
  binder = await started.open(
    new RawFunction({ name: 'binder', for: kind('ConfigMap'), reads, concurrency: 1, timeoutSeconds: 10 }),
  );
  twins = await started.open(
    new RawFunction({ name: 'twins', for: kind('ConfigMap'), concurrency: 1, timeoutSeconds: RUN_SECONDS }),
  );
  setting = createSetting({ kubeconfig: world.kubeconfig, redisUrl: inject('redisUrl') });
  redis = await connectRedis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  const settings = settingsFor([namespace], [served.url, raw.url, binder.url, twins.url]);
  const gateway = started.keep(await openGateway(setting, [], { ...settings, LEVELHOOK_LOG_LEVEL: 'debug' }));
  gatewayUrl = gateway.url;
  output = () => gateway.process.output;
  await untilReady(gatewayUrl);
});

afterAll(() => started.stop());

const create = (name: string, label: string) =>
  world.cluster.create(configMaps, { metadata: { namespace, name, labels: { for: label } } });
const finish = (response: ServerResponse, { requests }: Trigger): void =>
  void response.end(JSON.stringify({ version: CONTRACT_VERSION, results: requests.map(() => ({ status: 'done' })) }));

const byKind = (a: object, b: object): number => String(Object.keys(a)).localeCompare(String(Object.keys(b)));

/** The writes of a key's run, as Redis has them. */
async function recordOf(name: string, of = 'raw'): Promise<unknown[]> {
  const clusterId = await clusterIdentity(world.cluster.client);
  const keys = queueKeys({ keyPrefix: setting.keyPrefix, clusterId }, `${namespace}.${of}`);
  return (await recordedWrites(redis, `${keys.writesPrefix}${namespace}/${name}`)).toSorted(byKind);
}

/** The next trigger of a raw function, and how it is answered. */
function nextTrigger(of = raw): Promise<{ trigger: Trigger; answer: () => void }> {
  return new Promise((resolve) => {
    of.onTrigger = (trigger, response) => {
      of.onTrigger = (other, to) => finish(to, other);
      resolve({ trigger, answer: () => finish(response, trigger) });
    };
  });
}

describe('credentials: proxy', () => {
  it('says which right the gateway lacks', async () => {
    reconcile = async () => {};
    await world.tenant.declare('parent', {
      endpoint: { url: served.url },
      credentials: 'proxy',
      concurrency: 5,
      ...configMapsOf('parent'),
    });
    const { message } = await world.tenant.until('parent', 'Ready', {
      status: 'False',
      reason: 'ImpersonationRefused',
    });
    expect(message).toContain('infra/rbac/credentials-proxy.yaml');
    expect(served.triggers).toEqual([]);
    await world.account.grantFile('credentials-proxy.yaml');
    started.add(() => world.account.revoke('credentials-proxy.yaml'));
    await world.tenant.until('parent', 'Ready', { status: 'True' });
  });

  it('lets a function write as its ServiceAccount, and no more; it reads live by the same rights', async () => {
    const found: unknown[] = [];
    reconcile = async ({ name }, { api }) => {
      if (found.length > 0) return;
      const patched = await api.patch(configMaps, { namespace, name }, { type: 'merge', body: { data: { a: '1' } } });
      const live = await api.get(configMaps, { namespace, name });
      const refused = await api.delete(configMaps, { namespace, name }).catch((error: unknown) => error);
      const elsewhere = await api.list(configMaps, { namespace: 'default' }).catch((error: unknown) => error);
      found.push(patched.data, live?.data, refused, elsewhere);
    };
    await create('rights', 'parent');
    await eventually(async () => expect(found).toHaveLength(4));
    const [patched, live, refused, elsewhere] = found;
    expect([patched, live]).toEqual([{ a: '1' }, { a: '1' }]);
    const user = `User "system:serviceaccount:${namespace}:reader" cannot`;
    expect(refused).toBeInstanceOf(ApiError);
    expect(refused).toMatchObject({ code: 403, message: expect.stringContaining(`${user} delete`) as string });
    expect(elsewhere).toMatchObject({ code: 403, message: expect.stringContaining(`${user} list`) as string });
    expect(served.triggers.at(-1)?.kubernetes).toMatchObject({ url: `${gatewayUrl}/cache/kubernetes` });
    const metrics = await (await fetch(`${gatewayUrl}/metrics`)).text();
    const line = `levelhook_proxied_requests_total{controller="${namespace}.parent",verb="delete",code="403"} 1`;
    expect(metrics).toContain(line);
    expect(output()).not.toContain(served.triggers.at(-1)?.kubernetes?.token ?? 'no token');
  });

  it('tells which rights the function has used, beside those that its account has', async () => {
    const command = async (...args: string[]) => {
      const ended = new TestProcess('src/cli/levelhook.js', ['rights', ...args, '--gateway', gatewayUrl], {});
      return [await ended.exited, ended.output] as const;
    };
    await eventually(async () => {
      const [code, text] = await command(`${namespace}.parent`);
      expect(code, text).toBe(0);
      expect(text).toMatch(/^patch +configmaps +- +20..-.*Z$/m);
      expect(text).toMatch(/^get +configmaps +- +20..-.*Z$/m);
    });
    const [, text] = await command(`${namespace}.parent`);
    // It may create, and has not. It has tried to delete, and may not.
    expect(text).toMatch(/^create +configmaps +- +never$/m);
    expect(text).not.toMatch(/^delete +configmaps/m);
    expect(text).toMatch(
      new RegExp(
        `^\\d+ of \\d+ rights to write in the namespace ${namespace} were never used; webhooks may need them$`,
        'm',
      ),
    );
    const [code, elsewhere] = await command(`${namespace}.parent`, '--namespace', 'default');
    expect([code, elsewhere]).toEqual([0, 'its ServiceAccount has no rights in the namespace default']);
  });

  it('passes on all values as they are, in live reads and in writes', async () => {
    await world.tenant.allow('pods', [{ apiGroups: [''], resources: ['pods'], verbs: ['get', 'create', 'update'] }]);
    const transport = kubeConfigTransport(inject('kubeconfig'));
    /** Past everything that is tested: texts to and from the apiserver. */
    const direct = async (method: 'GET' | 'POST', to: string, body?: string) => {
      const sent = body === undefined ? {} : { body, contentType: 'application/json' };
      const at = `/api/v1/namespaces/${namespace}/${to}`;
      const answer = await transport({ method, path: at, signal: AbortSignal.timeout(30_000), ...sent });
      if (answer.status >= 300) throw new Error(answer.body);
      return exact(answer.body) as KubernetesObject & { spec?: unknown; data?: unknown };
    };
    const random = seededRandom('proxied values');
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const specs = new Map<string, unknown>();
    for (const name of names) {
      const head = `"apiVersion":"v1","kind":"Pod","metadata":{"name":"${name}"}`;
      const pod = await direct('POST', 'pods', `{${head},"spec":${randomPodSpec(random)}}`);
      specs.set(name, pod.spec).set(`${name}-copy`, pod.spec);
    }
    const data = JSON.parse(`{"__proto__":"next\u0085line",${randomTexts(random).slice(1)}`) as Record<string, string>;
    let done = false;
    reconcile = async (request, { api }) => {
      if (request.name !== 'values' || done) return;
      for (const name of names) {
        const pod = await api.get(pods, { namespace, name });
        if (!pod) throw new Error(`${name} is not there`);
        const { metadata, ...rest } = pod;
        await api.replace(pods, { ...rest, metadata: { ...metadata, annotations: { changed: 'yes' } } });
        const copy = { ...rest, metadata: { namespace, name: `${name}-copy` } };
        await api.create(pods, copy).catch((error: unknown) => {
          // A run before this one has made it.
          if (!(error instanceof ApiError) || error.code !== 409) throw error;
        });
      }
      await api.apply(configMaps, { metadata: { namespace, name: 'texts' }, data }, { fieldManager: 'parent' });
      done = true;
    };
    await create('values', 'parent');
    await eventually(async () => expect(done).toBe(true));
    for (const [name, spec] of specs) expect((await direct('GET', `pods/${name}`)).spec, name).toEqual(spec);
    expect((await direct('GET', 'pods/a')).metadata.annotations).toEqual({ changed: 'yes' });
    expect((await direct('GET', 'configmaps/texts')).data).toEqual(data);
  });
});

describe('a function without the SDK', () => {
  beforeAll(async () => {
    raw.onTrigger = (trigger, response) => finish(response, trigger);
    await world.tenant.declare('raw', {
      endpoint: { url: raw.url },
      credentials: 'proxy',
      concurrency: 2,
      maxBatch: 2,
      timeoutSeconds: 30,
      ...configMapsOf('raw'),
    });
    await world.tenant.until('raw', 'Ready', { status: 'True' });
  });

  it('cannot write for a run that has ended, nor with a token that has expired', async () => {
    const coming = nextTrigger();
    await create('late', 'raw');
    const { trigger, answer } = await coming;
    const body = JSON.stringify({ data: { late: 'yes' } });
    const patch = { method: 'PATCH', body, headers: { 'content-type': 'application/merge-patch+json' } };
    expect(await ask(trigger, `${path}/late`, patch)).toMatchObject({ status: 200 });
    answer();
    const late = await eventually(async () => {
      const answered = await ask(trigger, `${path}/late`, patch);
      expect(answered.status).toBe(403);
      return answered;
    });
    expect(late.text).toMatch(/run [0-9]+ of .*\/late is over: nothing more is written for it/);
    await eventually(async () => expect(await ask(trigger, `${path}/late`, patch)).toMatchObject({ status: 401 }));
    expect(await ask(trigger, `${path}/late`)).toMatchObject({ status: 401 });
  });

  it('names the run in a batch, and cannot write for another', async () => {
    await world.tenant.change('raw', { paused: true });
    await world.tenant.until('raw', 'Paused', { status: 'True' });
    const queue = new QueueClient(gatewayUrl, `${namespace}.raw`);
    for (const name of ['first', 'second']) {
      await create(name, 'raw');
      await eventually(async () => expect((await queue.status(`${namespace}/${name}`)).waits).not.toEqual([]));
    }
    const coming = nextTrigger();
    await world.tenant.change('raw', { paused: false });
    const { trigger, answer } = await coming;
    expect(trigger.requests).toHaveLength(2);
    const written = (run: string | undefined) =>
      ask(trigger, path, {
        method: 'POST',
        body: JSON.stringify({ metadata: { generateName: 'batch-' } }),
        headers: run === undefined ? {} : { 'levelhook-run': run },
      });
    expect(await written(undefined)).toMatchObject({ status: 400 });
    for (const { run } of trigger.requests) expect(await written(String(run))).toMatchObject({ status: 201 });
    expect(await written('999999')).toMatchObject({
      status: 403,
      text: expect.stringContaining('not for run') as string,
    });
    answer();
    await untilIdle(gatewayUrl);
  });

  it('cannot be another user, send too much, nor reach into pods', async () => {
    const coming = nextTrigger();
    await create('hostile', 'raw');
    const { trigger, answer } = await coming;
    const impersonating = { 'impersonate-user': 'admin', 'impersonate-group': 'system:masters' };
    expect(await ask(trigger, `${path}/hostile`, { method: 'DELETE', headers: impersonating })).toMatchObject({
      status: 403,
    });
    const large = JSON.stringify({ metadata: { name: 'large' }, data: { a: 'x'.repeat(3 * 1024 * 1024) } });
    // A client that is still sending when it is refused may lose the answer.
    await eventually(async () =>
      expect(await ask(trigger, path, { method: 'POST', body: large })).toMatchObject({ status: 413 }),
    );
    const pod = `/api/v1/namespaces/${namespace}/pods/p`;
    for (const wrong of [`${pod}/exec`, `${pod}/log`, `${pod}%2Fexec`, `${pod}/proxy/x`, `${path}?watch=1`]) {
      expect((await ask(trigger, wrong)).status).toBeOneOf([404, 405]);
    }
    const token = `/api/v1/namespaces/${namespace}/serviceaccounts/reader/token`;
    expect(await ask(trigger, token, { method: 'POST', body: '{}' })).toMatchObject({ status: 405 });
    const text = { 'content-type': 'text/plain' };
    expect(await ask(trigger, path, { method: 'POST', body: 'x', headers: text })).toMatchObject({ status: 415 });
    const dry = await ask(trigger, `${path}?dryRun=All`, { method: 'POST', body: '{"metadata":{"name":"dry"}}' });
    expect(dry.status).toBe(201);
    expect(dry.headers.get('audit-id')).toBeTruthy();
    expect(await world.cluster.get(configMaps, { namespace, name: 'dry' })).toBeUndefined();
    const live = await ask(trigger, `${path}?limit=1`);
    expect(live.status).toBe(200);
    expect((JSON.parse(live.text) as { items: unknown[] }).items).toHaveLength(1);
    // The token of the cache is for the cache alone, and this one for the apiserver alone.
    const swapped = { kubernetes: { url: trigger.kubernetes?.url ?? '', token: trigger.cache.token ?? '' } };
    expect(await ask(swapped, path)).toMatchObject({ status: 401 });
    const cache = { kubernetes: { url: trigger.cache.url ?? '', token: trigger.kubernetes?.token ?? '' } };
    expect(await ask(cache, path)).toMatchObject({ status: 401 });
    answer();
    await untilIdle(gatewayUrl);
  });

  it('has each stored object on record, whatever a request says of a dry run', async () => {
    await world.tenant.allow('erase', [{ apiGroups: [''], resources: ['serviceaccounts'], verbs: ['delete'] }]);
    const coming = nextTrigger();
    await create('dry-run', 'raw');
    const { trigger, answer } = await coming;
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    const body = (value: object) => ({ method: 'POST', body: JSON.stringify(value) });
    const all = ['All'];
    expect((await ask(trigger, `${accounts}?dryRun=All`, body({ metadata: { name: 'none' } }))).status).toBe(201);
    const stored = await ask(
      trigger,
      accounts,
      body({ metadata: { name: 'real' }, deleteOptions: { dryRun: all }, dryRun: all }),
    );
    expect(stored.status).toBe(201);
    const { resourceVersion, uid } = (JSON.parse(stored.text) as KubernetesObject).metadata;
    const patched = await ask(trigger, `${accounts}/real?dryRun=All`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/merge-patch+json' },
      body: JSON.stringify({ metadata: { labels: { a: 'b' } } }),
    });
    expect(patched.status).toBe(200);
    const twice = { method: 'DELETE', body: '{"dryRun":["All"],"dryRun":[]}' };
    expect(await ask(trigger, `${accounts}/real`, twice)).toMatchObject({ status: 400 });
    // The apiserver looks at the query of a delete only if there is no body.
    const remove = { method: 'DELETE', body: JSON.stringify({ kind: 'DeleteOptions', apiVersion: 'v1' }) };
    await eventually(async () => expect((await ask(trigger, `${accounts}/real?dryRun=All`, remove)).status).toBe(200));
    expect((await ask(trigger, `${accounts}/real`)).status).toBe(404);
    const kind = { apiVersion: 'v1', kind: 'serviceaccounts', namespace };
    const written = { ...kind, name: 'real', uid, resourceVersion };
    expect(await recordOf('dry-run')).toEqual([{ done: [written] }, { done: [written] }, { unclear: kind }]);
    answer();
    await untilIdle(gatewayUrl);
  });

  it('has the pod of a Binding on record, and an Event of either group as the function reads it', async () => {
    const events = { apiGroups: ['', 'events.k8s.io'], resources: ['events'] };
    const read = [{ apiGroups: [''], resources: ['pods'] }, events];
    await world.tenant.allow('read-bound', read);
    const bindings = { apiGroups: [''], resources: ['bindings'], verbs: ['create'] };
    await world.tenant.allow('bind', [bindings, { ...events, verbs: ['create'] }]);
    await world.account.grant(
      'read-bound',
      read.map((each) => ({ ...each, verbs: ['get', 'list', 'watch'] })),
    );
    started.add(() => world.account.revoke('read-bound'));
    const reads = ['Pod', 'Event'].map((kind) => ({ apiVersion: 'v1', kind, namespaces: [namespace] }));
    const declared = { endpoint: { url: binder.url }, credentials: 'proxy', ...configMapsOf('binder'), reads };
    await world.tenant.declare('binder', declared);
    await world.tenant.until('binder', 'Ready', { status: 'True' });
    const spec = { schedulerName: 'none', containers: [{ name: 'a', image: 'pause' }] };
    await eventually(async () => world.cluster.create(pods, { metadata: { namespace, name: 'bound' }, spec }));
    const coming = nextTrigger(binder);
    await create('binding', 'binder');
    const { trigger, answer } = await coming;
    const post = (group: string, plural: string, body: object) =>
      ask(trigger, `/${group}/namespaces/${namespace}/${plural}`, { method: 'POST', body: JSON.stringify(body) });
    const target = { apiVersion: 'v1', kind: 'Node', name: 'a-node' };
    expect((await post('api/v1', 'bindings', { metadata: { name: 'bound' }, target })).status).toBe(201);
    expect(await world.cluster.get(pods, { namespace, name: 'bound' })).toMatchObject({ spec: { nodeName: 'a-node' } });
    const written = await post('apis/events.k8s.io/v1', 'events', {
      metadata: { name: 'bound.1' },
      eventTime: '2026-01-01T00:00:00.000000Z',
      type: 'Normal',
      reason: 'Bound',
      action: 'Bind',
      reportingController: 'example.com/binder',
      reportingInstance: 'binder',
      regarding: { apiVersion: 'v1', kind: 'Pod', namespace, name: 'bound' },
    });
    expect(written.status).toBe(201);
    const { resourceVersion, uid } = (JSON.parse(written.text) as KubernetesObject).metadata;
    const event = { apiVersion: 'v1', kind: 'Event', namespace, name: 'bound.1', uid, resourceVersion };
    expect(await recordOf('binding', 'binder')).toEqual([
      { done: [event] },
      { unclear: { apiVersion: 'v1', kind: 'Pod', namespace } },
    ]);
    answer();
    await untilIdle(gatewayUrl);
  });
});

/** A request. Its body may depend on the answer to the first write. */
type Step = readonly [
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: string | ((made: string) => string),
  contentType?: string,
];
type Answered = readonly [step: string, status: number, body: string];

/** Fields that two equal writes do not have in common. */
const OF_ONE_WRITE = /"(resourceVersion|uid|creationTimestamp|deletionTimestamp|time)":"[^"]*"/g;

describe('the answers to a function that writes through the gateway', () => {
  const group = `${namespace}.levelhook.test`;
  const webs = `/apis/${group}/v1/namespaces/${namespace}/webs`;
  const itsPods = `/api/v1/namespaces/${namespace}/pods`;
  const transport = kubeConfigTransport(inject('kubeconfig'));
  let random: Random;

  beforeAll(async () => {
    random = seededRandom('proxied answers');
    const verbs = ['get', 'list', 'create', 'update', 'patch', 'delete'];
    await defineWebs(started, world.cluster, group);
    await world.tenant.allow('twins', [
      { apiGroups: [''], resources: ['pods'], verbs },
      { apiGroups: [group], resources: ['webs', 'webs/status'], verbs },
    ]);
    await world.tenant.declare('twins', {
      endpoint: { url: twins.url },
      credentials: 'proxy',
      timeoutSeconds: RUN_SECONDS,
      ...configMapsOf('twins'),
    });
    await world.tenant.until('twins', 'Ready', { status: 'True' });
  });

  const merge = 'application/merge-patch+json';
  const apply = 'application/apply-patch+yaml';
  const relabelled = (made: string): string => made.replace('"labels":{"a":"b"}', '"labels":{"a":"c"}');
  const head = (kind: string, name: string): string =>
    `"apiVersion":"${kind === 'Pod' ? 'v1' : `${group}/v1`}","kind":"${kind}","metadata":{"name":"${name}","labels":{"a":"b"}}`;

  /** Writes of each form. The apiserver refuses some of them. */
  function stepsOfWebs(drawn: readonly string[]): Step[] {
    const [made = '', merged = '', patched = '', applied = '', seen = ''] = drawn;
    const web = `{${head('Web', 'twin')},"spec":{"all":${randomObject(random)},"made":[${made},${BEYOND_INT64}]}}`;
    const manifest = `{"apiVersion":"${group}/v1","kind":"Web","metadata":{"name":"twin"},"spec":{"applied":`;
    return [
      ['POST', webs, web],
      ['POST', `${webs}?dryRun=All`, web.replace('"twin"', '"other"')],
      ['POST', webs, web],
      ['POST', webs, web.replace('"name":"twin",', '')],
      ['POST', webs, web.slice(0, -1)],
      ['PUT', `${webs}/twin`, relabelled],
      // The version that the write before has replaced.
      ['PUT', `${webs}/twin`, (before) => before],
      ['PATCH', `${webs}/twin`, `{"spec":{"merged":${merged}}}`, merge],
      [
        'PATCH',
        `${webs}/twin`,
        `[{"op":"add","path":"/spec/patched","value":${patched}}]`,
        'application/json-patch+json',
      ],
      ['PATCH', `${webs}/twin?fieldManager=one`, `${manifest}${applied}}}`, apply],
      ['PATCH', `${webs}/twin?fieldManager=two`, `${manifest}"other"}}`, apply],
      ['PATCH', `${webs}/twin/status`, `{"status":{"seen":${seen}}}`, merge],
      ['GET', `${webs}/twin`],
      ['GET', webs],
      ['DELETE', `${webs}/twin`],
      ['DELETE', `${webs}/twin`],
      ['GET', `${webs}/twin`],
    ];
  }

  function stepsOfPods(): Step[] {
    const strategic = 'application/strategic-merge-patch+json';
    return [
      ['POST', itsPods, `{${head('Pod', 'twin')},"spec":${randomPodSpec(random)}}`],
      ['POST', itsPods, `{${head('Pod', 'no name')},"spec":${randomPodSpec(random)}}`],
      ['PUT', `${itsPods}/twin`, relabelled],
      ['PATCH', `${itsPods}/twin`, '{"spec":{"containers":[{"name":"main","image":"other"}]}}', strategic],
      ['GET', `${itsPods}/twin`],
      ['DELETE', `${itsPods}/twin`, '{"gracePeriodSeconds":0}'],
      ['GET', `${itsPods}/twin`],
    ];
  }

  async function answersTo(
    steps: readonly Step[],
    send: (method: Step[0], path: string, body?: { text: string; type: string }) => Promise<[number, string]>,
  ): Promise<Answered[]> {
    const answers: Answered[] = [];
    let made = '';
    for (const [at, [method, to, body, type = 'application/json']] of steps.entries()) {
      const text = typeof body === 'function' ? body(made) : body;
      const [status, answer] = await send(method, to, text === undefined ? undefined : { text, type });
      if (at === 0) made = answer;
      answers.push([`${at} ${method} ${to}`, status, answer]);
    }
    return answers;
  }

  const direct = (steps: readonly Step[]): Promise<Answered[]> =>
    answersTo(steps, async (method, to, body) => {
      const sent = body && { body: body.text, contentType: body.type };
      const answer = await transport({ method, path: to, signal: AbortSignal.timeout(60_000), ...sent });
      return [answer.status, answer.body];
    });

  const proxied = (trigger: Trigger, steps: readonly Step[]): Promise<Answered[]> =>
    answersTo(steps, async (method, to, body) => {
      const sent = body ? { body: body.text, headers: { 'content-type': body.type } } : {};
      const { status, text } = await ask(trigger, to, { method, ...sent });
      return [status, text];
    });

  const ofAnyWrite = (answers: readonly Answered[]): Answered[] =>
    answers.map(([step, status, text]) => [step, status, text.replaceAll(OF_ONE_WRITE, '"$1":""')]);

  it.each([1, 2, 3])(
    'are byte for byte those of the apiserver, with drawn integers of 64 bits, draw %i',
    async (draw) => {
      const coming = nextTrigger(twins);
      await create(`draw-${draw}`, 'twins');
      const { trigger, answer } = await coming;
      try {
        const drawn = Array.from({ length: 5 }, () => randomInteger(random));
        const ofWebs = stepsOfWebs(drawn);
        const expected = await direct(ofWebs);
        const statuses = [201, 201, 409, 422, 400, 200, 409, 200, 200, 200, 409, 200, 200, 200, 200, 404, 404];
        expect(expected.map(([, status]) => status)).toEqual(statuses);
        const found = await proxied(trigger, ofWebs);
        expect(ofAnyWrite(found)).toEqual(ofAnyWrite(expected));
        const { spec, status } = exact(found[12]?.[2] ?? '') as Record<string, Record<string, unknown>>;
        const [made, merged, patched, applied, seen] = drawn.map((each) => ({ '#': each }));
        expect({ ...spec, all: undefined }).toMatchObject({ made: [made, {}], merged, patched, applied });
        expect(status).toEqual({ seen });

        const ofPods = stepsOfPods();
        const expectedOfPods = await direct(ofPods);
        expect(expectedOfPods.map(([, code]) => code)).toEqual([201, 422, 200, 200, 200, 200, 404]);
        expect(ofAnyWrite(await proxied(trigger, ofPods))).toEqual(ofAnyWrite(expectedOfPods));
      } finally {
        answer();
      }
      await untilIdle(gatewayUrl);
    },
  );
});
