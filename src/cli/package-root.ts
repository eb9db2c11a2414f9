import { existsSync, readFileSync } from 'node:fs';

/** The folder of levelhook's package.json. This file runs from `src/cli` and from `dist/src/cli`. */
export function packageRoot(): URL {
  for (let at = new URL('./', import.meta.url); ; at = new URL('../', at)) {
    const file = new URL('package.json', at);
    if (existsSync(file) && (JSON.parse(readFileSync(file, 'utf8')) as { name?: string }).name === 'levelhook')
      return at;
    if (at.pathname === '/') throw new Error('the levelhook command is not inside its package');
  }
}

/** The version of this package. */
export function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL('package.json', packageRoot()), 'utf8')) as { version: string };
  return version;
}
