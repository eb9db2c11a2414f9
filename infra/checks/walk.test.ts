import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import importRules from './import-rules.cjs';
import { linkOf, problemsOf, type Row, rowsOf } from './walk.ts';
import { Source } from './walk-source.ts';

const readme = readFileSync('src/gateway/README.md', 'utf8');
const rows = rowsOf(readme);
const textOf = (file: string): string => readFileSync(`src/gateway/${file}`, 'utf8');

const sources = new Map<string, Source>();
const sourceOf = (file: string): Source => {
  const source = sources.get(file) ?? new Source(textOf(file));
  sources.set(file, source);
  return source;
};

test('each function of the walk through the gateway calls the next one, or leaves data for it', () => {
  expect(problemsOf(rows, sourceOf)).toEqual([]);
  expect(rows.length).toBeGreaterThan(25);
  expect(rows[0]?.name).toBe('Reflector.#read');
  expect(rows.at(-1)?.next).toBe('the end');
});

test('a walk without one of its rows has a gap', () => {
  // Without its first row the walk has another begin, which the test above names.
  const passing = rows.slice(1).filter((row) => {
    const others = rows.filter((each) => each !== row);
    return problemsOf(others, sourceOf).length === 0;
  });
  expect(passing).toEqual([]);
});

test('a walk with two of its rows swapped has a gap', () => {
  const swapped = (one: Row, other: Row): Row[] =>
    rows.map((each) => (each === one ? other : each === other ? one : each));
  const passing = rows.flatMap((one, at) =>
    rows.slice(at + 1).filter((other) => problemsOf(swapped(one, other), sourceOf).length === 0),
  );
  expect(passing).toEqual([]);
});

test('code that no longer makes a call, or no longer uses the data, breaks the walk', () => {
  const passing = rows.slice(0, -1).filter((row) => {
    const { file, text } = broken(row);
    expect(text).not.toBe(textOf(file));
    const source = new Source(text);
    return problemsOf(rows, (each) => (each === file ? source : sourceOf(each))).length === 0;
  });
  expect(passing).toEqual([]);
});

/** The file in which the way to the next function begins, with that call or that data under another name. */
function broken(row: Row): { file: string; text: string } {
  const link = linkOf(row);
  if (link?.kind === 'leaves') {
    return { file: row.file, text: textOf(row.file).replaceAll(new RegExp(`\\b${link.data}\\b`, 'g'), 'elsewhere') };
  }
  const caller = link?.kind === 'returns' ? rows.find(({ name }) => name === link.caller) : row;
  const file = caller?.file ?? '';
  const name = (link?.kind === 'calls' && link.as ? link.as : (link?.to ?? '')).split('.').at(-1) ?? '';
  const call = new RegExp(`(?<=[.(]|(?:await|=|=>) )${name}(?=\\()`, 'g');
  return { file, text: textOf(file).replaceAll(call, name.startsWith('#') ? '#elsewhere' : 'elsewhere') };
}

test('the table of rooms names each folder of the gateway, in the order in which they may import each other', () => {
  const named = [...readme.matchAll(/^\| `([a-z-]+(?:\/[a-z-]+)?)` +\|/gm)].map(([, room = '']) => room);
  expect(named).toEqual(importRules.gatewayFlow.filter((part) => !part.endsWith('.ts')));
  const rooms = roomsIn('src/gateway');
  expect(named.toSorted()).toEqual(rooms.map((path) => relative('src/gateway', path)).toSorted());
  expect(rooms.filter((room) => !existsSync(join(room, 'README.md')))).toEqual([]);
});

/** The folders with files. A folder without files holds rooms of its own. */
function roomsIn(folder: string): string[] {
  const folders = readdirSync(folder, { withFileTypes: true }).filter((each) => each.isDirectory());
  return folders.flatMap(({ name }) => {
    const path = join(folder, name);
    return readdirSync(path, { withFileTypes: true }).some((each) => each.isFile()) ? [path] : roomsIn(path);
  });
}
