import { randomUUID } from 'node:crypto';
import { Agent, request as ask } from 'undici';
import { beforeEach, describe, expect } from 'vitest';
import { resource, resourcePath } from '../../../src/core/index.ts';
import { CONTRACT_VERSION, LEVELHOOK_HEADER } from '../../../src/contract/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import type { Opened } from '../../harness/opened.ts';
import { allow, answerWith, refuse, type ReviewBehaviour, ReviewFunction } from '../../harness/review-function.ts';
import { QueueClient } from '../../harness/queue-client.ts';
import { configureWebhook, reviewServing, reviewsUrl } from '../../harness/webhook-configurations.ts';
import { it } from '../../harness/world.ts';

const other = uniqueName('reviews-other');
const deployments = resource('apps/v1', 'Deployment');
const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };
const deployment = { apiVersion: 'apps/v1', kind: 'Deployment' };

let cluster: Cluster;
let namespace: string;
let gateway: Opened;
let guard: ReviewFunction;
let ca: string;
let url: string;
let agent: Agent;
let count = 0;

it.beforeAll(async ({ world }) => {
  const { setting, started } = world;
  ({ cluster, namespace } = world);
  await cluster.createNamespace(other);
  started.add(() => cluster.deleteNamespace(other));
  guard = await started.open(
    new ReviewFunction(
      {
        name: 'guard',
        for: { ...configMap, namespaces: [namespace] },
        reads: [deployment],
        webhooks: [
          {
            ...configMap,
            type: 'validating',
            name: 'names',
            operations: ['CREATE', 'UPDATE', 'DELETE'],
            namespaces: [namespace],
          },
          { ...configMap, type: 'mutating', name: 'defaults', operations: ['CREATE'] },
          {
            ...deployment,
            type: 'validating',
            name: 'scale',
            operations: ['UPDATE'],
            subresources: ['scale', 'status'],
          },
        ],
      },
      setting.secret,
    ),
  );
  const serving = await reviewServing(started, setting.kubeconfig);
  ca = serving.ca;
  gateway = await world.gateway([guard.url], serving.settings);
  url = `${await reviewsUrl(gateway)}/webhooks/guard`;
  agent = new Agent({ connect: { ca, ...serving.client } });
  started.add(() => agent.destroy());
  const options = { cluster, started, ca, namespace };
  const rule = ['', 'v1', 'configmaps'] as const;
  const operations = ['CREATE', 'UPDATE', 'DELETE'] as const;
  await configureWebhook({ ...options, name: `${namespace}-v` }, url, {
    type: 'validating',
    name: 'names',
    operations,
    rule,
  });
  await configureWebhook({ ...options, name: `${namespace}-m` }, url, {
    type: 'mutating',
    name: 'defaults',
    operations: ['CREATE'],
    rule,
  });
  for (const subresource of ['scale', 'status']) {
    await configureWebhook({ ...options, name: `${namespace}-${subresource}` }, url, {
      type: 'validating',
      name: 'scale',
      operations: ['UPDATE'],
      rule: ['apps', 'v1', `deployments/${subresource}`],
    });
  }
  await eventually(async () => {
    guard.reviews.length = 0;
    await create('probe');
    expect(new Set(guard.reviews.map(({ webhook }) => webhook))).toEqual(new Set(['names', 'defaults']));
  });
});

beforeEach(() => {
  guard.behaviour = allow;
  guard.reviews.length = 0;
});

function create(stem: string, data: Record<string, string> = {}) {
  count += 1;
  return cluster.create(configMaps, { metadata: { namespace, name: `${stem}-${count}` }, data });
}

/** Only the validating webhook behaves so. */
function validate(behaviour: ReviewBehaviour): void {
  guard.behaviour = (review, response) => (review.webhook === 'names' ? behaviour : allow)(review, response);
}

const encoded = (patch: object): string => Buffer.from(JSON.stringify(patch)).toString('base64');
const madeSo = [{ op: 'add', path: '/data', value: { made: 'so' } }];

const operationsOf = (webhook: string) =>
  guard.reviews.filter((each) => each.webhook === webhook).map(({ request }) => request.operation);

