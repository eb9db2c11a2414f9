import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { UserError } from '../core/index.ts';

/** Next to `src/cli` in the repository, and next to `dist/src/cli` in the package. */
const FUNCTIONS = new URL('../../functions/', import.meta.url);
/** `replicaset`, `examples/01-minimal`: the name cannot leave the folder. */
const NAME = /^(examples\/)?[a-z0-9][a-z0-9-]*$/;

/** The Node entry of a function, by its folder in `functions/`. @throws UserError that names the existing functions. */
export function functionScript(name: string): string {
  const script = NAME.test(name) ? entryOf(name) : undefined;
  if (script !== undefined) return script;
  const there = [...foldersIn(''), ...foldersIn('examples/')].filter((folder) => entryOf(folder) !== undefined);
  throw new UserError(`There is no function "${name}" in functions/: there is ${there.join(', ') || 'none'}.`);
}

function entryOf(name: string): string | undefined {
  const entries = ['node.ts', 'node.js'].map((file) => new URL(`${name}/${file}`, FUNCTIONS));
  const found = entries.find((entry) => existsSync(entry));
  return found && fileURLToPath(found);
}

function foldersIn(path: string): string[] {
  const folder = new URL(path, FUNCTIONS);
  return existsSync(folder) ? readdirSync(folder).map((name) => path + name) : [];
}
