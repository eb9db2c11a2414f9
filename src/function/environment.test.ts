import { describe, expect, it } from 'vitest';
import { generateSecret, importSecret, sign, type Trigger } from '../contract/index.ts';
import { resource, UserError } from '../core/index.ts';
import { controller } from './controller.ts';
import { environmentApp, type FilePlatform, listenAddress, type Variables } from './environment.ts';
import type { ApiFetch } from './fetch-transport.ts';
import { validatingWebhook } from './webhooks/index.ts';

const secret = generateSecret();
const pods = resource('v1', 'Pod');
const reader = controller({ name: 'reader', for: pods }).reconcile(async ({ namespace = '', name }, { api }) => {
  await api.get(pods, { namespace, name });
});

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
const FILES: Record<string, string> = {
  [`${ACCOUNT}/token`]: 'token of the pod\n',
  [`${ACCOUNT}/ca.crt`]: 'authority of the pod',
  '/token': 'token of a file',
  '/ca.crt': 'authority of a file',
};

/** A run's requests to the apiserver, and the certificate authority that they trust. */
async function requestOf(variables: Variables): Promise<object | undefined> {
  let seen: object | undefined;
  const fetchTrusting =
    (ca: string): ApiFetch =>
    async (url, { headers, redirect }) => {
      seen = { url, authorization: headers['authorization'], ca, redirect };
      return { status: 404, headers: { get: () => null }, text: async () => '{}' };
    };
  const files: FilePlatform = {
    readFile: async (path) => FILES[path] ?? Promise.reject(new Error(`no ${path}`)),
    fetchTrusting,
    fetch: fetchTrusting('well-known'),
  };
  const app = environmentApp(reader, { LEVELHOOK_SIGNING_SECRETS: secret, ...variables }, files);
  const body = JSON.stringify({
    version: 'v1',
    controller: 'reader',
    deadline: new Date(Date.now() + 15_000).toISOString(),
    remainingSeconds: 15,
    cache: { views: {} },
    requests: [{ namespace: 'a', name: 'b', attempt: 1, run: 1, reasons: [] }],
  } satisfies Trigger);
  const headers = await sign([await importSecret(secret)], { id: 'id', nowMs: Date.now(), body });
  expect((await app.request('/', { method: 'POST', body, headers: { ...headers } })).status).toBe(200);
  return seen;
}

describe('the app of an environment', () => {
  const path = '/api/v1/namespaces/a/pods/b';
  const server = 'https://kube.example.com';

  it.each<[string, Variables, object]>([
    [
      'a token and a well-known authority',
      { KUBE_SERVER: `${server}/`, KUBE_TOKEN: ' abc\n' },
      { url: `${server}${path}`, authorization: 'Bearer abc', ca: 'well-known', redirect: 'manual' },
    ],
    [
      'files',
      { KUBE_SERVER: server, KUBE_TOKEN_FILE: '/token', KUBE_CA_FILE: '/ca.crt' },
      {
        url: `${server}${path}`,
        authorization: 'Bearer token of a file',
        ca: 'authority of a file',
        redirect: 'manual',
      },
    ],
    [
      'the ServiceAccount of a pod',
      { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' },
      {
        url: `https://[fd00::1]:6443${path}`,
        authorization: 'Bearer token of the pod',
        ca: 'authority of the pod',
        redirect: 'manual',
      },
    ],
  ])('reaches the apiserver with %s', async (_what, variables, request) => {
    expect(await requestOf(variables)).toEqual(request);
  });

  it.each<[string, Variables, RegExp]>([
    ['no secret', { LEVELHOOK_SIGNING_SECRETS: ' ' }, /LEVELHOOK_SIGNING_SECRETS is not set/],
    ['a malformed secret', { LEVELHOOK_SIGNING_SECRETS: 'x', KUBE_SERVER: server, KUBE_TOKEN: 't' }, /secret 1 of 1/],
    ['no server', {}, /KUBE_SERVER is not set/],
    ['a server by http', { KUBE_SERVER: 'http://kube.example.com', KUBE_TOKEN: 't' }, /must be an https URL/],
    ['a server that is no URL', { KUBE_SERVER: 'kube', KUBE_TOKEN: 't' }, /must be an https URL/],
    ['no token', { KUBE_SERVER: server }, /KUBE_TOKEN is not set/],
    ['a file, without files', { KUBE_SERVER: server, KUBE_TOKEN: 't', KUBE_CA_FILE: '/ca.crt' }, /no files here/],
    ['a token file, without files', { KUBE_SERVER: server, KUBE_TOKEN_FILE: '/token' }, /KUBE_TOKEN is not set/],
    [
      'reviews without a signature that are neither',
      { KUBE_SERVER: server, KUBE_TOKEN: 't', LEVELHOOK_UNSIGNED_REVIEWS: 'yes' },
      /LEVELHOOK_UNSIGNED_REVIEWS must be true or false, not "yes"/,
    ],
    ['a binding that is no text', { LEVELHOOK_SIGNING_SECRETS: { get() {} } }, /LEVELHOOK_SIGNING_SECRETS is not set/],
  ])('says what is wrong: %s', (_what, variables, error) => {
    const make = () => environmentApp(reader, { LEVELHOOK_SIGNING_SECRETS: secret, ...variables });
    expect(make).toThrow(UserError);
    expect(make).toThrow(error);
  });
});

it.each<[string | undefined, number]>([
  ['true', 400],
  ['false', 404],
  [undefined, 404],
])('takes reviews without a signature only if told to: %s', async (text, status) => {
  const titles = validatingWebhook({ name: 'titles', for: pods }).validate(() => {});
  const app = environmentApp(
    { ...reader, webhooks: [titles] },
    {
      LEVELHOOK_SIGNING_SECRETS: secret,
      KUBE_SERVER: 'https://kube.example.com',
      KUBE_TOKEN: 't',
      LEVELHOOK_UNSIGNED_REVIEWS: text,
    },
  );
  expect((await app.request('/webhooks/titles', { method: 'POST', body: '{}' })).status).toBe(status);
});

it.each<[Variables, object]>([
  [{}, { host: '127.0.0.1', port: 8080 }],
  [
    { HOST: '::', PORT: '0' },
    { host: '::', port: 0 },
  ],
])('listens where %j says', (variables, address) => {
  expect(listenAddress(variables)).toEqual(address);
});

it.each(['x', '-1', '65536', '1.5'])('refuses the port %s', (PORT) => {
  expect(() => listenAddress({ PORT })).toThrow(UserError);
});
