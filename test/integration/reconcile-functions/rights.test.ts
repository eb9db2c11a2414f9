import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { describe, expect } from 'vitest';
import { controller } from '../../../src/function/index.ts';
import { generateSecret, importSecret, sign, type Trigger } from '../../../src/contract/index.ts';
import { resource } from '../../../src/core/index.ts';
import { resolveBinary } from '../../../src/testing/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import type { Program } from '../../harness/program.ts';
import { positionIn, redisLogin } from '../../harness/redis-login.ts';
import { ServedFunction } from '../../harness/served-function.ts';
import { installReconcileFunctions, ReconcileFunction, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it, type World } from '../../harness/world.ts';

/** In each object that nobody but its owner may see. */
const TREASURE = 'xyzzy-treasure';
const others = uniqueName('victim');
/** Only hers are cached, so her functions may read them in Redis. */
const templates = { apiVersion: 'v1', kind: 'PodTemplate' };
const everything = { apiVersion: 'v1', kind: 'ConfigMap' };
const forOwn = () => ({ for: { ...everything, namespaces: [own] } });

let world: World;
let cluster: Cluster;
/** The namespace of Mallory. */
let own: string;
let mallory: Tenant;
let victim: Tenant;
let hers: ServedFunction;
let gateway: { process: Program; url: string };

it.beforeAll(async ({ world: made }) => {
  world = made;
  const { started } = world;
  ({ cluster, namespace: own } = world);
  await cluster.createNamespace(others);
  started.add(() => cluster.deleteNamespace(others));
  await installReconcileFunctions(cluster);
  mallory = await new Tenant(cluster, own).create();
  victim = await new Tenant(cluster, others).create();
  const configMapsOf = [{ apiGroups: [''], resources: ['configmaps'] }];
  await mallory.allow('own', [{ apiGroups: [''], resources: ['configmaps', 'podtemplates'] }]);
  await victim.allow('own', configMapsOf);
  await victim.allow('secrets', [{ apiGroups: [''], resources: ['secrets'] }]);
  await allowMallory();
  await cluster.create(configMaps, { metadata: { namespace: others, name: 'plans' }, data: { text: TREASURE } });
  const secrets = resource('v1', 'Secret');
  for (const namespace of [own, others]) {
    await cluster.create(secrets, { metadata: { namespace, name: 'treasure' }, stringData: { secrets: TREASURE } });
  }
  const setting = { ...world.setting, secret: mallory.secret };
  hers = await served('hers', mallory.secret);
  const his = await served('his', victim.secret);
  const cacheFile = join(await started.directory(), 'cache.yaml');
  await writeFile(cacheFile, JSON.stringify({ kinds: { 'v1/PodTemplate': { namespaces: [own] } } }));
  gateway = started.keep(
    await openGateway(setting, [], {
      ...settingsFor([own, others], [hers.url, his.url]),
      // With a key Secrets can be cached, so that nothing but rights keeps them from her.
      LEVELHOOK_CACHE_KEYS: `test:${Buffer.alloc(32, 7).toString('base64')}`,
      LEVELHOOK_CACHE_FILE: cacheFile,
      LEVELHOOK_REDIS_USERS: '*',
      // A run that is held here does not end by itself before a test is over.
      LEVELHOOK_DRAIN_SECONDS: '900',
      LEVELHOOK_API_TOKENS: 'a-token-that-mallory-does-not-have',
    }),
  );
  await untilReady(gateway.url);
  // The control: with rights of its own the victim's function is shown all of it.
  await victim.declare('his', {
    endpoint: { url: his.url },
    for: { ...everything, namespaces: [others] },
    reads: [{ apiVersion: 'v1', kind: 'Secret', namespaces: [others] }],
  });
  await victim.until('his', 'Ready', { status: 'True' });
  await duringRun(his, { namespace: others, of: 'his' }, async (token) => {
    expect(await read(token, `/api/v1/namespaces/${others}/configmaps/plans`)).toMatchObject({ status: 200 });
    expect((await read(token, `/api/v1/namespaces/${others}/secrets/treasure`)).text).toContain(
      Buffer.from(TREASURE).toString('base64'),
    );
  });
  await declare('hers', {
    endpoint: { url: hers.url },
    ...forOwn(),
    reads: [{ ...templates, namespaces: [own] }],
    timeoutSeconds: 900,
  });
  await mallory.until('hers', 'Ready', { status: 'True' });
  await cluster.create(configMaps, { metadata: { namespace: own, name: 'mine' }, data: { text: 'mine' } });
  await eventually(async () => present(hers.triggers.at(-1)));
});