describe('a write that a webhook reviews', () => {
  it('is stored as the function says: created, changed, applied and deleted', async () => {
    const object = await create('a');
    expect([operationsOf('names'), operationsOf('defaults')]).toEqual([['CREATE'], ['CREATE']]);
    /** The apiserver has a write reviewed twice when its watch cache lacked the write before. */
    const expectReviewed = async (operation: string, write: () => Promise<unknown>): Promise<void> => {
      guard.reviews.length = 0;
      await write();
      expect([...new Set(operationsOf('names'))]).toEqual([operation]);
      expect(operationsOf('defaults')).toEqual([]);
    };
    const key = { namespace, name: object.metadata.name };
    await expectReviewed('UPDATE', () => cluster.patch(configMaps, key, { data: { a: '1' } }));
    await expectReviewed('UPDATE', () =>
      cluster.client.json({
        method: 'PATCH',
        path: resourcePath(configMaps, key),
        query: { fieldManager: 'test', force: true },
        contentType: 'application/apply-patch+yaml',
        body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: key.name }, data: { b: '2' } },
      }),
    );
    await expectReviewed('DELETE', () => cluster.delete(configMaps, key));
  });

  it('is refused with the message of the function, and then it is not stored', async () => {
    validate(refuse('the name is taken'));
    await expect(create('b')).rejects.toThrow(/names.test.levelhook.dev.*denied the request: the name is taken/);
    const { items } = await cluster.list(configMaps, namespace);
    expect(items.map(({ metadata }) => metadata.name).filter((name) => name.startsWith('b-'))).toEqual([]);
  });

  it('is changed by the patch of a mutating webhook', async () => {
    const mutate = answerWith({ allowed: true, patchType: 'JSONPatch', patch: encoded(madeSo) });
    guard.behaviour = (review, response) => (review.webhook === 'defaults' ? mutate : allow)(review, response);
    expect((await create('c')).data).toEqual({ made: 'so' });
  });

  it('is known to be a dry run', async () => {
    await cluster.client.json({
      method: 'POST',
      path: resourcePath(configMaps, { namespace }),
      query: { dryRun: 'All' },
      body: { ...configMap, metadata: { namespace, name: 'dry' } },
    });
    expect(guard.reviews.map(({ request }) => request.dryRun)).toEqual([true, true]);
  });

  it('may be that of a subresource, whose kind is another', async () => {
    const name = 'web';
    const labels = { app: name };
    const template = { metadata: { labels }, spec: { containers: [{ name, image: 'pause' }] } };
    await cluster.create(deployments, {
      metadata: { namespace, name },
      spec: { replicas: 0, selector: { matchLabels: labels }, template },
    });
    const path = resourcePath(deployments, { namespace, name });
    const patch = (subresource: string, body: object) =>
      cluster.client.json({
        method: 'PATCH',
        path: `${path}/${subresource}`,
        body,
        contentType: 'application/merge-patch+json',
      });
    // The apiserver learns of each webhook by its own watch.
    await eventually(async () => {
      await patch('status', { status: { conditions: [] } });
      await patch('scale', { spec: { replicas: 1 } });
      const reviewed = guard.reviews.map(({ request }) => [request.subResource, request.kind.kind]);
      expect(reviewed).toContainEqual(['status', 'Deployment']);
      expect(reviewed).toContainEqual(['scale', 'Scale']);
    });
    guard.behaviour = refuse('no more');
    await expect(patch('scale', { spec: { replicas: 2 } })).rejects.toThrow(/denied the request: no more/);
  });

  it('comes with the cache, its age, and a deadline before that of the apiserver', async () => {
    // A review goes on without the age that Redis does not tell within half a second.
    const review = await eventually(async () => {
      guard.reviews.length = 0;
      await create('d');
      const found = guard.reviews.find(({ webhook }) => webhook === 'names');
      expect(Object.keys(found?.cacheAgeSeconds ?? {})).toHaveLength(2);
      return found;
    });
    expect(review).toMatchObject({
      version: CONTRACT_VERSION,
      controller: 'guard',
      webhook: 'names',
      authenticated: true,
    });
    expect(Object.keys(review?.cache.views ?? {}).toSorted()).toEqual(['apps/v1/Deployment', 'v1/ConfigMap']);
    expect(review?.cache.token).toMatch(/^ey/);
    expect(Object.keys(review?.cacheAgeSeconds ?? {}).toSorted()).toEqual(['apps/v1/Deployment', 'v1/ConfigMap']);
    for (const age of Object.values(review?.cacheAgeSeconds ?? {})) expect(age).toBeLessThan(120);
    expect(review?.remainingSeconds).toBeGreaterThan(5);
    expect(review?.remainingSeconds).toBeLessThanOrEqual(9.5);
  });
});

