import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { UserError } from '../../core/index.ts';
import { readCacheKeys } from './cache-keys.ts';

const directory = mkdtempSync(join(tmpdir(), 'levelhook-keys-'));
afterAll(() => rmSync(directory, { recursive: true }));
const base64 = randomBytes(32).toString('base64');
const other = randomBytes(32).toString('base64');
const file = (text: string): string => {
  const path = join(directory, 'keys');
  writeFileSync(path, text);
  return path;
};

it('reads keys from the variable or from a file, and none when there are none', () => {
  expect(readCacheKeys([], undefined)).toBeUndefined();
  const { writer } = readCacheKeys([`a:${base64}`, `b:${other}`], undefined) ?? {};
  expect(writer).toMatch(/^a:/);
  expect(readCacheKeys([], file(`\n a:${base64}\n\tb:${other} \n`))?.writer).toBe(writer);
  // Some tools leave out the padding.
  expect(readCacheKeys([`a:${base64.replace('=', '')}`], undefined)?.writer).toBe(writer);
});

it.each<[string, () => unknown, RegExp]>([
  [
    'an id is missing',
    () => readCacheKeys([base64], undefined),
    /^LEVELHOOK_CACHE_KEYS is wrong: key 1 of 1 must be an id/,
  ],
  ['an id is empty', () => readCacheKeys([`:${base64}`], undefined), /key 1 of 1 must be an id/],
  ['a key is not base64', () => readCacheKeys([`a:${base64}`, 'b:!?'], undefined), /key 2 of 2 must have base64/],
  ['a key is base64url', () => readCacheKeys([`a:${'-_'.repeat(21)}8`], undefined), /key 1 of 1 must have base64/],
  ['a key is short', () => readCacheKeys(['a:c2hvcnQ='], undefined), /the key "a" must have 32 bytes and has 5\.$/],
  [
    'an id is there twice',
    () => readCacheKeys([`a:${base64}`, `a:${other}`], undefined),
    /two keys have the id "a"\.$/,
  ],
  [
    'a key is there twice',
    () => readCacheKeys([`a:${base64}`, `b:${base64}`], undefined),
    /"a" and "b" are the same key/,
  ],
  ['both are given', () => readCacheKeys([`a:${base64}`], '/x'), /are both set: set one of them\.$/],
  ['the file is not there', () => readCacheKeys([], '/nowhere'), /^LEVELHOOK_CACHE_KEYS_FILE \/nowhere cannot be read/],
  ['the file is empty', () => readCacheKeys([], file(' \n')), /^LEVELHOOK_CACHE_KEYS_FILE \S+ holds no key\.$/],
  [
    'the file holds something else',
    () => readCacheKeys([], file('hidden')),
    /_FILE \S+ is wrong: key 1 of 1 must be an id/,
  ],
])('%s: one sentence that shows no key', (_, read, sentence) => {
  expect(read).toThrow(UserError);
  expect(read).toThrow(sentence);
  for (const secret of [base64, other, 'hidden', '!?']) expect(read).not.toThrow(secret);
});
