import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ownFunction, shippedFunction } from './function-program.ts';

let folder: string;
const put = (file: string): void => writeFileSync(join(folder, file), '');

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'levelhook-entries-'));
  mkdirSync(join(folder, 'src'));
});

afterEach(() => rmSync(folder, { recursive: true }));

it('the entry of a project is src/node.ts, or the first of the usual ones', () => {
  expect(() => ownFunction(undefined, folder, 'data')).toThrow(/^There is none of src\/node\.ts, node\.ts, .* in /);
  put('go.mod');
  expect(ownFunction(undefined, folder, '/data')).toMatchObject({
    folder,
    build: ['go', 'build', '-o', expect.stringMatching(/^\/data\/go-/) as string, '.'],
  });
  put('function.py');
  expect(ownFunction(undefined, folder, 'data').command).toEqual(['python3', join(folder, 'function.py')]);
  put('src/node.ts');
  const { command, name, folder: of } = ownFunction(undefined, folder, 'data');
  expect([name, of, command[0], command.at(-1)]).toEqual([
    'src/node.ts',
    join(folder, 'src'),
    process.execPath,
    join(folder, 'src/node.ts'),
  ]);
});

it('an entry that is named is a module, a script, or a folder with a Go module', () => {
  put('a.mjs');
  put('a.txt');
  expect(ownFunction('a.mjs', folder, 'data').command.at(-1)).toBe(join(folder, 'a.mjs'));
  expect(() => ownFunction('a.txt', folder, 'data')).toThrow(/a\.txt is no module for Node/);
  expect(() => ownFunction('src', folder, 'data')).toThrow(/src is no Go module/);
  expect(() => ownFunction('gone.ts', folder, 'data')).toThrow(/^There is no file \S+gone\.ts: /);
});

it('a function that is shipped is named by its folder', () => {
  expect(shippedFunction('examples/02-custom-resource').folder).toMatch(/functions\/examples\/02-custom-resource$/);
  for (const name of ['../core', 'nothing', 'toString']) {
    expect(() => shippedFunction(name)).toThrow(/^There is no function ".*" in functions\/: there is deployment, /);
  }
});
