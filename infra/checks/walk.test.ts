import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const README = 'src/gateway/README.md';

test('the walk through the gateway names files and functions that are there', () => {
  const rows = [...readFileSync(README, 'utf8').matchAll(/^\| `([a-z-]+\/[a-z-]+\.ts)` +\| `(#?\w+)`/gm)];
  expect(rows.length).toBeGreaterThan(15);
  const wrong = rows.filter(([, file = '', name = '']) => {
    const text = readFileSync(`src/gateway/${file}`, 'utf8');
    return !new RegExp(`^(  (async )?|export function )${name}\\(`, 'm').test(text);
  });
  expect(wrong.map(([row]) => row)).toEqual([]);
});