async function served(name: string, secret: string): Promise<ServedFunction> {
  const silent = controller({ name, for: configMaps }).reconcile(async () => {});
  return world.started.open(new ServedFunction(silent, { ...world.setting, secret }));
}

/** Her rights: to make ReconcileFunctions in her own namespace, and nothing else. */
async function allowMallory(): Promise<void> {
  const group = 'rbac.authorization.k8s.io';
  const rules = [
    {
      apiGroups: ['levelhook.dev'],
      resources: ['reconcilefunctions'],
      verbs: ['create', 'get', 'update', 'patch', 'delete'],
    },
  ];
  await cluster.create(resource(`${group}/v1`, 'Role'), { metadata: { namespace: own, name: 'mallory' }, rules });
  await cluster.create(resource(`${group}/v1`, 'RoleBinding'), {
    metadata: { namespace: own, name: 'mallory' },
    roleRef: { apiGroup: group, kind: 'Role', name: 'mallory' },
    subjects: [{ apiGroup: group, kind: 'User', name: 'mallory' }],
  });
}

/** Makes a ReconcileFunction as she would, with her own rights. @throws with what the apiserver says. */
async function declare(name: string, spec: object, namespace = own): Promise<void> {
  const body = {
    apiVersion: ReconcileFunction.apiVersion,
    kind: ReconcileFunction.kind,
    metadata: { namespace, name, labels: { 'test.levelhook.dev/gateway': own } },
    spec: { serviceAccountName: 'reader', signingSecret: { name: 'signing' }, ...spec },
  };
  const kubectl = await resolveBinary('kubectl');
  const args = ['--kubeconfig', world.setting.kubeconfig, '--as', 'mallory', 'create', '-f', '-'];
  await new Promise<void>((resolve, reject) => {
    const child = execFile(kubectl, args, (error, _, stderr) => (error ? reject(new Error(stderr)) : resolve()));
    child.stdin?.end(JSON.stringify(body));
  });
}

