import { globSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';

const README = 'src/gateway/README.md';

test('the walk through the gateway names files and functions that are there', () => {
  const rows = [...readFileSync(README, 'utf8').matchAll(/^\| `([a-z-]+(?:\/[a-z-]+)+\.ts)` +\| `(#?\w+)`/gm)];
  expect(rows.length).toBeGreaterThan(15);
  const wrong = rows.filter(([, file = '', name = '']) => {
    const text = readFileSync(`src/gateway/${file}`, 'utf8');
    return !new RegExp(`^(  (async )?|export function )${name}\\(`, 'm').test(text);
  });
  expect(wrong.map(([row]) => row)).toEqual([]);
});

test('the table of rooms names each room of the gateway', () => {
  const named = [...readFileSync(README, 'utf8').matchAll(/^\| `([a-z-]+(?:\/[a-z-]+)?)` +\|/gm)].map(
    ([, room = '']) => room,
  );
  const rooms = globSync('**/README.md', { cwd: 'src/gateway' }).map((path) => dirname(path));
  expect(named.toSorted()).toEqual(rooms.filter((room) => room !== '.').toSorted());
});
