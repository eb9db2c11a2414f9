import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Hono } from 'hono';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resource, resourcePath, silentLogger, systemClock } from '../../../src/core/index.ts';
import { ApiClient } from '../../../src/ground/apiserver/api-client.ts';
import { KubernetesIdentities } from '../../../src/gateway/http/login/kubernetes-identities.ts';
import { csrfTokenOf } from '../../../src/gateway/http/login/sessions.ts';
import { StaticTokens } from '../../../src/gateway/http/login/static-tokens.ts';
import { AdminServer } from '../../../src/gateway/http/server/admin-server.ts';
import { clusterAccess } from '../../../src/kubeconfig/cluster-access.ts';
import { Credentials } from '../../../src/kubeconfig/credentials.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { NO_QUEUES } from '../../harness/login.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startFunction, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import { TestProcess } from '../../harness/process.ts';
import { dumpRedis } from '../../harness/redis-dump.ts';
import { Started } from '../../harness/started.ts';

const RBAC = 'rbac.authorization.k8s.io';
const accounts = resource('v1', 'ServiceAccount');
const clusterRoles = resource(`${RBAC}/v1`, 'ClusterRole', { namespaced: false });
const roles = resource(`${RBAC}/v1`, 'Role');
const roleBindings = resource(`${RBAC}/v1`, 'RoleBinding');
const clusterRoleBindings = resource(`${RBAC}/v1`, 'ClusterRoleBinding', { namespaced: false });

const CONTROLLER = 'greeting';
const STATIC = { reader: 'static-token-of-a-reader', operator: 'static-token-of-an-operator' };
const namespace = uniqueName('login');
const started = new Started();
const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });

let cluster: Cluster;
let functionUrl: string;
let gateway: Opened;
/** Of the same gateway, by a name of the browser's own machine: as through `kubectl port-forward`. */
let url: string;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  const fn = started.keep(await startFunction(setting, 'examples/01-minimal'));
  functionUrl = fn.url;
  await start();
});
afterAll(() => started.stop());

async function start(): Promise<void> {
  gateway = await startReplica();
  url = nameOf(gateway.url);
}

/** The URL of a gateway by a loopback name. */
function nameOf(gatewayUrl: string): string {
  return `http://127.0.0.1:${new URL(gatewayUrl).port}`;
}

async function startReplica(): Promise<typeof gateway> {
  const variables = {
    LEVELHOOK_LEASE: `${namespace}/gateways`,
    // Loopback really, but in a spelling that does not count as it: nothing else may be bound in a test.
    LEVELHOOK_HOST: '::ffff:127.0.0.1',
    LEVELHOOK_ADMIN_TOKENS: `ann:read:${STATIC.reader} ops:change:${STATIC.operator}`,
    LEVELHOOK_METRICS_LOGIN: 'true',
  };
  const replica = started.keep(await openGateway(setting, [functionUrl], variables));
  await untilReady(replica.url);
  return replica;
}

