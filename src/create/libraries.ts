import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Beside the bundle of `create-levelhook`, and beside `src`. */
const FOLDERS = ['functions/examples/', '../../functions/examples/'];

function read(path: string): string {
  return readFileSync(join(examples(), path), 'utf8');
}

function examples(): string {
  const folders = FOLDERS.map((folder) => fileURLToPath(new URL(folder, import.meta.url)));
  const found = folders.find((folder) => existsSync(join(folder, '10-python/levelhook.py')));
  if (found === undefined) throw new Error(`the libraries are in none of ${folders.join(', ')}`);
  return found;
}

/** The library for Python, which the example has, too. */
export const pythonLibrary = (): string => read('10-python/levelhook.py');

/** The files of the package for Go, by name; its tests read the repository. */
export function goLibrary(): Map<string, string> {
  const names = readdirSync(join(examples(), '11-go/levelhook')).filter((name) => !name.endsWith('_test.go'));
  return new Map(names.toSorted().map((name) => [name, read(`11-go/levelhook/${name}`)]));
}
