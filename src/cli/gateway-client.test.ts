import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { stringify } from 'yaml';
import { askGateway as ask, type GatewayAddress } from './gateway-client.ts';

const folder = mkdtempSync(join(tmpdir(), 'levelhook-gateway-client-'));
/** Answers with the status in the path, and redirects with `/redirect`. */
const server = createServer((request, response) => {
  sent.push(request.headers);
  const status = Number(request.url?.slice(1));
  if (request.url === '/redirect') response.writeHead(302, { location: '/200' }).end();
  else response.writeHead(status, { 'content-type': 'application/json' }).end('{"error":"it says so"}');
});
let sent: IncomingHttpHeaders[] = [];
let gateway: string;

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  gateway = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
});
afterEach(() => {
  sent = [];
  vi.unstubAllEnvs();
});

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

function kubeconfig(user: object): string {
  return file(
    'kubeconfig',
    stringify({
      'current-context': 'a',
      clusters: [{ name: 'a', cluster: { server: 'https://10.0.0.1' } }],
      users: [{ name: 'a', user }],
      contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    }),
  );
}

const askGateway = (address: GatewayAddress, path: string, body?: object): Promise<{ error: string }> =>
  ask(address, { path, field: 'error', ...(body ? { body } : {}) });
const tokens = (): (string | undefined)[] => sent.map(({ authorization }) => authorization);

describe('askGateway', () => {
  it('sends the token of a variable, of a file, or of the user of a kubeconfig', async () => {
    await askGateway({ gateway }, '/200');
    vi.stubEnv('LEVELHOOK_GATEWAY_TOKEN', 'of-the-variable');
    await askGateway({ gateway }, '/200');
    const tokenFile = file('token', 'of-the-file\n');
    await askGateway({ gateway, tokenFile }, '/200', { x: 1 });
    await askGateway({ gateway, tokenFile, kubeconfig: kubeconfig({ token: 'of-the-user' }) }, '/200');
    expect(tokens()).toEqual([undefined, 'Bearer of-the-variable', 'Bearer of-the-file', 'Bearer of-the-user']);
  });

  it.each([
    ['http://gateway.example.com', 'is not sent to http://gateway.example.com by plain http'],
    ['http://localhost.example.com', 'by plain http'],
  ])('sends no token to %s', async (elsewhere, message) => {
    vi.stubEnv('LEVELHOOK_GATEWAY_TOKEN', 'secret-token');
    await expect(askGateway({ gateway: elsewhere }, '/200')).rejects.toThrow(message);
  });

  it('follows no redirect with its token', async () => {
    vi.stubEnv('LEVELHOOK_GATEWAY_TOKEN', 'secret-token');
    await expect(askGateway({ gateway }, '/redirect')).rejects.toThrow('No gateway answers at');
    expect(sent).toHaveLength(1);
  });

  it('says in one sentence what is wrong, and shows no token', async () => {
    const wrong: [object, string, string | RegExp][] = [
      [{}, '/401', /asks for a login: set LEVELHOOK_GATEWAY_TOKEN, --token-file or --kubeconfig\.$/],
      [{ tokenFile: file('wrong', 'wrong-token') }, '/401', / answered 401: it says so\.$/],
      [{ tokenFile: file('right', 'wrong-token') }, '/403', / answered 403: it says so\.$/],
      [{ tokenFile: file('empty', '\n') }, '/200', /empty is not a token: it must be one word\.$/],
      [{ tokenFile: file('two', 'wrong-token wrong-token') }, '/200', /two is not a token/],
      [{ tokenFile: join(folder, 'missing') }, '/200', /missing cannot be read/],
      [{ caFile: join(folder, 'missing') }, '/200', /--ca-file .*missing cannot be read/],
      [{ kubeconfig: kubeconfig({ username: 'a', password: 'wrong-token' }) }, '/200', /has no token/],
    ];
    for (const [flags, path, message] of wrong) {
      const error = await askGateway({ gateway, ...flags }, path).catch((reason: unknown) => reason as Error);
      expect(error).toMatchObject({ name: 'UserError', message: expect.stringMatching(message) as string });
      expect((error as Error).message).not.toMatch(/wrong-token|\n/);
    }
    const impersonating = kubeconfig({ token: 'a', as: 'other' });
    await expect(askGateway({ gateway, kubeconfig: impersonating }, '/200')).rejects.toThrow('impersonates');
  });
});
