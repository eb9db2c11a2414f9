import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ScriptedApiserver } from '../../../test/harness/scripted-apiserver.ts';
import { functionEndpoint } from './function-endpoint.ts';
import type { ReconcileFunctionSpec } from './reconcile-function.ts';

let server: ScriptedApiserver;
let services: Record<string, object>;
beforeEach(async () => {
  server = await ScriptedApiserver.start();
  services = { web: { spec: { ports: [{ name: 'http', port: 8080 }, { port: 443 }] } } };
  server.answer((path) => services[path.replace('/api/v1/namespaces/shop/services/', '')]);
});
afterEach(() => server[Symbol.asyncDispose]());

const at = (endpoint: ReconcileFunctionSpec['endpoint'], allowed: string[] = []) =>
  functionEndpoint(endpoint, {
    client: server.client,
    namespace: 'shop',
    allowed,
    signal: AbortSignal.timeout(10_000),
  });
const service = (more: object = {}) => ({
  service: { name: 'web', port: 'http', path: '/', scheme: 'http' as const, ...more },
});

describe('where a ReconcileFunction is', () => {
  it.each<[object, string]>([
    [{}, 'http://web.shop.svc:8080/'],
    [{ port: 443, scheme: 'https' }, 'https://web.shop.svc/'],
    [{ path: '/a/b?c=d' }, 'http://web.shop.svc:8080/a/b?c=d'],
    // What begins so would be another host, if it were resolved as a link is.
    [{ path: '//169.254.169.254/latest' }, 'http://web.shop.svc:8080//169.254.169.254/latest'],
    [{ path: '/\\169.254.169.254/latest' }, 'http://web.shop.svc:8080//169.254.169.254/latest'],
    [{ path: '/@169.254.169.254' }, 'http://web.shop.svc:8080/@169.254.169.254'],
  ])('is its Service: %j', async (more, url) => {
    const found = await at(service(more));
    expect(found.url).toBe(url);
    // Nothing else may be connected to, this machine least of all.
    expect(found.rules).toEqual({ allow: [new URL(url).origin], loopback: false });
  });

  it.each<[string, object, object, string]>([
    ['that is not there', {}, { name: 'other' }, 'ServiceNotFound'],
    [
      'that stands for another name',
      { spec: { type: 'ExternalName', externalName: 'x' } },
      {},
      'ServiceIsExternalName',
    ],
    ['without that port', { spec: { ports: [{ name: 'https', port: 443 }] } }, {}, 'ServicePortNotFound'],
    ['without any', {}, {}, 'ServicePortNotFound'],
  ])('is no Service %s', async (_what, web, more, reason) => {
    services['web'] = web;
    await expect(at(service(more))).rejects.toMatchObject({ condition: 'Reachable', reason });
  });

  it('is where the operator allows, on this machine only if he names it', async () => {
    const allowed = ['https://functions.example.com'];
    expect(await at({ url: 'https://functions.example.com/a' }, allowed)).toEqual({
      url: 'https://functions.example.com/a',
      rules: { allow: allowed, loopback: false },
      ca: undefined,
    });
    expect((await at({ url: 'http://127.0.0.1:1/' }, ['http://127.0.0.1:1'])).rules.loopback).toBe(true);
  });

  it.each([
    ['https://elsewhere.example.com', 'EndpointNotAllowed'],
    ['https://functions.example.com:444', 'EndpointNotAllowed'],
    ['http://169.254.169.254', 'EndpointAddressRefused'],
    ['https://a:b@functions.example.com', 'EndpointHoldsPassword'],
    ['file:///etc/passwd', 'EndpointInvalid'],
    ['functions', 'EndpointInvalid'],
  ])('is not %s: %s', async (url, reason) => {
    const allowed = ['https://functions.example.com', 'http://169.254.169.254'];
    await expect(at({ url }, allowed)).rejects.toMatchObject({ condition: 'Reachable', reason });
  });
});
