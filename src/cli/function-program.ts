import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { UserError } from '../core/index.ts';

/**
 * How a function is run as a child process. It listens on `HOST` and `PORT`, and then writes the line
 * `{"msg":"listening","url":"http://127.0.0.1:8080"}`, as `serveController` does.
 */
export interface FunctionProgram {
  /** For people: the folder in `functions/`, or the entry as the user has named it. */
  readonly name: string;
  /** The folder of the entry, where the function's definitions are. */
  readonly folder: string;
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** The program and the arguments that build it first, in `folder`. Default: nothing has to be built. */
  readonly build?: readonly string[];
}

/** Next to `src/cli` in the repository, and next to `dist/src/cli` in the package. */
const FUNCTIONS = new URL('../../functions/', import.meta.url);
/** `replicaset`, `examples/01-minimal`: the name cannot leave the folder. */
const NAME = /^(examples\/)?[a-z0-9][a-z0-9-]*$/;
/** The entries that `levelhook dev` looks for, in this order. */
const ENTRIES = ['src/node.ts', 'node.ts', 'src/node.js', 'node.js', 'function.py', 'go.mod'];

/** A function that is shipped with levelhook. @throws UserError that names the existing functions. */
export function shippedFunction(name: string): FunctionProgram {
  const script = NAME.test(name) ? shippedEntry(name) : undefined;
  if (script !== undefined) return { name, folder: dirname(script), command: nodeCommand(script) };
  const there = [...foldersIn(''), ...foldersIn('examples/')].filter((folder) => shippedEntry(folder) !== undefined);
  throw new UserError(`There is no function "${name}" in functions/: there is ${there.join(', ') || 'none'}.`);
}

/**
 * A function of the user's own: a module for Node, a script in Python, or a folder with a Go module.
 * @param entry a path. Default: the first of `src/node.ts`, `node.ts`, ... in `folder`.
 * @param data the folder into which a Go program is built.
 * @throws UserError when there is no such file, or it is none of these.
 */
export function ownFunction(entry: string | undefined, folder: string, data: string): FunctionProgram {
  const found = entry ?? ENTRIES.find((each) => existsSync(join(folder, each)));
  if (found === undefined) {
    throw new UserError(`There is none of ${ENTRIES.join(', ')} in ${folder}: name the entry of your function.`);
  }
  const path = resolve(folder, found === 'go.mod' ? '.' : found);
  if (!existsSync(path)) throw new UserError(`There is no file ${path}: name the entry of your function.`);
  if (statSync(path).isDirectory()) {
    if (!existsSync(join(path, 'go.mod'))) {
      throw new UserError(`The folder ${path} is no Go module: name the file that serves your function.`);
    }
    const built = resolve(data, `go-${basename(path)}`);
    return { name: found, folder: path, command: [built], build: ['go', 'build', '-o', built, '.'] };
  }
  const own = { name: found, folder: dirname(path) };
  if (/^\.[cm]?[jt]s$/.test(extname(path))) return { ...own, command: nodeCommand(path) };
  if (extname(path) === '.py') return { ...own, command: ['python3', path] };
  throw new UserError(
    `${path} is no module for Node (.ts, .js), no script in Python (.py) and no folder with a go.mod.`,
  );
}

/** The command takes the options of this process, so that both resolve modules alike. */
function nodeCommand(script: string): string[] {
  return [process.execPath, ...process.execArgv, script];
}

function shippedEntry(name: string): string | undefined {
  const entries = ['node.ts', 'node.js'].map((file) => new URL(`${name}/${file}`, FUNCTIONS));
  const found = entries.find((entry) => existsSync(entry));
  return found && fileURLToPath(found);
}

function foldersIn(path: string): string[] {
  const folder = new URL(path, FUNCTIONS);
  return existsSync(folder) ? readdirSync(folder).map((name) => path + name) : [];
}
