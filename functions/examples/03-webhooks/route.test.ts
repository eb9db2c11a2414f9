import { MemoryApiserver, roundTrip, runConversion, runReconciler, runReview } from 'levelhook/testing/reconciler';
import { expect, it } from 'vitest';
import { Route } from './kinds.ts';
import { route } from './route.ts';

const routeOf = (name: string, spec: object, metadata: object = {}) => ({
  apiVersion: 'example.com/v2',
  kind: 'Route',
  metadata: { namespace: 'a', name, annotations: {}, ...metadata },
  spec,
});
const shop = routeOf('shop', { host: 'shop.example.com' }, { creationTimestamp: '2026-01-01T00:00:00Z' });
const copy = routeOf('copy', { host: 'shop.example.com' }, { creationTimestamp: '2026-01-02T00:00:00Z' });

it('the webhook of Routes refuses a host that is taken, and lets its owner be', async () => {
  const apiserver = new MemoryApiserver({ objects: [shop] });
  expect(await runReview(route, 'hosts', { create: copy }, { apiserver })).toMatchObject({
    allowed: false,
    denial: { code: 422, message: 'the host shop.example.com belongs to a/shop' },
  });
  const update = { update: { ...shop, spec: { host: 'shop.example.com', port: 8443 } }, from: shop };
  expect(await runReview(route, 'hosts', update, { apiserver })).toMatchObject({ allowed: true });
  const other = routeOf('other', { host: 'other.example.com' });
  expect(await runReview(route, 'hosts', { create: other }, { apiserver })).toMatchObject({ allowed: true });
});

it('the webhook of Routes fills in the port', async () => {
  expect((await runReview(route, 'defaults', { create: shop })).object).toMatchObject({ spec: { port: 443 } });
  const given = routeOf('shop', { host: 'shop.example.com', port: 8443 });
  expect(await runReview(route, 'defaults', { create: given })).not.toHaveProperty('patch');
});

it('the webhook of Routes converts without loss, in both directions', async () => {
  const full = routeOf('shop', { host: 'shop.example.com', port: 8443, paths: ['/', '/~a'] });
  const { objects } = await runConversion(route, 'versions', [full], 'example.com/v1');
  expect(objects).toMatchObject([
    { metadata: { annotations: { 'example.com/paths': '["/","/~a"]' } }, spec: { address: 'shop.example.com:8443' } },
  ]);
  const old = { ...shop, apiVersion: 'example.com/v1', spec: { address: 'shop.example.com' } };
  for (const [object, other] of [
    [full, 'v1'],
    [{ ...full, status: { url: 'https://shop.example.com:8443' } }, 'v1'],
    [shop, 'v1'],
    [old, 'v2'],
    [{ ...old, spec: { address: 'shop.example.com:80' } }, 'v2'],
  ] as const) {
    expect(await roundTrip(route, 'versions', object, `example.com/${other}`)).toEqual(object);
  }
});

it('gives the host to the oldest Route, if two were made at the same time', async () => {
  const apiserver = new MemoryApiserver({ objects: [copy, shop] });
  const run = (name: string) => runReconciler(route, { namespace: 'a', name }, { apiserver });
  // A change of the host's owner wakes the Route that waits for the host.
  expect((await run('shop')).outcome).toMatchObject({ related: [] });
  expect((await run('copy')).outcome).toMatchObject({ related: [{ kind: 'Route', namespace: 'a', names: ['shop'] }] });
  const statusOf = (name: string) => apiserver.object(Route, { namespace: 'a', name })?.status;
  expect(statusOf('shop')).toMatchObject({ url: 'https://shop.example.com:443', conditions: [{ status: 'True' }] });
  expect(statusOf('copy')).toMatchObject({
    conditions: [{ status: 'False', message: 'a/shop has the host shop.example.com' }],
  });
  expect((await run('shop')).writes).toEqual([]);
  apiserver.remove(Route, { namespace: 'a', name: 'shop' });
  await run('copy');
  expect(statusOf('copy')).toMatchObject({ conditions: [{ status: 'True' }] });
});
