import { execFileSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, renameSync, statSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as tar from 'tar';
import { z } from 'zod';
import { repositoryRoot, runNode } from './temp-repository.ts';

const filesSchema = z.object({ files: z.array(z.string()) });

/** The tarballs that `npm publish` would upload. */
export interface PackedPackages {
  readonly levelhook: string;
  readonly function: string;
  readonly create: string;
}

/**
 * Builds and packs the packages of this tree. Staged, so that neither an old dist nor another run can falsify the
 * result.
 *
 * @param folder an empty one
 * @param root the repository
 */
export function packPackages(folder: string, root = repositoryRoot): PackedPackages {
  const stage = join(folder, 'stage');
  const { files } = filesSchema.parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')));
  // As npm does, which packs this stage: a name may be a pattern.
  for (const name of globSync(['package.json', ...files.filter((each) => !each.startsWith('dist/'))], { cwd: root })) {
    cpSync(join(root, name), join(stage, name), { recursive: true });
  }
  const built = runNode(root, ['infra/checks/build.ts', join(stage, 'dist')]);
  if (built.exitCode !== 0) throw new Error(built.output);
  return {
    levelhook: pack(stage, folder),
    function: pack(join(stage, 'dist/function'), folder),
    create: pack(join(stage, 'dist/create'), folder),
  };
}

function pack(source: string, folder: string): string {
  const destination = join(folder, 'tarball');
  mkdirSync(destination, { recursive: true });
  execFileSync('npm', ['pack', '--offline', '--ignore-scripts', '--pack-destination', destination], {
    cwd: source,
    stdio: 'pipe',
  });
  const [name = ''] = globSync('*.tgz', { cwd: destination });
  renameSync(join(destination, name), join(folder, name));
  return join(folder, name);
}

/** Unpacks a package into `node_modules` of a consumer, and returns its folder. */
export function unpackInto(consumer: string, name: string, tarball: string): string {
  const installed = join(consumer, 'node_modules', name);
  mkdirSync(installed, { recursive: true });
  tar.extract({ file: tarball, cwd: installed, strip: 1, sync: true });
  return installed;
}

/** Links packages of this repository into `node_modules` of a consumer, as if npm had installed them. */
export function linkInto(consumer: string, names: readonly string[]): void {
  for (const name of names) {
    const link = join(consumer, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(repositoryRoot, 'node_modules', name), link);
  }
}

/** Bytes of all files below a folder. */
export function sizeOf(folder: string): number {
  return globSync('**/*', { cwd: folder, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
