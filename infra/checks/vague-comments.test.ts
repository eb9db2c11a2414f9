import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { countComments } from './vague-comments.ts';

/** In 10,000 words. */
const MOST = 10;

test(`comments have at most ${MOST} vague constructions in 10,000 words`, () => {
  const paths = globSync(['src/**/*.ts', 'functions/**/*.ts'], { exclude: ['src/function/kinds/**'] });
  const { words, vague } = countComments(paths);
  expect(words).toBeGreaterThan(50_000);
  const share = (vague.length * 10_000) / words;
  expect(share, vague.join('\n')).toBeLessThanOrEqual(MOST);
});

test('each construction is found in comments alone, over the ends of lines and behind code', () => {
  const folder = mkdtempSync(join(tmpdir(), 'vague-comments-'));
  try {
    const path = join(folder, 'a.ts');
    writeFileSync(
      path,
      [
        '/** Tells what',
        ' * it is. So long: beside those that were told. */',
        "const text = 'what is meanwhile beside';",
        'let a = 1; // the object of which it is',
        '// Meanwhile a sentence.',
        "const url = 'http://what.is/';",
      ].join('\n'),
    );
    const { words, vague } = countComments([path]);
    expect(words).toBe(20);
    expect(vague.map((each) => each.slice(path.length))).toEqual([
      ':1: what it',
      ':1: those that',
      ':1: So long',
      ':1: told',
      ':1: beside',
      ':4: of which',
      ':5: Meanwhile',
    ]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