describe('an answer that is none', () => {
  const ours = (body: unknown, status = 200): ReviewBehaviour => {
    return (_, response) => {
      response.writeHead(status, { [LEVELHOOK_HEADER]: CONTRACT_VERSION });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    };
  };
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' };

  it.each<[string, ReviewBehaviour, RegExp]>([
    ['another UID', answerWith({ uid: 'another', allowed: true }), /is to another review: its UID differs/],
    ['no verdict', answerWith({}), /does not say whether the write is allowed/],
    ['a verdict in words', answerWith({ allowed: 'yes' }), /does not say whether the write is allowed/],
    [
      'a patch of a validating webhook',
      answerWith({ allowed: true, patchType: 'JSONPatch', patch: encoded([]) }),
      /has a patch, and the webhook names is declared as validating/,
    ],
    ['no response', ours(review), /answer has no response/],
    [
      'a review of another version',
      ours({ ...review, apiVersion: 'admission.k8s.io/v1beta1' }),
      /is not a AdmissionReview/,
    ],
    ['null', ours('null'), /is not a AdmissionReview/],
    ['text', ours('allowed'), /is not JSON/],
    ['a larger one', ours(`"${'x'.repeat(5 * 1024 * 1024)}"`), /is too large: the answer is larger than 4 MiB/],
    ['an error', ours({ error: 'the secret is another' }, 401), /the function answered 401: the secret is another/],
    [
      'that of another server',
      (_, response) => response.end('{}'),
      /no function answered: another server did, with 200/,
    ],
    ['a broken connection', (_, response) => void response.socket?.destroy(), /the connection to the function broke/],
  ])('%s: the failure policy decides, and the apiserver says why', async (_name, behaviour, reason) => {
    validate(behaviour);
    const error: unknown = await create('n').catch((thrown: unknown) => thrown);
    expect(String(error)).toMatch(/failed calling webhook "names.test.levelhook.dev"/);
    expect(String(error)).toMatch(reason);
  });

  it('a patch that only a reader of doubled fields sees does not reach the apiserver', async () => {
    validate(({ request }, response) => {
      const verdict = { uid: request.uid, allowed: true };
      const patched = { ...verdict, patchType: 'JSONPatch', patch: encoded(madeSo) };
      const { apiVersion, kind } = review;
      const head = JSON.stringify({ apiVersion, kind, response: patched }).slice(0, -1);
      response.setHeader(LEVELHOOK_HEADER, CONTRACT_VERSION);
      response.end(`${head},"response":${JSON.stringify(verdict)}}`);
    });
    const request = admission({});
    expect(await post('names', request)).toMatchObject({
      status: 200,
      text: expect.not.stringContaining('patch') as string,
    });
  });

  it('an answer that does not come is told before the apiserver gives up', async () => {
    guard.behaviour = () => {};
    const answer = await post('names', admission({}), { timeout: '2s' });
    expect(answer).toMatchObject({
      status: 504,
      message: 'the function did not answer before the timeout of the webhook',
    });
  });
});

/** A review as the apiserver sends it; `request` says what is not as with a ConfigMap that is created. */
function admission(request: object): object {
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: randomUUID(),
      kind: { group: '', version: 'v1', kind: 'ConfigMap' },
      resource: { group: '', version: 'v1', resource: 'configmaps' },
      namespace,
      operation: 'CREATE',
      object: { ...configMap, metadata: { namespace, name: 'x' } },
      ...request,
    },
  };
}

