import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { request } from 'undici';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createCertificateChain } from '../../test/harness/certificate-chain.ts';
import { LoopbackServer } from '../../test/harness/loopback-server.ts';
import { nodeRunTransport } from '../function/node/trigger-kubernetes.ts';
import { openCredentials } from './credentials.ts';

const folder = mkdtempSync(join(tmpdir(), 'levelhook-credentials-'));
let server: LoopbackServer;
/** Of an authority that another one has signed, in PEM form and then in base64. */
let intermediate: string;

beforeAll(async () => {
  const { cert, key } = await createCertificateChain(2);
  const [own = '', signer = ''] = cert.match(/-----BEGIN [^]*?-----END CERTIFICATE-----/g) ?? [];
  intermediate = Buffer.from(signer).toString('base64');
  server = new LoopbackServer(
    createServer({ cert: own, key }, (_, response) => {
      response.setHeader('content-type', 'application/json').end('{"kind":"Status"}');
    }),
  );
  await server.open();
});

afterAll(async () => {
  await server?.close();
  rmSync(folder, { recursive: true });
});

it('a kubeconfig may name an authority that is no root, as for client-go', async () => {
  const path = join(folder, 'config');
  const cluster = { server: server.url, 'certificate-authority-data': intermediate };
  const config = {
    'current-context': 'a',
    clusters: [{ name: 'a', cluster }],
    users: [{ name: 'a', user: { token: 't' } }],
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
  };
  writeFileSync(path, JSON.stringify(config));
  const credentials = await openCredentials(path);
  const { dispatcher } = await credentials.access();
  const { statusCode } = await request(`${server.url}/version`, { dispatcher });
  expect(statusCode).toBe(200);
  await credentials.close();
});

it("a run's credentials may do the same", async () => {
  const transport = nodeRunTransport({ url: server.url, token: 't', caBundle: intermediate, run: 1 });
  const { status } = await transport({ method: 'GET', path: '/version', signal: AbortSignal.timeout(10_000) });
  expect(status).toBe(200);
});