/** A ServiceAccount of the test, and a token of it. */
async function account(name: string): Promise<string> {
  await cluster.create(accounts, { metadata: { namespace, name } });
  const { status } = await cluster.client.json<{ status: { token: string } }>({
    method: 'POST',
    path: `${resourcePath(accounts, { namespace, name })}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  return status.token;
}

async function bind(name: string, subject: string, roleName = `${namespace}-${name}`): Promise<void> {
  await cluster.create(clusterRoleBindings, {
    metadata: { name: `${namespace}-${name}` },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: roleName },
    subjects: [{ kind: 'ServiceAccount', name: subject, namespace }],
  });
  started.add(() => cluster.delete(clusterRoleBindings, { name: `${namespace}-${name}` }).catch(() => {}));
}

async function allow(name: string, subject: string, verbs: string[], paths: string[]): Promise<void> {
  const metadata = { name: `${namespace}-${name}` };
  await cluster.create(clusterRoles, { metadata, rules: [{ nonResourceURLs: paths, verbs }] });
  started.add(() => cluster.delete(clusterRoles, metadata));
  await bind(name, subject);
}

async function ask(path: string, token?: string, body?: object): Promise<number> {
  const answer = await fetch(gateway.url + path, {
    ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body ? { 'content-type': 'application/json' } : {}),
    },
    redirect: 'manual',
  });
  await answer.text();
  return answer.status;
}

const PAUSE = `/queues/${CONTROLLER}/pause`;
const RESUME = `/queues/${CONTROLLER}/resume`;
const ALL = { scope: 'controller' };

async function pauses(): Promise<unknown> {
  const answer = await fetch(`${gateway.url}/queues`, { headers: { authorization: `Bearer ${STATIC.reader}` } });
  const { queues } = (await answer.json()) as { queues: { pauses: { scope: string }[] }[] };
  return queues[0]?.pauses.map(({ scope }) => scope);
}

describe.concurrent('a token of Kubernetes', () => {
  it('reads and changes what RBAC allows, and no longer once the right is gone', async () => {
    const [token, gone] = [await account('kim'), await account('kit')];
    await allow('read', 'kim', ['get'], ['/queues', '/queues/*', '/metrics']);
    await allow('kit', 'kit', ['get'], ['/queues']);
    await eventually(async () => expect(await ask('/queues', gone)).toBe(200));
    await eventually(async () => expect(await ask('/queues', token)).toBe(200));
    expect(await ask('/metrics', token)).toBe(200);
    expect(await ask('/dashboard', token)).toBe(403);
    expect(await ask(PAUSE, token, ALL)).toBe(403);
    // Its line comes before the refusals of the wait below, which leave one line a second.
    expect(await ask(RESUME, token, ALL)).toBe(403);
    expect(await pauses()).toEqual([]);

    await allow('change', 'kim', ['post'], [PAUSE]);
    await eventually(async () => expect(await ask(PAUSE, token, ALL)).toBe(200));
    expect(await ask(RESUME, token, ALL)).toBe(403);
    expect(await pauses()).toEqual(['controller']);
    const who = { user: `system:serviceaccount:${namespace}:kim`, from: 'kubernetes' };
    const what = { audit: true, method: 'POST', path: PAUSE, action: 'pause', controller: CONTROLLER };
    expect(gateway.process.lines).toContainEqual(
      expect.objectContaining({ ...who, ...what, scope: 'controller', status: 200, result: 'done' }),
    );
    expect(gateway.process.lines).toContainEqual(
      expect.objectContaining({ audit: true, ...who, path: RESUME, result: 'refused: no right' }),
    );

    await cluster.delete(clusterRoleBindings, { name: `${namespace}-change` });
    await cluster.delete(accounts, { namespace, name: 'kit' });
    await eventually(async () => expect(await ask(PAUSE, token, ALL)).toBe(403));
    await eventually(async () => expect(await ask('/queues', gone)).toBe(401));
    expect(await ask('/queues', token)).toBe(200);
    expect(await ask(RESUME, STATIC.operator, ALL)).toBe(200);
    expect(gateway.process.output).not.toContain(token);
  });

  it('is not valid when it is altered, for others, or none', async () => {
    const token = await account('lee');
    await allow('lee', 'lee', ['get'], ['/queues']);
    await eventually(async () => expect(await ask('/queues', token)).toBe(200));
    const [header, payload, signature = ''] = token.split('.');
    const path = `${resourcePath(accounts, { namespace, name: 'lee' })}/token`;
    const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: ['vault'] } };
    const { status } = await cluster.client.json<{ status: { token: string } }>({ method: 'POST', path, body });
    for (const wrong of [
      undefined,
      'x',
      `${header}.${payload}.${signature.split('').toReversed().join('')}`,
      `${header}.${payload}.`,
      status.token,
      setting.secret,
    ]) {
      expect(await ask('/queues', wrong)).toBe(401);
    }
  });

  it('is checked with the rights of system:auth-delegator, and a gateway without them says so', async () => {
    const asked = await account('mia');
    const credentials = await account('gateway');
    const access = await clusterAccess(inject('kubeconfig'));
    const { ca } = (await access.read()).tls;
    const own = new Credentials({
      server: access.server,
      read: async () => ({ tls: { ca }, headers: { authorization: `Bearer ${credentials}` } }),
    });
    started.add(() => own.close());
    const identities = new KubernetesIdentities({
      client: new ApiClient(own),
      clock: systemClock,
      logger: silentLogger,
    });
    await expect(identities.identify(asked, { name: '127.0.0.1' })).rejects.toThrow('system:auth-delegator');
    await bind('delegator', 'gateway', 'system:auth-delegator');
    const mia = await eventually(() => identities.identify(asked, { name: '127.0.0.1' }));
    expect(mia?.name).toBe(`system:serviceaccount:${namespace}:mia`);
    expect(await mia?.may('get', '/queues')).toBe(false);
  });
});

describe.concurrent('a person who may read the dashboard', () => {
  const CONTENT = 'only-for-readers-of-the-object';
  const KEY = () => `${namespace}/shown`;
  const pages = () => ({
    all: '/dashboard/views/objects?view=v1%2FConfigMap',
    list: `/dashboard/views/objects?view=v1%2FConfigMap&namespace=${namespace}`,
    object: `/dashboard/views/object?view=v1%2FConfigMap&key=${encodeURIComponent(KEY())}`,
    key: `/dashboard/controllers/${CONTROLLER}/keys/${KEY()}`,
  });
  const textOf = async (path: string, token: string): Promise<string> => {
    const answer = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${token}` } });
    expect(answer.status, path).toBe(200);
    return answer.text();
  };
  const grant = async (name: string, verbs: string[]): Promise<void> => {
    const metadata = { namespace, name };
    await cluster.create(roles, { metadata, rules: [{ apiGroups: [''], resources: ['configmaps'], verbs }] });
    const roleRef = { apiGroup: RBAC, kind: 'Role', name };
    await cluster.create(roleBindings, {
      metadata,
      roleRef,
      subjects: [{ kind: 'ServiceAccount', namespace, name: 'eve' }],
    });
  };

  it('sees the objects that RBAC lets this person read, and else one sentence with the missing right', async () => {
    const labels = { note: CONTENT };
    await cluster.create(configMaps, { metadata: { namespace, name: 'shown', labels }, data: { a: CONTENT } });
    const token = await account('eve');
    await allow('eve', 'eve', ['get'], ['/dashboard', '/dashboard/*', '/queues', '/queues/*']);
    await eventually(async () => expect(await ask('/dashboard', token)).toBe(200));
    const { all, list, object, key } = pages();
    await eventually(async () => expect(await textOf(object, STATIC.reader)).toContain(`a: ${CONTENT}`));
    const eve = `system:serviceaccount:${namespace}:eve has no right to`;
    const within = `configmaps in the namespace ${namespace}: RBAC must grant it`;
    for (const [path, sentence] of [
      [all, `${eve} list configmaps in all namespaces: RBAC must grant it, or name a namespace`],
      [list, `${eve} list ${within}`],
      [object, `${eve} get ${within}`],
      [key, `${eve} get ${within}`],
    ] as const) {
      const text = await textOf(path, token);
      expect(text, path).toContain(sentence);
      expect(text, path).not.toContain(CONTENT);
    }
    for (const path of ['/queues', `/queues/${CONTROLLER}/keys/${KEY()}`, `/queues/${CONTROLLER}/runs`]) {
      expect(await textOf(path, token), path).not.toContain(CONTENT);
    }
    // Nor does the state of a key tell whether there is an object of this name.
    const objectOf = async (name: string): Promise<unknown> => {
      const text = await textOf(`/queues/${CONTROLLER}/keys/${namespace}/${name}`, token);
      return (JSON.parse(text) as { object?: unknown }).object;
    };
    for (const name of ['shown', 'not-there']) {
      expect(await objectOf(name)).toEqual({
        state: 'unknown',
        reason: expect.stringContaining(`${eve} get ${within}`),
      });
    }

    await grant('lists', ['list']);
    await eventually(async () => expect(await textOf(list, token)).toContain(CONTENT));
    for (const path of [all, object, key]) expect(await textOf(path, token), path).not.toContain(CONTENT);
    await grant('gets', ['get']);
    for (const path of [object, key]) {
      await eventually(async () => expect(await textOf(path, token), path).toContain(`a: ${CONTENT}`));
    }
    expect(await textOf(all, token)).not.toContain(CONTENT);
    // The review of this name is one of its own: the gateway keeps the last answer for ten seconds from its question.
    await eventually(async () => expect(await objectOf('not-there')).toEqual({ state: 'absent' }));
  });
});

