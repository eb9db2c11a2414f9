import { expect, test } from 'vitest';
import { formatDuration, Times } from './times.ts';

const NOW = 1_000_000;
const WALL = Date.UTC(2026, 10, 23, 4, 5, 6);

test.each([
  [-5, '0 ms'],
  [15, '15 ms'],
  [3270, '3.2 s'],
  [42_000, '42 s'],
  [200_000, '3 min 20 s'],
  [11 * 60_000 + 5000, '11 min'],
  [3 * 3_600_000 + 7 * 60_000, '3 h 7 min'],
  [400 * 86_400_000, '400 d'],
])('%s ms reads %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test('times of the gateway clock are shown by the clock of people', () => {
  const times = new Times(NOW, WALL);
  expect(String(times.at(NOW + 90_000))).toBe(
    '<time datetime="2026-11-23T04:06:36.000Z" title="2026-11-23 04:06:36.000 UTC">in 1 min 30 s</time>',
  );
  expect(String(times.at(NOW))).toContain('>now<');
  expect(String(times.of('2026-11-23T04:04:06Z'))).toContain('>1 min ago<');
  expect(times.of('soon')).toBe('soon');
});

test('a time that no date can have does not fail the page', () => {
  expect(String(new Times(NOW, WALL).at(Infinity))).toContain('275760');
  expect(String(new Times(NOW, WALL).at(Number.NaN))).toContain('<time');
});
