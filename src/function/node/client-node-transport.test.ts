import { KubeConfig, RequestContext } from '@kubernetes/client-node';
import { expect, it } from 'vitest';
import { sharedConnections } from './client-node-transport.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

it('keeps its connections until the server, a certificate or a key changes', async () => {
  const config = sharedConnections(new KubeConfig());
  const dispatcherFor = async (server: string, certificate: string, key: string) => {
    config.loadFromOptions({
      clusters: [{ name: 'c', server, caData: base64('authority') }],
      users: [{ name: 'u', certData: base64(certificate), keyData: base64(key) }],
      contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
      currentContext: 'x',
    });
    const context = new RequestContext(server, 'GET');
    await config.applySecurityAuthentication(context);
    return context.getDispatcher();
  };
  const first = await dispatcherFor('https://127.0.0.1:1', 'certificate', 'key');
  expect(first).toBeDefined();
  const others = [
    await dispatcherFor('https://127.0.0.1:2', 'certificate', 'key'),
    await dispatcherFor('https://127.0.0.1:1', 'rotated', 'key'),
    await dispatcherFor('https://127.0.0.1:1', 'certificate', 'rotated'),
  ];
  expect(new Set([first, ...others]).size).toBe(4);
  expect(await dispatcherFor('https://127.0.0.1:1', 'certificate', 'key')).toBe(first);
  expect(await dispatcherFor('https://127.0.0.1:1', 'rotated', 'key')).toBe(others[1]);
});
