import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { UserError } from '../../core/errors.ts';
import { createCredentials, writeKubeconfigs, writeTokenFile } from './credentials.ts';
import { PlaneFiles } from './plane-files.ts';

let files: PlaneFiles;

beforeEach(async () => {
  files = new PlaneFiles(await mkdtemp(join(tmpdir(), 'levelhook-credentials-')));
});

afterEach(() => rm(files.directory, { recursive: true }));

describe('credentials of a control plane', () => {
  it('are a token of its own for each user', () => {
    const credentials = createCredentials([{ name: 'reader', groups: ['a', 'b'] }]);
    const tokens = [...credentials.values()].map(({ token }) => token);
    expect(new Set(tokens).size).toBe(4);
    expect(credentials.get('reader')?.groups).toEqual(['a', 'b']);
  });

  it('refuse two users of one name', () => {
    expect(() => createCredentials([{ name: 'admin' }])).toThrow(UserError);
  });

  it('are written as CSV, whatever a user is called', async () => {
    const credentials = createCredentials([{ name: 'a "quoted", name', groups: ['x', 'y'] }]);
    await writeTokenFile(files.tokens, credentials);
    const lines = (await readFile(files.tokens, 'utf8')).trimEnd().split('\n');
    expect(lines[3]).toMatch(/^"[0-9a-f]{48}","a ""quoted"", name","a ""quoted"", name","x,y"$/);
    expect((await stat(files.tokens)).mode & 0o777).toBe(0o600);
  });

  it('are written as kubeconfigs that nobody else can read', async () => {
    const credentials = createCredentials([{ name: 'system:serviceaccount:x:y' }]);
    await writeKubeconfigs(files, 'https://127.0.0.1:1', 'PEM', credentials);
    const file = files.kubeconfig('system:serviceaccount:x:y');
    expect(file).toBe(join(files.directory, 'system%3Aserviceaccount%3Ax%3Ay.kubeconfig'));
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(parse(await readFile(file, 'utf8'))).toMatchObject({
      clusters: [{ cluster: { server: 'https://127.0.0.1:1', 'certificate-authority-data': 'UEVN' } }],
      users: [{ user: { token: credentials.get('system:serviceaccount:x:y')?.token } }],
    });
  });
});