it('a static token reads, or reads and changes', async () => {
  for (const path of ['/queues', '/dashboard', '/metrics']) {
    expect(await ask(path), path).toBe(401);
    expect(await ask(path, STATIC.reader), path).toBe(200);
  }
  expect(await ask(PAUSE, undefined, ALL)).toBe(401);
  expect(await ask(PAUSE, STATIC.reader, ALL)).toBe(403);
  expect(await pauses()).toEqual([]);
  expect(await ask(PAUSE, STATIC.operator, ALL)).toBe(200);
  expect(await ask(RESUME, STATIC.operator, ALL)).toBe(200);
  expect(await ask('/readyz')).toBe(200);
});

it.each([
  '//queues',
  '/Queues',
  '/queues%2F',
  '/%71ueues',
  '/queues/',
  '/./queues',
  '/x/../queues',
  '/dashboard/..;/queues',
])('shows nothing at %s without a token', async (path) => {
  const answer = await fetch(gateway.url + path);
  expect([401, 404]).toContain(answer.status);
  expect(await answer.text()).not.toContain(CONTROLLER);
});

describe('a session of a browser', () => {
  const form = (path: string, fields: Record<string, string>, cookie?: string) =>
    fetch(url + path, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { accept: 'text/html', origin: url, ...(cookie === undefined ? {} : { cookie }) },
      redirect: 'manual',
    });
  const open = async (cookie: string, at = url) => (await fetch(`${at}/queues`, { headers: { cookie } })).status;

  async function logIn(token: string): Promise<string> {
    const answer = await form('/login', { token, to: '/queues' });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/queues']);
    return answer.headers.get('set-cookie')?.split(';')[0] ?? '';
  }

  it('begins and ends on all replicas', async () => {
    const replica = await startReplica();
    const cookie = await logIn(STATIC.reader);
    expect(await open(cookie, nameOf(replica.url))).toBe(200);
    const csrf = csrfTokenOf(cookie.slice(cookie.indexOf('=') + 1));
    expect((await form('/logout', { csrf }, cookie)).status).toBe(303);
    expect(await open(cookie, nameOf(replica.url))).toBe(401);
    await replica.process.kill('SIGTERM');
  });

  it('lasts over a restart, and shows its token neither in the cookie nor in Redis', async () => {
    const cookie = await logIn(STATIC.operator);
    expect(await open(cookie)).toBe(200);
    const shown = `${cookie}\n${await dumpRedis(setting.redisUrl, setting.keyPrefix)}\n${gateway.process.output}`;
    expect(shown).toContain(':session:');
    expect(shown).not.toContain(STATIC.operator);
    expect(shown.slice(cookie.length)).not.toContain(cookie.split('=')[1]);
    await gateway.process.kill('SIGTERM');
    await start();
    expect(await open(cookie)).toBe(200);

    expect((await form(PAUSE, {}, cookie)).status).toBe(403);
    expect(await pauses()).toEqual([]);
    expect((await form('/logout', {}, cookie)).status).toBe(403);
    expect(await open(cookie)).toBe(200);
  });

  it.each(['', 'x', 'A'.repeat(43), '%00'.repeat(43), 'of:x', '*', '"', 'é', 'A'.repeat(8000)])(
    'is not found by the invented cookie %#',
    async (value) => {
      const sent = `levelhook-session=${encodeURIComponent(value)}; __Host-levelhook-session=${encodeURIComponent(value)}`;
      expect(await open(sent)).toBe(401);
    },
  );

  it('ends with the token that it began with', async () => {
    const token = await account('noa');
    await allow('noa', 'noa', ['get'], ['/queues']);
    await eventually(async () => expect(await ask('/queues', token)).toBe(200));
    const cookie = await logIn(token);
    expect(await open(cookie)).toBe(200);
    await cluster.delete(accounts, { namespace, name: 'noa' });
    await eventually(async () => expect(await open(cookie)).toBe(401));
  });

  it('is one of twenty of its user: the oldest one ends', async () => {
    const first = await logIn(STATIC.reader);
    for (let at = 0; at < 20; at += 1) expect(await open(await logIn(STATIC.reader))).toBe(200);
    expect(await open(first)).toBe(401);
  });

  it('does not begin without a right to see anything', async () => {
    const answer = await form('/login', { token: await account('ola'), to: '/queues' });
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([403, null]);
  });
});

