import { afterAll, beforeAll, expect, it } from 'vitest';
import { resource, resourcePath } from '../../../src/core/index.ts';
import { type ControlPlane, type RedisServer, startControlPlane, startRedis } from '../../../src/testing/index.ts';
import { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startFunction, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';

const STATIC = 'static-token-of-a-reader';
const accounts = resource('v1', 'ServiceAccount');
const RBAC = 'rbac.authorization.k8s.io';
const started = new Started();
let plane: ControlPlane;
let redis: RedisServer;
let url: string;
/** A token of Kubernetes, with the right to read `/queues`. */
let token: string;
/** Of two sessions: one began with the token of Kubernetes, one with the static token. */
let cookies: { readonly kubernetes: string; readonly fixed: string };

beforeAll(async () => {
  [plane, redis] = await Promise.all([startControlPlane({}), startRedis({ ignoreEnvironment: true })]);
  started.add(() => plane.stop());
  started.add(() => redis.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
  const fn = started.keep(await startFunction(setting, 'examples/01-minimal'));
  const gateway = started.keep(
    await openGateway(setting, [fn.url], {
      // Loopback really, but in a spelling that does not count as it.
      LEVELHOOK_HOST: '::ffff:127.0.0.1',
      LEVELHOOK_ADMIN_TOKENS: `ann:read:${STATIC}`,
    }),
  );
  await untilReady(gateway.url);
  url = `http://127.0.0.1:${new URL(gateway.url).port}`;
  const kim = { namespace: 'default', name: 'kim' };
  await cluster.create(accounts, { metadata: kim });
  const { status } = await cluster.client.json<{ status: { token: string } }>({
    method: 'POST',
    path: `${resourcePath(accounts, kim)}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  token = status.token;
  const named = { metadata: { name: 'reads' } };
  await cluster.create(resource(`${RBAC}/v1`, 'ClusterRole', { namespaced: false }), {
    ...named,
    rules: [{ nonResourceURLs: ['/queues'], verbs: ['get'] }],
  });
  await cluster.create(resource(`${RBAC}/v1`, 'ClusterRoleBinding', { namespaced: false }), {
    ...named,
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'reads' },
    subjects: [{ kind: 'ServiceAccount', ...kim }],
  });
  await eventually(async () => expect((await ask({ bearer: token })).status).toBe(200));
  cookies = { kubernetes: await logIn(token), fixed: await logIn(STATIC) };
});
afterAll(() => started.stop());

interface Asked {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: string | null;
}

async function ask(
  { bearer, cookie }: { readonly bearer?: string; readonly cookie?: string },
  accept = 'application/json',
): Promise<Asked> {
  const headers = {
    accept,
    ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
    ...(cookie === undefined ? {} : { cookie }),
  };
  const answer = await fetch(`${url}/queues`, { headers });
  return { status: answer.status, text: await answer.text(), retryAfter: answer.headers.get('retry-after') };
}

function form(fields: Readonly<Record<string, string>>): Promise<Response> {
  const headers = { accept: 'text/html', origin: url };
  return fetch(`${url}/login`, { method: 'POST', body: new URLSearchParams(fields), headers, redirect: 'manual' });
}

async function logIn(of: string): Promise<string> {
  const answer = await form({ token: of, to: '/queues' });
  expect(answer.status).toBe(303);
  return answer.headers.get('set-cookie')?.split(';')[0] ?? '';
}

it('without its apiserver the gateway answers 503 to tokens of Kubernetes, and lets static tokens in', async () => {
  const away = { status: 503, retryAfter: '1', text: expect.stringContaining('the apiserver cannot check logins') };
  await plane.kill('kube-apiserver');
  // An answer is used for ten seconds, and not longer.
  await eventually(async () => expect(await ask({ bearer: token })).toEqual(away));
  expect(await ask({ cookie: cookies.kubernetes })).toEqual(away);
  expect(await ask({ cookie: cookies.kubernetes }, 'text/html')).toMatchObject(away);
  const refused = await form({ token, to: '/queues' });
  expect([refused.status, refused.headers.get('set-cookie')]).toEqual([503, null]);
  // Nobody knows whether another token is valid.
  expect(await ask({ bearer: 'a-token-that-nobody-knows' })).toEqual(away);
  expect((await ask({ bearer: STATIC })).status).toBe(200);
  expect((await ask({ cookie: cookies.fixed })).status).toBe(200);

  await plane.start('kube-apiserver');
  await eventually(async () => expect((await ask({ bearer: token })).status).toBe(200));
  expect((await ask({ cookie: cookies.kubernetes })).status).toBe(200);
});

it('without its Redis the gateway answers 503 to sessions and to a login, and checks bearer tokens as before', async () => {
  await redis.kill('SIGKILL');
  const away = { status: 503, retryAfter: '1', text: expect.stringContaining('the sessions with it') };
  await eventually(async () => expect(await ask({ cookie: cookies.fixed })).toEqual(away));
  expect(await ask({ cookie: cookies.kubernetes }, 'text/html')).toMatchObject(away);
  const refused = await form({ token: STATIC, to: '/queues' });
  expect([refused.status, refused.headers.get('set-cookie')]).toEqual([503, null]);
  // The login lets them through; the queues are away, too.
  const queues = { status: 503, text: expect.stringContaining('Redis cannot be asked') };
  expect(await ask({ bearer: STATIC })).toMatchObject(queues);
  expect(await ask({ bearer: token })).toMatchObject(queues);
  expect((await ask({ bearer: 'a-token-that-nobody-knows' })).status).toBe(401);
});
