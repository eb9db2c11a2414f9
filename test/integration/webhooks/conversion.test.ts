import { expect } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { CONTRACT_VERSION, LEVELHOOK_HEADER } from '../../../src/contract/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { type ReviewBehaviour, ReviewFunction } from '../../harness/review-function.ts';
import { reviewServing, reviewsUrl } from '../../harness/webhook-configurations.ts';
import { it } from '../../harness/world.ts';

const group = `${uniqueName('things')}.test.levelhook.dev`;
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const v1 = resource<Thing>(`${group}/v1`, 'Thing');
const v2 = resource<Thing>(`${group}/v2`, 'Thing');
/** More than an answer to a trigger may have: a list is converted in one review. */
const TEXT = 'x'.repeat(40_000);
const COUNT = 60;

interface Thing extends KubernetesObject {
  readonly size?: string;
  readonly spec?: { readonly size: string };
  readonly text?: string;
}

interface ConversionRequest {
  readonly uid: string;
  readonly desiredAPIVersion: string;
  readonly objects: readonly Thing[];
}

let converter: ReviewFunction;

/** In v2 the size is in the spec. */
const convert: ReviewBehaviour = ({ review }, response) => {
  const { uid, desiredAPIVersion, objects } = review.request as unknown as ConversionRequest;
  const convertedObjects = objects.map(({ size, spec, ...rest }) => ({
    ...rest,
    apiVersion: desiredAPIVersion,
    ...(desiredAPIVersion.endsWith('/v1') ? { size: spec?.size ?? size } : { spec: { size: size ?? spec?.size } }),
  }));
  const { apiVersion, kind } = review;
  response.setHeader(LEVELHOOK_HEADER, CONTRACT_VERSION);
  response.end(
    JSON.stringify({ apiVersion, kind, response: { uid, result: { status: 'Success' }, convertedObjects } }),
  );
};

it.beforeAll(async ({ world }) => {
  const { cluster, namespace, setting, started } = world;
  const open = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  const version = (name: string) => ({ name, served: true, storage: name === 'v1', schema: { openAPIV3Schema: open } });
  await cluster.create(definitions, {
    metadata: { name: `things.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind: 'Thing', plural: 'things' },
      versions: [version('v1'), version('v2')],
    },
  });
  started.add(() => cluster.delete(definitions, { name: `things.${group}` }));
  await eventually(() => cluster.list(v1, namespace));
  for (let at = 0; at < COUNT; at += 1) {
    await cluster.create(v1, { metadata: { namespace, name: `thing-${at}` }, size: String(at), text: TEXT });
  }
  const thing = { apiVersion: `${group}/v1`, kind: 'Thing' };
  const webhooks = [{ ...thing, type: 'conversion' as const, name: 'things', versions: ['v1', 'v2'] }];
  converter = await started.open(new ReviewFunction({ name: 'things', for: thing, webhooks }, setting.secret));
  converter.behaviour = convert;
  const { ca, settings } = await reviewServing(started, setting.kubeconfig);
  const gateway = await world.gateway([converter.url], settings);
  const url = `${await reviewsUrl(gateway)}/webhooks/things/things`;
  await cluster.patch(
    definitions,
    { name: `things.${group}` },
    {
      spec: {
        conversion: {
          strategy: 'Webhook',
          webhook: {
            conversionReviewVersions: ['v1'],
            clientConfig: { url, caBundle: Buffer.from(ca).toString('base64') },
          },
        },
      },
    },
  );
  await eventually(async () => {
    expect(await cluster.get(v2, { namespace, name: 'thing-1' })).toMatchObject({ spec: { size: '1' } });
  });
});

it('objects and whole lists are converted by the function, both ways', async ({ world: { cluster, namespace } }) => {
  // The storage of v2 begins anew when the definition has changed.
  const { items } = await eventually(() => cluster.list(v2, namespace));
  expect(items.map(({ spec }) => Number(spec?.size)).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: COUNT }, (_, at) => at),
  );
  expect(items.every(({ apiVersion, text }) => apiVersion === `${group}/v2` && text === TEXT)).toBe(true);
  await cluster.create(v2, { metadata: { namespace, name: 'new' }, spec: { size: 'large' } });
  expect(await cluster.get(v1, { namespace, name: 'new' })).toMatchObject({ size: 'large' });
});

it('what the function does not convert is told to the client', async ({ world: { cluster, namespace } }) => {
  converter.behaviour = ({ review }, response) => {
    const { apiVersion, kind, request } = review;
    response.setHeader(LEVELHOOK_HEADER, CONTRACT_VERSION);
    response.end(JSON.stringify({ apiVersion, kind, response: { uid: request.uid } }));
  };
  await expect(cluster.get(v2, { namespace, name: 'thing-1' })).rejects.toThrow(
    /conversion webhook for .* failed: the function's answer does not say whether the conversion succeeded/,
  );
  converter.behaviour = convert;
  expect(await cluster.get(v2, { namespace, name: 'thing-1' })).toMatchObject({ spec: { size: '1' } });
});
