import { describe, expect, it } from 'vitest';
import { routeOf, usedFlag, type WebhookFlags } from './webhook-route.ts';

const service = { namespace: 'shop', name: 'greeting', port: 8443 };

describe('the route to the webhooks', () => {
  it("is the chart's Service, another one, a URL, or the function's own Service", async () => {
    expect(await routeOf({}, undefined)).toEqual({
      at: { service: { namespace: 'levelhook', name: 'levelhook', port: 443 } },
      direct: false,
      excluded: ['kube-system', 'levelhook'],
      authority: 'gateway',
    });
    expect(await routeOf({ gatewayService: 'tools/gate:9443' }, service)).toMatchObject({
      at: { service: { namespace: 'tools', name: 'gate', port: 9443 } },
      excluded: ['kube-system', 'tools'],
    });
    expect(await routeOf({ excludeNamespace: ['redis', 'levelhook', 'secrets'] }, undefined)).toMatchObject({
      excluded: ['kube-system', 'levelhook', 'redis', 'secrets'],
    });
    expect(await routeOf({ webhookUrl: 'https://a.example.com/b/', certManager: 'a/b.c' }, service)).toMatchObject({
      at: { url: 'https://a.example.com/b' },
      authority: { certificate: 'a/b.c' },
    });
    expect(await routeOf({ direct: true, certManager: 'a/b' }, service)).toMatchObject({
      at: { service },
      direct: true,
      excluded: ['kube-system', 'levelhook'],
    });
  });

  it.each<[string, WebhookFlags, string]>([
    ['a Service without a port', { gatewayService: 'a/b' }, '--gateway-service "a/b" must be NAMESPACE/NAME:PORT.'],
    ['a Service in no namespace', { gatewayService: 'A/b:1' }, '--gateway-service'],
    ['a port that is none', { gatewayService: 'a/b:70000' }, '--gateway-service'],
    [
      'a URL without TLS',
      { webhookUrl: 'http://a.example.com' },
      '--webhook-url "http://a.example.com" must be an https',
    ],
    ['a URL with a user', { webhookUrl: 'https://me@a.example.com' }, '--webhook-url'],
    ['a URL with a query', { webhookUrl: 'https://a.example.com/?a' }, '--webhook-url'],
    ['no URL', { webhookUrl: 'a' }, '--webhook-url'],
    ['a Certificate without a namespace', { certManager: 'a' }, '--cert-manager "a" must be NAMESPACE/CERTIFICATE.'],
    ['a Certificate with too much', { certManager: 'a/b/c' }, '--cert-manager'],
    ['two authorities', { certManager: 'a/b', caFile: 'c' }, '--ca-file and --cert-manager exclude each other'],
    ['a file that is not there', { caFile: '/none/ca.crt' }, '--ca-file /none/ca.crt cannot be read'],
    ['a file without a certificate', { caFile: import.meta.filename }, 'holds no certificate in PEM form.'],
    ['no namespace', { excludeNamespace: ['redis', 'A'] }, '--exclude-namespace "A" is not the name of a namespace.'],
    ['direct reviews without a CA', { direct: true }, '--direct needs --cert-manager or --ca-file'],
    ['direct reviews at a URL', { direct: true, webhookUrl: 'https://a' }, '--direct and --webhook-url exclude'],
  ])('refuses %s', async (_what, flags, message) => {
    await expect(routeOf(flags, service)).rejects.toThrow(message);
  });

  it('refuses direct reviews without a Service, or at a named port', async () => {
    const flags = { direct: true, certManager: 'a/b' };
    await expect(routeOf(flags, undefined)).rejects.toThrow('--direct needs --service');
    await expect(routeOf(flags, { ...service, port: 'https' })).rejects.toThrow('--direct needs --service');
  });
});

it('names the first flag that is used', () => {
  expect(usedFlag({})).toBeUndefined();
  expect(usedFlag({ crd: 'a', direct: true })).toBe('--direct');
});