async function read(token: string | undefined, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${gateway.url}/cache${path}`, { headers: { authorization: `Bearer ${token}` } });
  return { status: response.status, text: await response.text() };
}

/** Does something while a run is in flight, with its token for the cache. */
async function duringRun(
  fn: ServedFunction,
  { namespace, of }: { namespace: string; of: string },
  work: (token: string, trigger: Trigger) => Promise<void>,
): Promise<void> {
  const name = uniqueName('held');
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const begun = new Promise<Trigger>((resolve) => {
    fn.onAnswer = async (outcome, trigger) => {
      if (trigger.controller === of && trigger.requests.some((request) => request.name === name)) {
        resolve(trigger);
        await over;
      }
      return outcome;
    };
  });
  await cluster.create(configMaps, { metadata: { namespace, name } });
  try {
    const trigger = await begun;
    await work(trigger.cache.token ?? '', trigger);
  } finally {
    end();
    fn.onAnswer = (outcome) => outcome;
  }
}

function present(trigger: Trigger | undefined): Trigger & { cache: { token?: string } } {
  if (!trigger) throw new Error('no trigger yet');
  return trigger;
}

/** All that she can read of what the gateway tells: her triggers, her objects and the Events of her namespace. */
async function told(): Promise<string> {
  const { items } = await cluster.list(ReconcileFunction, own);
  const events = await cluster.list(resource('events.k8s.io/v1', 'Event'), own);
  return JSON.stringify([hers.triggers, items, events.items]);
}

describe('a user who may create ReconcileFunctions in one namespace, and nothing else', () => {
  it.each<[string, string, () => object]>([
    ['asking for a kind everywhere', 'everywhere', () => ({ for: everything })],
    ['naming another namespace', 'elsewhere', () => ({ for: { ...everything, namespaces: [others] } })],
    ['naming another namespace beside her own', 'both', () => ({ for: { ...everything, namespaces: [own, others] } })],
    [
      'reading the Secrets of her namespace',
      'secrets',
      () => ({ ...forOwn(), reads: [{ apiVersion: 'v1', kind: 'Secret', namespaces: [own] }] }),
    ],
    ['reading all Secrets', 'all-secrets', () => ({ ...forOwn(), reads: [{ apiVersion: 'v1', kind: 'Secret' }] })],
    [
      'watching another namespace',
      'watching',
      () => ({ ...forOwn(), watches: [{ ...everything, namespaces: [others], map: { by: 'all' } }] }),
    ],
    ['owning in another namespace', 'owning', () => ({ ...forOwn(), owns: [{ ...everything, namespaces: [others] }] })],
  ])('gets nothing by %s', async (_what, name, spec) => {
    await declare(name, { endpoint: { url: hers.url }, ...spec() });
    await mallory.until(name, 'Ready', { status: 'False', reason: 'Forbidden' });
  });

  it('gets nothing by naming the ServiceAccount or the Secret of another namespace', async () => {
    for (const wrong of [
      { serviceAccountName: `${others}/reader` },
      { serviceAccountName: `../${others}` },
      { signingSecret: { name: `${others}/signing` } },
    ]) {
      await expect(declare('borrowing', { endpoint: { url: hers.url }, ...forOwn(), ...wrong })).rejects.toThrow(
        'spec.',
      );
    }
    await expect(declare('there', { endpoint: { url: hers.url }, ...forOwn() }, others)).rejects.toThrow('forbidden');
  });

  it('gets nothing by naming a Secret that is none for signing', async () => {
    await declare('treasure', { endpoint: { url: hers.url }, ...forOwn(), signingSecret: { name: 'treasure' } });
    await mallory.until('treasure', 'Ready', { status: 'False', reason: 'SecretInvalid' });
  });

  it('gets nothing by the token of her triggers, as it is or altered', () =>
    duringRun(hers, { namespace: own, of: 'hers' }, async (token) => {
      expect(await read(token, `/api/v1/namespaces/${own}/configmaps/mine`)).toMatchObject({ status: 200 });
      const paths = [
        `/api/v1/namespaces/${others}/configmaps/plans`,
        `/api/v1/namespaces/${others}/configmaps`,
        '/api/v1/configmaps',
        `/api/v1/namespaces/${own}/secrets/treasure`,
        `/api/v1/namespaces/${others}/secrets`,
        '/api/v1/secrets',
        `/api/v1/namespaces/${own}/../${others}/configmaps`,
        `/api/v1/namespaces/${own}%2F..%2F${others}/configmaps`,
        '/api/v1/configmaps?fieldSelector=metadata.namespace%3D' + others,
      ];
      for (const path of paths) {
        const { status, text } = await read(token, path);
        expect(status, path).toBeGreaterThanOrEqual(400);
        expect(text, path).not.toContain(TREASURE);
      }
      const [header, payload = '', signature] = token.split('.');
      const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
      const widened = Buffer.from(
        JSON.stringify({ ...claims, scope: { 'v1/ConfigMap': '*', 'v1/Secret': '*' } }),
      ).toString('base64url');
      const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url');
      for (const forged of [`${header}.${widened}.${signature}`, `${none}.${widened}.`]) {
        expect(await read(forged, '/api/v1/secrets')).toMatchObject({ status: 401 });
      }
    }));

  it('wakes no key of another namespace, by whatever her own objects say', async () => {
    const map = { by: 'annotation', annotation: 'wake' };
    await declare('hers-too', {
      endpoint: { url: hers.url },
      ...forOwn(),
      watches: [{ ...everything, namespaces: [own], map }],
    });
    await mallory.until('hers-too', 'Synced', { status: 'True' });
    for (const wake of [`${others}/plans`, 'plans', `../${others}/plans`]) {
      await cluster.patch(configMaps, { namespace: own, name: 'mine' }, { metadata: { annotations: { wake } } });
    }
    await cluster.create(configMaps, { metadata: { namespace: own, name: 'last' }, data: {} });
    await eventually(async () =>
      expect(hers.triggers.flatMap(({ requests }) => requests).some(({ name }) => name === 'last')).toBe(true),
    );
    expect(hers.triggers.flatMap(({ requests }) => requests).filter(({ namespace }) => namespace !== own)).toEqual([]);
  });

  it('hears nothing of what happens in another namespace', async () => {
    await cluster.create(configMaps, { metadata: { namespace: others, name: 'plans-2' }, data: { text: TREASURE } });
    await cluster.create(configMaps, { metadata: { namespace: own, name: 'after' }, data: {} });
    await eventually(async () =>
      expect(hers.triggers.flatMap(({ requests }) => requests).some(({ name }) => name === 'after')).toBe(true),
    );
    expect(JSON.stringify(hers.triggers)).not.toContain(others);
  });

  it('cannot send triggers anywhere but to a Service of hers, or where the operator allows', async () => {
    for (const url of [
      'http://169.254.169.254/latest',
      'http://127.0.0.1:8001',
      gateway.url,
      `http://web.${others}.svc`,
    ]) {
      const name = `to-${Math.random().toString(36).slice(2)}`;
      await declare(name, { endpoint: { url }, ...forOwn() });
      const { reason } = await mallory.until(name, 'Reachable', { status: 'False' });
      expect(['EndpointNotAllowed', 'EndpointAddressRefused']).toContain(reason);
    }
    await expect(
      declare('beyond', { ...forOwn(), endpoint: { service: { name: `web.${others}`, port: 80 } } }),
    ).rejects.toThrow('spec.endpoint.service.name');
  });

  it('cannot queue keys or end runs of another', async () => {
    const body = JSON.stringify({ controller: `${others}.his`, keys: [{ namespace: others, name: 'plans' }] });
    for (const authorization of ['', 'Bearer x', `Bearer ${present(hers.triggers.at(-1)).cache.token}`]) {
      const { status } = await fetch(`${gateway.url}/reconcile`, { method: 'POST', body, headers: { authorization } });
      expect(status).toBe(401);
    }
    const callback = JSON.stringify({
      version: 'v1',
      controller: 'his',
      token: 'x',
      namespace: others,
      name: 'plans',
      run: 1,
      result: { status: 'done' },
    });
    for (const secret of [mallory.secret, generateSecret()]) {
      const headers = await sign([await importSecret(secret)], { id: 'x', nowMs: Date.now(), body: callback });
      const { status } = await fetch(`${gateway.url}/cache/callbacks/${others}.his`, {
        method: 'POST',
        body: callback,
        headers: { ...headers },
      });
      expect(status).toBe(401);
    }
  });

  it('is told nothing by conditions, Events and triggers', async () => {
    const text = await told();
    expect(text).not.toContain(TREASURE);
    expect(text).not.toContain(Buffer.from(TREASURE).toString('base64'));
    // She knows the name of the namespace, since she has named it herself: in conditions that refuse it, and nowhere
    // else.
    expect(JSON.stringify(hers.triggers)).not.toContain(others);
  });

  it('loses what a token and a Redis user allowed as soon as the right is withdrawn, while her run goes on', async () => {
    // The other one of hers is reviewed at a time of its own.
    const ofHers = () => hers.triggers.filter(({ controller }) => controller === 'hers');
    const page = async (path: string): Promise<string> => (await fetch(`${gateway.url}/dashboard${path}`)).text();
    const reviewed = /aria-label="Rights".*?v1\/ConfigMap.*?class="state ok">allowed<\/span>\s*<time /s;
    expect(await page(`/controllers/${own}.hers`)).toMatch(reviewed);
    await duringRun(hers, { namespace: own, of: 'hers' }, async (token, trigger) => {
      const path = `/api/v1/namespaces/${own}/configmaps/mine`;
      expect(await read(token, path)).toMatchObject({ status: 200 });
      const login = (): Promise<Redis> => redisLogin(trigger, world.setting.redisUrl, mallory.secret);
      const redis = await login();
      expect(await positionIn(redis, trigger, 'v1/PodTemplate')).toMatch(/^\d+$/);
      const ended = once(redis, 'end');
      await mallory.deny('own');
      await eventually(async () => expect(await read(token, path)).toMatchObject({ status: 401 }));
      await ended;
      await expect(login()).rejects.toThrow('WRONGPASS');
      // Reported once the controller has stopped: the run is still in flight.
      expect(await mallory.condition('hers', 'Authorized')).toMatchObject({ status: 'True' });
    });
    await mallory.until('hers', 'Authorized', { status: 'False', reason: 'Forbidden' });
    const refused = /Rights: <span class="state bad">refused<\/span>\s*<time .*?may not get, list, watch/s;
    await eventually(async () => expect(await page('')).toMatch(refused));
    const sent = ofHers().length;
    await cluster.patch(configMaps, { namespace: own, name: 'mine' }, { data: { text: 'changed' } });
    await victim.until('his', 'Ready', { status: 'True' });
    expect(ofHers()).toHaveLength(sent);
  });
});
