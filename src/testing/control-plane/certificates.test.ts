import { X509Certificate } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createCertificates } from './certificates.ts';

let parent: string;
let pki: string;

beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'levelhook-pki-'));
  pki = join(parent, 'pki');
});

afterEach(() => rm(parent, { recursive: true }));

describe('createCertificates', () => {
  it('makes a serving certificate for loopback that the CA has signed', async () => {
    const ca = new X509Certificate(await createCertificates(pki));
    const serving = new X509Certificate(await readFile(join(pki, 'serving.crt')));
    const frontProxyClient = new X509Certificate(await readFile(join(pki, 'front-proxy-client.crt')));

    expect(ca.ca).toBe(true);
    expect(serving.verify(ca.publicKey)).toBe(true);
    expect(serving.checkIssued(ca)).toBe(true);
    expect(serving.checkIP('127.0.0.1')).toBe('127.0.0.1');
    expect(serving.checkHost('localhost')).toBe('localhost');
    expect(serving.ca).toBe(false);
    expect(frontProxyClient.verify(ca.publicKey)).toBe(false);
    expect(frontProxyClient.subject).toBe('CN=front-proxy-client');
  });

  it('lets nobody else read the keys', async () => {
    await createCertificates(pki);
    expect((await stat(pki)).mode & 0o777).toBe(0o700);
    for (const file of await readdir(pki)) expect((await stat(join(pki, file))).mode & 0o777).toBe(0o600);
  });
});
