import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { generateSecret } from '../../../src/contract/index.ts';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { loadCredentials } from '../../../src/ground/apiserver/credentials.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { exact } from '../../harness/exact-json.ts';
import { createSetting, type Listening, startFunctionProcess, uniqueName } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';

// A real apiserver calls a function that serves https, without a gateway between them.

const GROUP = 'direct.example.com';
/** The fields of an object in JSON: integers that JavaScript's numbers do not have, and the last one that they have. */
const COUNTS = '"odd":9007199254740993,"max":9223372036854775807,"min":-9223372036854775808,"last":9007199254740991';
const COPIES = COUNTS.replaceAll('":', '-copy":');
const namespace = uniqueName('direct');
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const started = new Started();
let cluster: Cluster;
let fn: Listening;
let ca: string;
let files: string;

type Answer = { status: number; body: Record<string, unknown>; text: string; warnings: string[] };

/** A request to the apiserver. Its body may be text. */
let ask: (method: string, path: string, body?: object | string, contentType?: string) => Promise<Answer>;
const gauges = (version = 'v2', name = '') =>
  `/apis/${GROUP}/${version}/namespaces/${namespace}/gauges${name && `/${name}`}`;
const gauge = (name: string, spec: object, version = 'v2') => ({
  apiVersion: `${GROUP}/${version}`,
  kind: 'Gauge',
  metadata: { name, namespace },
  spec,
});
const create = (name: string, spec: object, version = 'v2') => ask('POST', gauges(version), gauge(name, spec, version));
const merge = (path: string, body: object) => ask('PATCH', path, body, 'application/merge-patch+json');
const specOf = ({ body }: Answer) => body['spec'];

function configurations(): KubernetesObject[] {
  const rule = (resources: string, operations: string[]) => ({
    rules: [{ apiGroups: [GROUP], apiVersions: ['v2'], resources: [resources], operations }],
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
    timeoutSeconds: 5,
  });
  const webhook = (name: string, resources: string, operations: string[]) => ({
    name: `${name}.${GROUP}`,
    clientConfig: clientConfig(name),
    ...rule(resources, operations),
  });
  const configuration = (type: string, webhooks: object[]) =>
    ({
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: `${type}WebhookConfiguration`,
      metadata: { name: GROUP },
      webhooks,
    }) as unknown as KubernetesObject;
  return [
    configuration('Validating', [
      webhook('sizes', 'gauges', ['CREATE', 'UPDATE', 'DELETE']),
      webhook('scales', 'gauges/scale', ['UPDATE']),
      webhook('statuses', 'gauges/status', ['UPDATE']),
    ]),
    configuration('Mutating', [webhook('defaults', 'gauges', ['CREATE', 'UPDATE'])]),
  ];
}

const clientConfig = (name: string) => ({
  url: `${fn.url}/webhooks/${name}`,
  caBundle: Buffer.from(ca).toString('base64'),
});

function definition(): object {
  const version = (name: string, size: string) => ({
    name,
    served: true,
    storage: name === 'v2',
    subresources: { status: {}, scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } },
    schema: {
      openAPIV3Schema: {
        type: 'object',
        properties: {
          spec: {
            type: 'object',
            properties: {
              size: { type: size },
              title: { type: 'string' },
              replicas: { type: 'integer' },
              notes: { type: 'object', additionalProperties: { type: 'string' } },
              counts: { type: 'object', additionalProperties: { type: 'integer', format: 'int64' } },
            },
          },
          status: { type: 'object', properties: { phase: { type: 'string' }, replicas: { type: 'integer' } } },
        },
      },
    },
  });
  return {
    group: GROUP,
    scope: 'Namespaced',
    names: { kind: 'Gauge', plural: 'gauges', singular: 'gauge' },
    versions: [version('v1', 'string'), version('v2', 'integer')],
    conversion: {
      strategy: 'Webhook',
      webhook: { conversionReviewVersions: ['v1'], clientConfig: clientConfig('versions') },
    },
  };
}