describe('the commands that ask a gateway', () => {
  async function levelhook(args: string[], variables: Record<string, string> = {}): Promise<[number | string, string]> {
    const command = new TestProcess('src/cli/levelhook.js', args, {
      LEVELHOOK_GATEWAY: url,
      ...variables,
    });
    const code = await command.exited;
    return [code, command.output];
  }

  it('works with a token, within its rights', async () => {
    const asReader = { LEVELHOOK_GATEWAY_TOKEN: STATIC.reader };
    const [code, text] = await levelhook(['get', 'controllers'], asReader);
    expect([code, text]).toEqual([0, expect.stringContaining(CONTROLLER)]);
    expect(await levelhook(['pause', CONTROLLER], asReader)).toEqual([
      1,
      `levelhook: The gateway at ${url} answered 403: ann has no right to post ${PAUSE}.`,
    ]);
    const asOperator = { LEVELHOOK_GATEWAY_TOKEN: STATIC.operator };
    expect((await levelhook(['pause', CONTROLLER], asOperator))[0]).toBe(0);
    expect(await pauses()).toEqual(['controller']);
    expect((await levelhook(['resume', CONTROLLER], asOperator))[0]).toBe(0);
  });

  it('says in one sentence that a token is wrong or missing', async () => {
    const wrong = `levelhook: The gateway at ${url} answered 401: the bearer token is missing, wrong or no longer valid.`;
    expect(await levelhook(['get', 'controllers'], { LEVELHOOK_GATEWAY_TOKEN: 'wrong' })).toEqual([1, wrong]);
    const [code, text] = await levelhook(['get', 'controllers']);
    expect([code, text]).toEqual([1, expect.stringMatching(/^levelhook: .* asks for a login: .*[.]$/)]);
  });

  it('works over https with the authorities of the gateway', async () => {
    const folder = join(await started.directory(), 'certificates');
    const ca = await createCertificates(folder);
    const caFile = join(folder, 'own-authority.crt');
    await writeFile(caFile, ca);
    const server = new AdminServer({
      listen: {
        host: '::ffff:127.0.0.1',
        port: 0,
        tls: { certFile: join(folder, 'serving.crt'), keyFile: join(folder, 'serving.key') },
      },
      live: new Map(),
      ready: new Map(),
      metrics: async () => '',
      apis: { dashboard: new Hono(), reconcile: new Hono(), queues: NO_QUEUES },
      login: {
        backend: () => ({
          identities: [new StaticTokens([{ name: 'ann', right: 'read', token: STATIC.reader }])],
          sessions: { start: async () => '', tokenOf: async () => undefined, end: async () => {} },
        }),
        metrics: false,
        auditLog: silentLogger,
      },
      logger: silentLogger,
    });
    await server.start();
    started.add(() => server.stop());
    const https = `https://127.0.0.1:${new URL(server.url).port}`;
    const variables = { LEVELHOOK_GATEWAY: https, LEVELHOOK_GATEWAY_TOKEN: STATIC.reader };
    expect(await levelhook(['get', 'controllers', '--ca-file', caFile], variables)).toEqual([
      0,
      'this gateway runs no controller',
    ]);
    const [code, text] = await levelhook(['get', 'controllers'], variables);
    expect([code, text]).toEqual([1, expect.stringMatching(/^levelhook: No gateway answers .* --ca-file[.]$/)]);
  });
});
