import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readAdminTokens } from './admin-tokens.ts';

const folder = mkdtempSync(join(tmpdir(), 'levelhook-admin-tokens-'));
afterAll(() => rmSync(folder, { recursive: true }));
const TOKEN = 'abcdefghijklmnop';

describe('readAdminTokens', () => {
  it('reads name, right and token, which may hold colons', () => {
    expect(readAdminTokens([`ann@x.example:read:${TOKEN}`, `ops:change:${TOKEN}:=/+`], undefined)).toEqual([
      { name: 'ann@x.example', right: 'read', token: TOKEN },
      { name: 'ops', right: 'change', token: `${TOKEN}:=/+` },
    ]);
    expect(readAdminTokens([], undefined)).toEqual([]);
  });

  it('reads a file, by lines or blanks', () => {
    const file = join(folder, 'tokens');
    writeFileSync(file, `ann:read:${TOKEN}1\nops:change:${TOKEN}2\n`);
    expect(readAdminTokens([], file).map(({ name }) => name)).toEqual(['ann', 'ops']);
    expect(() => readAdminTokens([`ann:read:${TOKEN}`], file)).toThrow('are both set');
    writeFileSync(file, ' \n');
    expect(() => readAdminTokens([], file)).toThrow('holds no token');
    expect(() => readAdminTokens([], join(folder, 'missing'))).toThrow('cannot be read');
  });

  it.each([
    [TOKEN, 'must begin with a name'],
    [`:read:${TOKEN}`, 'must begin with a name'],
    [`<b>:read:${TOKEN}`, 'must begin with a name'],
    [`ann:${TOKEN}`, 'must begin with a name'],
    [`ann:write:${TOKEN}`, 'must have read or change'],
    [`ann:Read:${TOKEN}`, 'must have read or change'],
    ['ann:read:short', 'at least 16 characters'],
    ['ann:read:', 'at least 16 characters'],
    [`ann:read:${TOKEN}é`, 'at least 16 characters'],
  ])('refuses %s, and shows nothing of it', (text, message) => {
    const read = (): unknown => readAdminTokens([`ops:change:${TOKEN}`, text], undefined);
    expect(read).toThrow(message);
    expect(read).toThrow('LEVELHOOK_ADMIN_TOKENS is wrong: token 2 of 2 ');
    expect(read).not.toThrow(TOKEN);
  });

  it('refuses one token with two meanings', () => {
    expect(() => readAdminTokens([`a:read:${TOKEN}`, `b:change:${TOKEN}`], undefined)).toThrow('is there twice');
  });
});