beforeAll(async () => {
  const kubeconfig = inject('kubeconfig');
  cluster = await started.cluster(kubeconfig, namespace);
  const credentials = await loadCredentials(kubeconfig);
  started.add(() => credentials.close());
  ask = async (method, path, body, contentType = 'application/json') => {
    const { server, dispatcher, headers } = await credentials.access();
    const answer = await request(server + path, {
      method: method as 'GET',
      dispatcher,
      headers: { ...headers, 'content-type': contentType },
      body: typeof body === 'object' ? JSON.stringify(body) : (body ?? null),
    });
    const text = await answer.body.text();
    const { warning = [] } = answer.headers;
    const warnings = [warning].flat().flatMap((text) => text.match(/(?<=")[^"]+(?=")/g) ?? []);
    return { status: answer.statusCode, body: JSON.parse(text) as Record<string, unknown>, text, warnings };
  };
  files = join(await started.directory(), 'tls');
  ca = await createCertificates(files);
  fn = started.keep(
    await startFunctionProcess(
      { ...createSetting({ kubeconfig, redisUrl: '' }), secret: generateSecret() },
      'test/harness/direct-function.ts',
      {
        variables: {
          TLS_CERT_FILE: join(files, 'serving.crt'),
          TLS_KEY_FILE: join(files, 'serving.key'),
          LEVELHOOK_UNSIGNED_REVIEWS: 'true',
        },
      },
    ),
  );
  await cluster.create(definitions, { metadata: { name: `gauges.${GROUP}` }, spec: definition() });
  started.add(() => cluster.delete(definitions, { name: `gauges.${GROUP}` }));
  for (const { apiVersion, kind, ...configuration } of configurations()) {
    const kinds = resource(apiVersion, kind, { namespaced: false });
    await cluster.create(kinds, configuration as never);
    started.add(() => cluster.delete(kinds, { name: GROUP }));
  }
  await eventually(async () => expect((await ask('GET', gauges())).status).toBe(200));
  // The apiserver learns of a configuration by its own watch.
  await eventually(async () => {
    const { body } = await ask('POST', `${gauges()}?dryRun=All`, gauge('first', { size: 101 }));
    expect(body['message']).toMatch(/it is too large/);
    const mutated = await ask('POST', `${gauges()}?dryRun=All`, gauge('first', {}));
    expect(mutated.body).toMatchObject({ metadata: { labels: { 'direct.example.com/seen': 'true' } } });
  });
});

afterAll(() => started.stop());

describe('a function that an apiserver asks directly', () => {
  it('refuses a create, with the code, reason and causes of the denial', async () => {
    const { status, body } = await create('large', { size: 101 });
    expect(status).toBe(422);
    expect(body).toMatchObject({
      reason: 'Invalid',
      message: `admission webhook "sizes.${GROUP}" denied the request: it is too large`,
      details: { causes: [{ reason: 'FieldValueInvalid', field: 'spec.size', message: 'over 100' }] },
    });
  });

  it('fills in defaults by a patch, under keys with a slash and a tilde too', async () => {
    const { status, body } = await create('plain', { title: 'escaped', notes: { a: 'b' } });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      spec: { size: 1, notes: { a: 'b', 'a/b~c': 'ä€😀' } },
      metadata: { labels: { 'direct.example.com/seen': 'true' } },
    });
  });

  it.each(['v1', 'v2'])(
    'keeps integers of 64 bits that it copies, converts or leaves, in an object of %s',
    async (version) => {
      const name = `counted-${version}`;
      const text = JSON.stringify(gauge(name, { title: 'copied' }, version));
      const made = await ask('POST', gauges(version), text.replace('"spec":{', `"spec":{"counts":{${COUNTS}},`));
      expect(made.status).toBe(201);
      const shown = { v1: '"1"', v2: '1' };
      for (const [served, size] of Object.entries(shown)) {
        const spec = exact(`{"title":"copied","size":${size},"counts":{${COUNTS},${COPIES}}}`);
        expect(exact((await ask('GET', gauges(served, name))).text), served).toMatchObject({ spec });
      }
    },
  );

  it('refuses an update and a delete by what was there before', async () => {
    await create('kept', { size: 5, title: 'kept' });
    expect((await merge(gauges('v2', 'kept'), { spec: { size: 4 } })).body['message']).toMatch(/it cannot shrink/);
    expect(specOf(await merge(gauges('v2', 'kept'), { spec: { size: 6 } }))).toMatchObject({ size: 6 });
    expect(await ask('DELETE', gauges('v2', 'kept'))).toMatchObject({ status: 403 });
    await merge(gauges('v2', 'kept'), { spec: { title: null } });
    expect(await ask('DELETE', gauges('v2', 'kept'))).toMatchObject({ status: 200 });
  });

  it('reviews the subresources scale and status, each by a webhook of its own', async () => {
    await create('scaled', { size: 1, replicas: 1 });
    const scale = `${gauges('v2', 'scaled')}/scale`;
    expect((await merge(scale, { spec: { replicas: 6 } })).body['message']).toMatch(/"scales.* five at most/);
    expect(specOf(await merge(scale, { spec: { replicas: 5 } }))).toEqual({ replicas: 5 });
    const status = `${gauges('v2', 'scaled')}/status`;
    expect((await merge(status, { status: { phase: 'Wrong' } })).body['message']).toMatch(/"statuses.* no such phase/);
    expect((await merge(status, { status: { phase: 'Right' } })).body['status']).toMatchObject({ phase: 'Right' });
  });

  it('reviews a dry run, warns, and reads live', async () => {
    const dry = await ask('POST', `${gauges()}?dryRun=All`, gauge('dry', {}));
    expect(dry).toMatchObject({ status: 201, body: { spec: { size: 1 } }, warnings: ['a dry run'] });
    expect((await ask('GET', gauges('v2', 'dry'))).status).toBe(404);
    const { items } = (await ask('GET', gauges())).body as { items: unknown[] };
    expect((await create('live', { title: 'live' })).warnings).toEqual([`${items.length} live`]);
  });

  it('leaves server-side apply its conflicts, and what it changes to the manager that applied', async () => {
    const apply = (manager: string, spec: object, more = '') =>
      ask(
        'PATCH',
        `${gauges('v2', 'applied')}?fieldManager=${manager}${more}`,
        gauge('applied', spec),
        'application/apply-patch+yaml',
      );
    expect(await apply('one', { title: 'a' })).toMatchObject({ status: 201, body: { spec: { title: 'a', size: 1 } } });
    expect(await apply('two', { title: 'b' })).toMatchObject({ status: 409, body: { reason: 'Conflict' } });
    // The default is no manager's own: the apiserver gives it to the manager whose request the webhook has changed.
    expect(await apply('two', { size: 101 }, '&force=true')).toMatchObject({ status: 422 });
    expect(await apply('two', { size: 7 }, '&force=true')).toMatchObject({ status: 200, body: { spec: { size: 7 } } });
    expect(await apply('two', { title: 'b', size: 7 }, '&force=true')).toMatchObject({
      body: { spec: { title: 'b' } },
    });
  });

  it('converts between two versions and back, and says why it cannot', async () => {
    const old = await create('converted', { size: '12', title: 't' }, 'v1');
    expect(old).toMatchObject({ status: 201, body: { apiVersion: `${GROUP}/v1`, spec: { size: '12', title: 't' } } });
    expect(specOf(await ask('GET', gauges('v2', 'converted')))).toEqual({ size: 12, title: 't' });
    expect(specOf(await ask('GET', gauges('v1', 'converted')))).toEqual({ size: '12', title: 't' });
    // Webhooks review the version for which they are declared.
    expect((await create('large', { size: '101' }, 'v1')).body['message']).toMatch(/it is too large/);
    const { items } = (await ask('GET', gauges('v1'))).body as { items: { apiVersion?: string; spec: object }[] };
    expect(items.length).toBeGreaterThan(2);
    expect(items.every(({ spec }) => typeof (spec as { size?: unknown }).size === 'string')).toBe(true);
    const { status, body } = await create('wrong', { size: 'big' }, 'v1');
    expect(status).toBeGreaterThanOrEqual(400);
    expect(body['message']).toMatch(
      new RegExp(`${GROUP}/v1/Gauge ${namespace}/wrong cannot be converted to .*${GROUP}/v2.*: the size is no number`),
    );
  });

  it('reviews an update of an object as large as they come', async () => {
    const title = 'x'.repeat(1.2 * 2 ** 20);
    expect((await create('huge', { title })).status).toBe(201);
    expect((await merge(gauges('v2', 'huge'), { spec: { size: 2 } })).status).toBe(200);
    expect((await merge(gauges('v2', 'huge'), { spec: { size: 1 } })).body['message']).toMatch(/cannot shrink/);
    expect((await create('kept', { title: 'x'.repeat(3.1 * 2 ** 20) })).status).toBe(413);
  });

  it.each([
    ['slow', /unable to return a response in the time allotted|context deadline exceeded/],
    ['broken', /the webhook sizes failed: the log of its function has the reason/],
    ['cached', /the webhook sizes failed/],
  ])('decides nothing when it is %s, and the client sees why', async (title, message) => {
    const { status, body } = await create('undecided', { title });
    expect(status).toBe(500);
    expect(body['message']).toMatch(message);
    expect(JSON.stringify(body)).not.toContain('hush');
    expect((await ask('GET', gauges('v2', 'undecided'))).status).toBe(404);
  });
});

describe('the https server of a function', () => {
  const post = async (path: string, body: string) => {
    const dispatcher = new Agent({ connect: { ca } });
    const answer = await request(fn.url + path, { method: 'POST', body, dispatcher });
    const text = await answer.body.text();
    await dispatcher.close();
    return { status: answer.statusCode, text };
  };
  const review = (rest: object = {}) =>
    JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: { uid: 'u' }, ...rest });

  it.each<[string, string, () => string, number, RegExp]>([
    ['an old version', '/webhooks/sizes', () => review({ apiVersion: 'admission.k8s.io/v1beta1' }), 400, /v1beta1/],
    ['an empty review', '/webhooks/sizes', () => review(), 400, /lacks kind, resource or userInfo/],
    ['a review without a uid', '/webhooks/sizes', () => review({ request: {} }), 400, /no review/],
    ['what is no JSON', '/webhooks/sizes', () => '{', 400, /no review/],
    ['no webhook of it', '/webhooks/other', () => review(), 404, /no webhook/],
    ['a body that is too large', '/webhooks/sizes', () => 'x'.repeat(18 * 2 ** 20), 413, /larger than 17 MiB/],
    ['a trigger without a signature', '/', () => '{}', 401, /webhook-id|signature/],
  ])('refuses %s in one sentence', async (_what, path, body, status, text) => {
    const answer = await post(path, body());
    expect(answer).toEqual({ status, text: expect.stringMatching(text) });
  });

  it('answers with a patch that has each digit of an integer', async () => {
    const object = JSON.stringify(gauge('posted', { size: 1, title: 'copied' }));
    const details = {
      uid: 'u',
      kind: { group: GROUP, version: 'v2', kind: 'Gauge' },
      resource: { group: GROUP, version: 'v2', resource: 'gauges' },
      name: 'posted',
      namespace,
      operation: 'CREATE',
      userInfo: { username: 'somebody' },
      object: null,
    };
    const counted = object.replace('"spec":{', `"spec":{"counts":{${COUNTS}},`);
    const body = review({ request: details }).replace('"object":null', `"object":${counted}`);
    const { status, text } = await post('/webhooks/defaults', body);
    expect(status).toBe(200);
    const { response } = JSON.parse(text) as { response: { patch: string } };
    const added = Object.entries(exact(`{${COPIES}}`) as object).map(([name, value]) => ({
      op: 'add',
      path: `/spec/counts/${name}`,
      value: value as unknown,
    }));
    const patch = exact(Buffer.from(response.patch, 'base64').toString());
    expect(patch).toEqual(expect.arrayContaining(added));
    expect(patch).toHaveLength(added.length + 1);
  });

  it('answers a conversion with each digit of an integer', async () => {
    const object = JSON.stringify(gauge('posted', { size: 1 })).replace('"spec":{', `"spec":{"counts":{${COUNTS}},`);
    const request = `{"uid":"u","desiredAPIVersion":"${GROUP}/v1","objects":[${object}]}`;
    const body = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":${request}}`;
    const { status, text } = await post('/webhooks/versions', body);
    expect(status).toBe(200);
    const spec = exact(`{"size":"1","counts":{${COUNTS}}}`);
    expect(exact(text)).toMatchObject({ response: { convertedObjects: [{ apiVersion: `${GROUP}/v1`, spec }] } });
  });

  it('serves a renewed certificate to new connections', async () => {
    const renewed = join(await started.directory(), 'tls');
    const newCa = await createCertificates(renewed);
    const served = (authority: string) =>
      new Promise<boolean>((resolve) => {
        const { hostname: host, port } = new URL(fn.url);
        const socket = connect({ host, port: Number(port), ca: authority }, () => {
          socket.destroy();
          resolve(true);
        });
        socket.on('error', () => resolve(false));
      });
    expect([await served(ca), await served(newCa)]).toEqual([true, false]);
    for (const file of ['serving.crt', 'serving.key']) await cp(join(renewed, file), join(files, file));
    expect(await readFile(join(files, 'serving.crt'), 'utf8')).toBe(
      await readFile(join(renewed, 'serving.crt'), 'utf8'),
    );
    await eventually(async () => expect(await served(newCa)).toBe(true));
    expect(await served(ca)).toBe(false);
  });
});
