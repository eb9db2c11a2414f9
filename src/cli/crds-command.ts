import { globSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf, UserError } from '../core/index.ts';
import { CRDS_HEADER, definitionFiles } from './crds/definition.ts';
import { kindsIn } from './crds/kinds.ts';
import { progress } from './progress.ts';

export interface CrdsOptions {
  readonly out: string;
  readonly check: boolean;
}

/**
 * `levelhook crds`: writes a CustomResourceDefinition for each kind that the types of a project declare, or says with
 * exit code 1 which file is stale.
 * @param files Default: the modules in `src`, but tests.
 */
export async function crdsCommand(files: readonly string[], { check, out }: CrdsOptions): Promise<void> {
  const found = files.length > 0 ? files : globSync('src/**/*.ts', { exclude: (path) => /\.(test|d)\.ts$/.test(path) });
  const kinds = await kindsIn(await declaring(found), (file) => progress(`reading ${file}`)).finally(() =>
    progress(''),
  );
  if (kinds.length === 0) {
    throw new UserError(
      'There is no exported type with the marker "@kind GROUP/VERSION": name the files with your types.',
    );
  }
  const written = definitionFiles(kinds);
  const paths = written.map(({ name, text }) => ({ path: join(out, name), text }));
  const before = new Map<string, string | undefined>();
  for (const { path } of paths) before.set(path, await readFile(path, 'utf8').catch(() => undefined));
  if (check) {
    const stale = paths.filter(({ path, text }) => before.get(path) !== text).map(({ path }) => path);
    if (stale.length > 0) throw new UserError(`${stale.join(', ')} is not what the types say: run levelhook crds.`);
    return;
  }
  const foreign = paths.find(({ path }) => before.get(path)?.startsWith(CRDS_HEADER) === false);
  if (foreign) {
    throw new UserError(
      `${foreign.path} was not made by this command: move it away, or choose another folder with --out.`,
    );
  }
  await mkdir(out, { recursive: true }).catch((error: unknown) => {
    throw new UserError(`The folder ${out} cannot be made (${messageOf(error)}).`);
  });
  for (const { path, text } of paths) {
    await writeFile(path, text);
    process.stdout.write(`${path}\n`);
  }
}

/** The files with a marker: the generator takes a second for each. */
async function declaring(files: readonly string[]): Promise<string[]> {
  const marked: string[] = [];
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch((error: unknown) => {
      throw new UserError(`${file} cannot be read (${messageOf(error)}).`);
    });
    if (/@kind\s/.test(text)) marked.push(file);
  }
  return marked;
}
