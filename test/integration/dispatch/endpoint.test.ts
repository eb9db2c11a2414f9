import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateSecret, type SigningKey } from '../../../src/contract/index.ts';
import { importExtractableSecret } from '../../../src/contract/signature.ts';
import { readCertificates } from '../../../src/ground/config/certificates.ts';
import { Endpoint, type EndpointOptions } from '../../../src/gateway/controller/endpoint/endpoint.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import { LoopbackServer } from '../../harness/loopback-server.ts';

describe('an https endpoint', () => {
  let directory: string;
  let ca: string;
  let keys: SigningKey[];
  let server: LoopbackServer;
  let asked = 0;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'levelhook-test-endpoint-'));
    ca = await createCertificates(join(directory, 'pki'));
    const pem = (name: string) => readFile(join(directory, 'pki', name));
    const pair = { cert: await pem('serving.crt'), key: await pem('serving.key') };
    const answer: RequestListener = (request, response) => {
      asked += 1;
      request.resume();
      response.end('fine');
    };
    server = new LoopbackServer(createServer(pair, answer));
    await server.open();
    keys = [await importExtractableSecret(generateSecret())];
  });

  afterAll(async () => {
    await server.close();
    await rm(directory, { recursive: true });
  });

  async function send(host: string, options: Partial<EndpointOptions>) {
    const endpoint = new Endpoint(`https://${host}:${server.port}/`, keys, { connections: 1, ...options });
    try {
      return await endpoint.send({ body: '{}', id: 'msg', timeoutMs: 10_000 });
    } finally {
      await endpoint.close();
    }
  }

  it.each(['127.0.0.1', 'localhost'])("is trusted by the operator's certificate authority, as %s", async (host) => {
    const path = join(directory, 'ca.pem');
    await writeFile(path, ca);
    expect(await send(host, { ca: readCertificates(path, 'functionCaFile') })).toMatchObject({
      kind: 'answered',
      body: 'fine',
    });
  });

  it('is not trusted without it, and gets nothing', async () => {
    const before = asked;
    const answer = await send('127.0.0.1', {});
    expect(answer).toMatchObject({
      kind: 'refused',
      reason: 'connection',
      message: expect.stringMatching(/certificate/),
    });
    expect(asked).toBe(before);
  });

  it('is not connected to when its name has an address that is not allowed', async () => {
    const before = asked;
    const rules = {
      allow: ['https://*.localhost', `https://localhost:${server.port}`],
      loopback: false,
      tenant: 'shop.',
    };
    const answer = await send('localhost', { ca, rules });
    expect(answer).toEqual({
      kind: 'refused',
      reason: 'refused',
      message: expect.stringMatching(/^localhost is (127\.0\.0\.1|::1), a loopback address/),
    });
    expect(asked).toBe(before);
  });

  it('is told at the start that the file of authorities is missing, or holds none', async () => {
    expect(() => readCertificates(join(directory, 'missing'), 'functionCaFile')).toThrow(
      /FUNCTION_CA_FILE cannot be read \(ENOENT/,
    );
    const path = join(directory, 'empty.pem');
    await writeFile(path, 'not a certificate');
    expect(() => readCertificates(path, 'functionCaFile')).toThrow(/holds no certificate in PEM form/);
  });
});