async function post(
  webhook: string,
  body: unknown,
  { contentType = 'application/json', method = 'POST', timeout = '10s' } = {},
): Promise<{ status: number; text: string; message: string; retryAfter: unknown }> {
  const target = webhook.startsWith('http') ? webhook : `${url}/${webhook}`;
  const {
    statusCode,
    body: answer,
    headers,
  } = await ask(`${target}?timeout=${timeout}`, {
    dispatcher: agent,
    method: method as 'POST',
    headers: { 'content-type': contentType },
    body: method === 'GET' ? null : typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  const { message } = JSON.parse(text) as { message: string };
  return { status: statusCode, text, message, retryAfter: headers['retry-after'] };
}

describe('a request that is no review of the webhook', () => {
  it.each<[string, () => unknown, number, string]>([
    ['text', () => 'hello', 400, 'the body is not JSON'],
    ['null', () => null, 400, 'the body is not a AdmissionReview'],
    ['the old version', () => ({ ...admission({}), apiVersion: 'admission.k8s.io/v1beta1' }), 400, 'name v1'],
    ['a conversion', () => ({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview', request: {} }), 400, ''],
    ['no request', () => ({ ...admission({}), request: undefined }), 400, 'lacks a part of its request'],
    ['no UID', () => admission({ uid: '' }), 400, 'lacks a part'],
    ['a resource as text', () => admission({ resource: 'configmaps' }), 400, 'lacks a part'],
    ['another namespace', () => admission({ namespace: other }), 403, `does not declare the namespace ${other}`],
    ['no namespace', () => admission({ namespace: undefined }), 403, 'it declares namespaces'],
    [
      'another kind',
      () => admission({ resource: { group: '', version: 'v1', resource: 'secrets' } }),
      403,
      'v1/ConfigMap',
    ],
    [
      'a kind in disguise',
      () => admission({ kind: { group: '', version: 'v1', kind: 'Secret' } }),
      403,
      'v1/ConfigMap',
    ],
    ['another operation', () => admission({ operation: 'CONNECT' }), 403, 'does not declare the operation CONNECT'],
    ['a subresource', () => admission({ subResource: 'status' }), 403, 'does not declare the subresource status'],
    ['9 MiB', () => admission({ object: 'x'.repeat(9 * 1024 * 1024) }), 413, 'the review is larger than 8 MiB'],
  ])('%s is refused in one sentence', async (_name, body, status, message) => {
    const answer = await post('names', body());
    expect(answer).toMatchObject({ status });
    expect(answer.message).toContain(message);
    // Kubernetes' own controllers have others reviewed.
    expect(operationsOf('names')).toEqual([]);
  });

  it('paths, methods and types that there are not are refused', async () => {
    const base = url.replace(/\/guard$/, '');
    expect(await post('nothing', admission({}))).toMatchObject({
      status: 404,
      message: 'the controller guard has no webhook nothing',
    });
    expect(await post(`${base}/nobody/names`, admission({}))).toMatchObject({
      status: 404,
      message: 'there is no controller nobody',
    });
    expect(await post(`${base}/`, admission({}))).toMatchObject({ status: 404 });
    expect(await post('names', '', { method: 'GET' })).toMatchObject({ status: 405 });
    expect(await post('names', admission({}), { contentType: 'text/plain' })).toMatchObject({ status: 415 });
  });
});

describe('a function that is not there', () => {
  it('gets the review when it has started, within the timeout', async () => {
    await guard.close();
    const reviewed = create('cold');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    await guard.open();
    expect((await reviewed).metadata.name).toMatch(/^cold/);
  });
});

it('reviews are counted and measured by their path', async () => {
  await create('m');
  await eventually(async () => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    const path = 'webhook="/webhooks/guard/names"';
    expect(text).toMatch(new RegExp(`controller_runtime_webhook_requests_total\\{${path},code="200"\\} [1-9]`));
    expect(text).toContain(`controller_runtime_webhook_requests_in_flight{${path}} 0`);
    expect(text).toMatch(new RegExp(`controller_runtime_webhook_latency_seconds_count\\{${path}\\} [1-9]`));
    expect(text).not.toContain('nobody');
  });
});

it('reviews are answered while the keys are paused', async () => {
  await new QueueClient(gateway.url, 'guard').pause();
  await create('p');
  expect(operationsOf('names')).toEqual(['CREATE']);
});
