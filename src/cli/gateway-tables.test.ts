import { expect, it } from 'vitest';
import { describeLists, describePage } from './gateway-tables.ts';

it('a list of keys shows the names that objects gave, and obeys nothing in them', () => {
  const keys = ['a/\u001b]0;owned\u0007\u001b[2Jk1', 'a/x\u202ey', 'a/two\nlines'].map((key) => ({ key, atMs: 0 }));
  const text = describePage({ total: keys.length, keys }, 'dead', 0);
  expect(text.split('\n').map((line) => line.trimEnd())).toEqual([
    'KEY                TIME',
    'a/ ]0;owned [2Jk1  1970-01-01T00:00:00.000Z',
    'a/x y              1970-01-01T00:00:00.000Z',
    'a/two lines        1970-01-01T00:00:00.000Z',
    '',
  ]);
});

it('several lists say how to see what follows their keys', () => {
  const keys = Array.from({ length: 100 }, (_, at) => ({ key: `a/${at}`, atMs: 0 }));
  const pages = { queued: { total: 350, keys }, dead: { total: 200, keys }, running: { total: 50, keys: [] } };
  expect(describeLists(pages, 100).split('\n').slice(-2)).toEqual(['150 more: --list queued --offset 200', '']);
});
