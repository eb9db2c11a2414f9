import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UserError } from '../../../src/core/index.ts';
import { parseRedisUrl } from '../../../src/contract/node/redis-url.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import type { RedisFiles } from '../../../src/ground/config/config.ts';
import { RedisSecrets } from '../../../src/ground/redis/redis-files.ts';

describe('the files of the connection to Redis', () => {
  let folder: string;
  const path = (name: string): string => join(folder, name);
  const secretsOf = (url: string, files: RedisFiles): RedisSecrets => new RedisSecrets(parseRedisUrl(url), files);

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'levelhook-redis-files-'));
    for (const which of ['first', 'second']) await createCertificates(path(which));
    await writeFile(path('user'), 'me\n');
    await writeFile(path('password'), 'hidden\r\n');
    await writeFile(path('empty'), '\n');
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('hold user and password, which are read again', async () => {
    await writeFile(path('changing'), 'one\n');
    const secrets = secretsOf('redis://a', { usernameFile: path('user'), passwordFile: path('changing') });
    expect(secrets.credentials).toEqual({ username: 'me', password: 'one' });
    await writeFile(path('changing'), 'two');
    expect(secrets.credentials.password).toBe('two');
    // While it is being replaced.
    await writeFile(path('changing'), '');
    expect(secrets.credentials.password).toBe('two');
    await rm(path('changing'));
    expect(secrets.credentials.password).toBe('two');
  });

  it('complete what the URL says', () => {
    expect(secretsOf('redis://you:secret@a', {}).credentials).toEqual({ username: 'you', password: 'secret' });
    const { credentials, sentinelCredentials } = secretsOf('redis+sentinel://you@a/m', {
      passwordFile: path('password'),
      sentinelPasswordFile: path('user'),
    });
    expect(credentials).toEqual({ username: 'you', password: 'hidden' });
    expect(sentinelCredentials).toEqual({ username: undefined, password: 'me' });
  });

  it('hold certificates, of which a new pair counts once both its files are there', async () => {
    const copy = async (which: string, name: string): Promise<void> =>
      writeFile(path(`client.${name}`), await readFile(join(path(which), `serving.${name}`)));
    await copy('first', 'crt');
    await copy('first', 'key');
    const secrets = secretsOf('rediss://a', { certFile: path('client.crt'), keyFile: path('client.key') });
    const before = secrets.tls;
    await copy('second', 'key');
    expect(secrets.tls).toEqual(before);
    await copy('second', 'crt');
    expect(secrets.tls.cert).not.toBe(before.cert);
  });

  it.each<[string, string, (keyof RedisFiles)[], string]>([
    ['redis://a', 'absent', ['passwordFile'], 'LEVELHOOK_REDIS_PASSWORD_FILE cannot be read (ENOENT'],
    ['redis://a', 'empty', ['passwordFile'], 'LEVELHOOK_REDIS_PASSWORD_FILE is wrong: '],
    [
      'redis://:pass@a',
      'password',
      ['passwordFile'],
      'LEVELHOOK_REDIS_PASSWORD_FILE is set, and REDIS_URL has a password',
    ],
    ['redis://you:pass@a', 'user', ['usernameFile'], 'LEVELHOOK_REDIS_USERNAME_FILE is set, and REDIS_URL has a user'],
    ['redis://a', 'user', ['usernameFile'], 'LEVELHOOK_REDIS_PASSWORD_FILE is not set: '],
    ['redis://a', 'password', ['sentinelPasswordFile'], 'LEVELHOOK_REDIS_SENTINEL_PASSWORD_FILE is set, and REDIS_URL'],
    ['redis+sentinel://a/m', 'user', ['sentinelUsernameFile'], 'LEVELHOOK_REDIS_SENTINEL_PASSWORD_FILE is not set: '],
    ['redis://a', 'password', ['caFile'], 'LEVELHOOK_REDIS_CA_FILE is set, and REDIS_URL has no TLS: '],
    ['rediss://a', 'password', ['caFile'], 'LEVELHOOK_REDIS_CA_FILE cannot be used (no certificate in PEM form).'],
    ['rediss://a', 'password', ['certFile'], 'LEVELHOOK_REDIS_KEY_FILE is not set: '],
    [
      'rediss://a',
      'password',
      ['certFile', 'keyFile'],
      'LEVELHOOK_REDIS_CERT_FILE, LEVELHOOK_REDIS_KEY_FILE cannot be',
    ],
  ])('with %s, the file "%s" as %s is refused in one sentence', (url, file, names, sentence) => {
    const files = Object.fromEntries(names.map((name) => [name, path(file)]));
    expect(() => secretsOf(url, files)).toThrow(UserError);
    expect(() => secretsOf(url, files)).toThrow(sentence);
    expect(() => secretsOf(url, files)).not.toThrow(/hidden|\bpass@/);
  });
});
