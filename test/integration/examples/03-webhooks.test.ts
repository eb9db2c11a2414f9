import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { parse } from 'yaml';
import { Route, RouteV1 } from '../../../functions/examples/03-webhooks/kinds.ts';
import { resource } from '../../../src/core/index.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startFunctionProcess, startGateway, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';

// One function by https: the gateway sends it triggers, and the apiserver its reviews.

const folder = new URL('../../../functions/examples/03-webhooks/', import.meta.url);
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const mutating = resource('admissionregistration.k8s.io/v1', 'MutatingWebhookConfiguration', { namespaced: false });
const namespace = uniqueName('route');
const started = new Started();
let cluster: Cluster;

const manifest = async (file: string) =>
  parse(await readFile(new URL(file, folder), 'utf8')) as { metadata: object; spec: Record<string, unknown> };

beforeAll(async () => {
  const kubeconfig = inject('kubeconfig');
  cluster = await started.cluster(kubeconfig, namespace);
  const files = join(await started.directory(), 'tls');
  const ca = await createCertificates(files);
  const setting = createSetting({ kubeconfig, redisUrl: inject('redisUrl') });
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
  const gateway = started.keep(
    await startGateway(setting, [fn.url], { LEVELHOOK_FUNCTION_CA_FILE: join(files, 'ca.crt') }),
  );
  await untilReady(gateway.url);
});

afterAll(() => started.stop());

it('fills in, converts and reconciles a Route, which is whole in both versions', async () => {
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
