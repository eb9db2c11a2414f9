import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { parse } from 'yaml';
import { Route, RouteV1 } from '../../../functions/examples/03-webhooks/kinds.ts';
import { ApiError, type KubernetesObject, type Resource, resource, resourcePath } from '../../../src/core/index.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import { eventually } from '../../harness/eventually.ts';
import { seededRandom } from '../../harness/seeded-random.ts';
import { startFunctionProcess } from '../../harness/levelhook.ts';
import { it } from '../../harness/world.ts';

// One function by https: the gateway sends it triggers, and the apiserver its reviews.

const folder = new URL('../../../functions/examples/03-webhooks/', import.meta.url);
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const mutating = resource('admissionregistration.k8s.io/v1', 'MutatingWebhookConfiguration', { namespaced: false });

const manifest = async (file: string) =>
  parse(await readFile(new URL(file, folder), 'utf8')) as { metadata: object; spec: Record<string, unknown> };

it.beforeAll(async ({ world }) => {
  const { cluster, setting, started } = world;
  const files = join(await started.directory(), 'tls');
  const ca = await createCertificates(files);
  const fn = started.keep(
    await startFunctionProcess(setting, 'functions/examples/03-webhooks/node.ts', {
      variables: {
        TLS_CERT_FILE: join(files, 'serving.crt'),
        TLS_KEY_FILE: join(files, 'serving.key'),
        LEVELHOOK_UNSIGNED_REVIEWS: 'true',
      },
    }),
  );
  const clientConfig = (name: string) => ({ url: `${fn.url}/webhooks/${name}`, caBundle: btoa(ca) });
  const { spec } = await manifest('route.crd.yaml');
  const webhook = { conversionReviewVersions: ['v1'], clientConfig: clientConfig('versions') };
  await cluster.create(definitions, {
    metadata: { name: 'routes.example.com' },
    spec: { ...spec, conversion: { strategy: 'Webhook', webhook } },
  });
  started.add(() => cluster.delete(definitions, { name: 'routes.example.com' }));
  await cluster.create(mutating, {
    metadata: { name: 'routes.example.com' },
    webhooks: [
      {
        name: 'defaults.example.com',
        clientConfig: clientConfig('defaults'),
        rules: [{ apiGroups: ['example.com'], apiVersions: ['v2'], resources: ['routes'], operations: ['CREATE'] }],
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
      },
    ],
  });
  started.add(() => cluster.delete(mutating, { name: 'routes.example.com' }));
  await world.gateway([fn.url], { LEVELHOOK_FUNCTION_CA_FILE: join(files, 'ca.crt') });
});

it('one function by https fills in, converts and reconciles a Route, which is whole in both versions', async ({
  world: { cluster, namespace },
}) => {
  // The apiserver learns of the webhook by its own watch.
  await eventually(async () => {
    const path = `/apis/example.com/v2/namespaces/${namespace}/routes`;
    const body = { apiVersion: 'example.com/v2', kind: 'Route', metadata: { name: 'first' }, spec: { host: 'first' } };
    const dry = await cluster.client.json<Route>({ method: 'POST', path, query: { dryRun: 'All' }, body });
    expect(dry.spec.port).toBe(443);
  });
  await cluster.create(RouteV1, {
    metadata: { namespace, name: 'old', annotations: { 'example.com/paths': '["/a"]' } },
    spec: { address: 'old.example.com' },
  });
  const { spec } = await manifest('route.yaml');
  await cluster.create(Route, { metadata: { namespace, name: 'shop' }, spec });

  await eventually(async () => {
    const old = await cluster.get(Route, { namespace, name: 'old' });
    expect(old?.spec).toEqual({ host: 'old.example.com', port: 443, paths: ['/a'] });
    expect(old?.metadata.annotations).toBeUndefined();
    expect(old?.status).toMatchObject({ url: 'https://old.example.com:443', conditions: [{ status: 'True' }] });
  });
  await eventually(async () => {
    const shop = await cluster.get(RouteV1, { namespace, name: 'shop' });
    expect(shop).toMatchObject({
      metadata: { annotations: { 'example.com/paths': '["/"]' } },
      spec: { address: 'shop.example.com:443' },
      status: { url: 'https://shop.example.com:443' },
    });
  });
});

/** What an object must be in both versions. */
interface Expected {
  readonly address: string;
  readonly paths: string[];
}

it('one function by https keeps what clients of both versions write, while its controller writes too', async ({
  world: { cluster, namespace },
}) => {
  const random = seededRandom('conversion churn');
  let compared = 0;

  /** Reads the whole object in a version, changes it and writes it back, as a client of that version alone does. */
  async function change<T extends KubernetesObject>(
    of: Resource<T>,
    name: string,
    by: (was: T) => void,
  ): Promise<void> {
    const path = resourcePath(of, { namespace, name });
    for (;;) {
      const object = await cluster.client.json<T>({ path });
      by(object);
      try {
        await cluster.client.json({ method: 'PUT', path, body: object });
        return;
      } catch (error) {
        // The controller writes the status beside this client.
        if (!(error instanceof ApiError && error.code === 409)) throw error;
      }
    }
  }

  async function compare(name: string, { address, paths }: Expected): Promise<void> {
    const [host = '', port] = address.split(':');
    const [v1, v2] = [await cluster.get(RouteV1, { namespace, name }), await cluster.get(Route, { namespace, name })];
    expect(v1?.spec).toEqual({ address });
    expect(JSON.parse(v1?.metadata.annotations?.['example.com/paths'] ?? '[]')).toEqual(paths);
    expect(v2?.spec).toEqual({ host, port: Number(port), paths });
    expect(v2?.metadata.annotations).toBeUndefined();
    expect(v2?.metadata.uid).toBe(v1?.metadata.uid);
    compared += 1;
  }

  async function churn(name: string): Promise<void> {
    let expected: Expected = { address: `${name}.example.com:443`, paths: ['/'] };
    await cluster.create(Route, {
      metadata: { namespace, name },
      spec: { host: `${name}.example.com`, paths: ['/'] },
    });
    for (let step = 0; step < 25; step += 1) {
      const port = 1 + random.below(65_535);
      switch (random.below(3)) {
        case 0: {
          expected = { ...expected, address: `${name}-${step}.example.com:${port}` };
          const { address } = expected;
          await change(RouteV1, name, (object) => void (object.spec.address = address));
          break;
        }
        case 1:
          expected = { ...expected, address: `${expected.address.split(':')[0]}:${port}` };
          await change(Route, name, (object) => void (object.spec.port = port));
          break;
        default:
          expected = { ...expected, paths: [...expected.paths, `/~${step}`].slice(-5) };
          await change(Route, name, (object) => void (object.spec.paths = expected.paths));
      }
      await compare(name, expected);
    }
  }

  await Promise.all(Array.from({ length: 12 }, (_, at) => churn(`churn-${at}`)));
  expect(compared).toBe(12 * 25);
  // The controller, which knows v2 alone, has followed all of it.
  await eventually(async () => {
    for (const { spec, status } of (await cluster.list(Route, namespace)).items) {
      expect(status?.url).toBe(`https://${spec.host}:${spec.port}`);
    }
  });
});
