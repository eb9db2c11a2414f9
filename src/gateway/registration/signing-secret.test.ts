import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ScriptedApiserver } from '../../../test/harness/scripted-apiserver.ts';
import { generateSecret, sign, verify, importSecret } from '../../contract/index.ts';
import type { InvalidFunctionError } from './invalid-function-error.ts';
import { readSigningSecret } from './signing-secret.ts';

let server: ScriptedApiserver;
let text: string;
beforeEach(async () => {
  server = await ScriptedApiserver.start();
  server.answer((path) =>
    path === '/api/v1/namespaces/shop/secrets/signing'
      ? {
          metadata: { uid: 'u', resourceVersion: '7' },
          data: { secrets: Buffer.from(text).toString('base64') },
        }
      : undefined,
  );
});
afterEach(() => server[Symbol.asyncDispose]());

const read = (name = 'signing', key = 'secrets') =>
  readSigningSecret(server.client, { namespace: 'shop', name, key }, AbortSignal.timeout(10_000));
const refused = async (...args: Parameters<typeof read>): Promise<InvalidFunctionError> =>
  read(...args).then(
    () => expect.fail('it was taken'),
    (error: unknown) => error as InvalidFunctionError,
  );

describe('a signing Secret', () => {
  it.each([
    ['one', 1],
    ['two, while they are rotated', 2],
  ])('holds %s', async (_what, count) => {
    const secrets = Array.from({ length: count }, generateSecret);
    text = `${secrets.join(',\n')}\n`;
    const { keys, version } = await read();
    const body = 'x';
    const headers = await sign(keys, { id: 'a', nowMs: 0, body });
    const given = { headers: { get: (name: string) => headers[name as keyof typeof headers] ?? null }, nowMs: 0, body };
    for (const secret of secrets) await verify([await importSecret(secret)], given);
    // Changes with the object, and reveals nothing of it.
    expect(version).toBe('u/7');
  });

  it.each<[string, string, [string?, string?], string]>([
    ['is not there', '', ['other'], 'SecretNotFound'],
    ['has no such key', '', ['signing', 'other'], 'SecretKeyNotFound'],
    ['has no key of its own called so', '', ['signing', 'constructor'], 'SecretKeyNotFound'],
    ['is empty', ' \n', [], 'SecretEmpty'],
    ['holds something else', 'hunter2', [], 'SecretInvalid'],
    ['holds too many', Array.from({ length: 5 }, generateSecret).join(' '), [], 'TooManySecrets'],
    ['is longer than that', `${'whsec_'.padEnd(38, 'x')} `.repeat(25_000), [], 'SecretInvalid'],
  ])('that %s is refused', async (_what, value, [name, key], reason) => {
    text = value;
    expect(await refused(name, key)).toMatchObject({ condition: 'Ready', reason });
  });

  it('has a bounded number of words, each of which could be imported', async () => {
    const words = Array.from({ length: 30 }, () => `whsec_${Buffer.alloc(24).toString('base64')}`);
    text = [...words, 'x'].join(' ');
    const importKey = vi.spyOn(crypto.subtle, 'importKey');
    await refused();
    expect(importKey.mock.calls.length).toBeLessThanOrEqual(4);
    importKey.mockRestore();
  });

  it('that is none is told as nothing but that: not what it holds, nor how much', async () => {
    text = 'hunter2';
    const { message } = await refused();
    text = 'hunter2 and a whole sentence about it';
    expect((await refused()).message).toBe(message);
    expect(message).not.toContain('hunter2');
  });
});
