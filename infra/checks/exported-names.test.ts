import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { declaredExports } from './exported-names.ts';

/** The names that several of these files declare and export, with the files. */
function namesWithTwoMeanings(paths: readonly string[]): string[] {
  const exports = paths.flatMap((path) => declaredExports(path).map((name) => ({ name, path })));
  return [...Map.groupBy(exports, ({ name }) => name)]
    .filter(([, found]) => new Set(found.map(({ path }) => path)).size > 1)
    .map(([name, found]) => `${name}: ${found.map(({ path }) => path).join(', ')}`);
}

test('each exported name of src has one meaning', () => {
  // The types of built-in kinds are Kubernetes' own names, and are imported one kind at a time.
  const paths = globSync('src/**/*.ts', { exclude: ['src/function/kinds/**'] }).filter(
    (path) => !path.endsWith('.test.ts'),
  );
  expect(paths.length).toBeGreaterThan(200);
  expect(namesWithTwoMeanings(paths)).toEqual([]);
});

test('a name that two modules export is found, and one that is exported again is not', () => {
  const folder = mkdtempSync(join(tmpdir(), 'exported-names-'));
  try {
    const write = (name: string, text: string): string => {
      const path = join(folder, name);
      writeFileSync(path, text);
      return path;
    };
    const first = write('a.ts', 'export interface Source { a: string }\nexport const other = 1;\n');
    const second = write('b.ts', "export class Source {}\nexport { other } from './a.ts';\n");
    expect(namesWithTwoMeanings([first, second])).toEqual([`Source: ${first}, ${second}`]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
