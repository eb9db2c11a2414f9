import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Redis } from 'ioredis';
import { silentLogger } from '../../../src/core/index.ts';
import { connectRedis } from '../../../src/ground/redis/redis.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import { eventually } from '../../harness/eventually.ts';
import { RedisProcess } from '../../harness/redis-process.ts';
import { Started } from '../../harness/started.ts';

describe('a connection to Redis by TLS', () => {
  const started = new Started();
  let folder: string;
  let url: string;

  beforeAll(async () => {
    folder = join(await started.directory(), 'tls');
    await createCertificates(folder);
    const server = await RedisProcess.start(started, [
      'port 0',
      'tls-port PORT',
      `tls-cert-file ${join(folder, 'serving.crt')}`,
      `tls-key-file ${join(folder, 'serving.key')}`,
      `tls-ca-cert-file ${join(folder, 'front-proxy-ca.crt')}`,
      'tls-auth-clients yes',
    ]);
    url = `rediss://127.0.0.1:${server.port}`;
  });
  afterAll(() => started.stop());

  const files = () => ({
    caFile: join(folder, 'ca.crt'),
    certFile: join(folder, 'front-proxy-client.crt'),
    keyFile: join(folder, 'front-proxy-client.key'),
  });

  it('trusts the authority of its file and shows its certificate, in each connection', async () => {
    const redis = await eventually(() => connectRedis(url, { files: files() }));
    started.add(async () => redis.disconnect());
    expect(await redis.ping()).toBe('PONG');
    const duplicate = redis.duplicate();
    started.add(async () => duplicate.disconnect());
    expect(await duplicate.ping()).toBe('PONG');
  });

  it('is refused without them', async () => {
    await expect(connectRedis(url)).rejects.toThrow(/^Redis does not answer at rediss:.*certificate/);
    const { caFile, ...client } = files();
    await expect(connectRedis(url, { files: { caFile } })).rejects.toThrow(/^Redis does not answer at rediss:/);
    const wrong = { ...client, caFile: join(folder, 'front-proxy-ca.crt') };
    await expect(connectRedis(url, { files: wrong })).rejects.toThrow(/^Redis does not answer at rediss:.*certificate/);
  });
});

describe('user and password in files', () => {
  const started = new Started();
  let server: RedisProcess;
  let admin: Redis;
  let usernameFile: string;
  let passwordFile: string;
  const lines: string[] = [];
  const note = (_: object, message: string): number => lines.push(message);
  const logger = { ...silentLogger, info: note, warn: note };

  const setUser = async (name: string, ...rules: string[]): Promise<void> => {
    await admin.call('ACL', 'SETUSER', name, 'on', '~*', '&*', '+@all', ...rules);
  };
  const whoAmI = async (redis: Redis): Promise<unknown> => redis.call('ACL', 'WHOAMI');

  beforeAll(async () => {
    const folder = await started.directory();
    usernameFile = join(folder, 'user');
    passwordFile = join(folder, 'password');
    server = await RedisProcess.start(started, ['port PORT']);
    admin = server.connect(started);
    await setUser('first', '>one');
    await writeFile(usernameFile, 'first\n');
    await writeFile(passwordFile, 'one\n');
  });
  afterAll(() => started.stop());

  it('are read again: new connections use them, and open ones authenticate again', async () => {
    const files = { usernameFile, passwordFile };
    const redis = await connectRedis(`redis://127.0.0.1:${server.port}`, { files, logger });
    started.add(async () => redis.disconnect());
    const blocking = redis.duplicate({ connectionName: 'blocking' });
    started.add(async () => blocking.disconnect());
    expect([await whoAmI(redis), await whoAmI(blocking)]).toEqual(['first', 'first']);

    // The file comes first, and Redis later.
    await writeFile(usernameFile, 'second\n');
    await writeFile(passwordFile, 'two\n');
    await eventually(async () => expect(lines).toContain('Redis refuses the changed user or password, trying again'));
    expect(await whoAmI(redis)).toBe('first');
    let closed = 0;
    for (const each of [redis, blocking]) each.on('close', () => (closed += 1));
    await setUser('second', '>two');
    await eventually(async () => expect([await whoAmI(redis), await whoAmI(blocking)]).toEqual(['second', 'second']));
    // So Redis may end what the former user has open.
    await admin.call('ACL', 'DELUSER', 'first');
    expect([await whoAmI(redis), await whoAmI(blocking)]).toEqual(['second', 'second']);
    expect(closed).toBe(0);

    await setUser('second', 'resetpass', '>three');
    await writeFile(passwordFile, 'three');
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(async () => expect([await whoAmI(redis), await whoAmI(blocking)]).toEqual(['second', 'second']));
    expect(closed).toBe(2);
    expect(JSON.stringify(lines)).not.toMatch(/one|two|three/);
  });
});
