import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { UserError } from '../../core/index.ts';
import { certificateFiles, readCertificate } from './certificate-files.ts';

const folder = mkdtempSync(join(tmpdir(), 'levelhook-certificate-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('serves https with two files, and http with none', () => {
  expect(certificateFiles({})).toBeUndefined();
  expect(certificateFiles({ TLS_CERT_FILE: ' ', TLS_KEY_FILE: '' })).toBeUndefined();
  expect(certificateFiles({ TLS_CERT_FILE: 'a', TLS_KEY_FILE: 'b' })).toEqual({ certFile: 'a', keyFile: 'b' });
});

it('says what is wrong in one sentence', () => {
  for (const environment of [{ TLS_CERT_FILE: 'a' }, { TLS_KEY_FILE: 'b' }]) {
    expect(() => certificateFiles(environment)).toThrow(UserError);
    expect(() => certificateFiles(environment)).toThrow('only one is set');
  }
  const certFile = join(folder, 'tls.crt');
  const files = { certFile, keyFile: join(folder, 'tls.key') };
  expect(() => readCertificate(files)).toThrow(/tls.crt with the key .*tls.key cannot be used \(ENOENT/);
  for (const file of Object.values(files)) writeFileSync(file, 'no PEM');
  expect(() => readCertificate(files)).toThrow(UserError);
});
