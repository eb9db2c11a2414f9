/**
 * Publishes the packages from the files of a folder: `node infra/release/publish-packages.ts FOLDER [OPTIONS]`.
 * Options are passed on to `npm publish`. A package that the registry has in this version already is left alone, so a
 * release that broke off can be repeated. It imports nothing but Node, because it runs beside the identity of the
 * workflow.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { currentVersion } from './versions.ts';
import { tarballsOf } from './tarballs.ts';

const [folder = 'packages', ...options] = process.argv.slice(2);
const version = currentVersion(process.cwd());
const tarballs = tarballsOf(version);

const found = readdirSync(folder).toSorted();
const wanted = Object.values(tarballs).toSorted();
if (found.join() !== wanted.join()) {
  throw new Error(`${folder} must have ${wanted.join(' and ')}, and has ${found.join(', ') || 'nothing'}`);
}

for (const [name, file] of Object.entries(tarballs)) {
  if (isPublished(name)) {
    process.stdout.write(`${name}@${version} is published already\n`);
    continue;
  }
  // npm wants a tag for a version that is none for everybody, such as 1.0.0-rc.1.
  const tag = version.includes('-') ? ['--tag', 'next'] : [];
  const args = ['publish', resolve(join(folder, file)), ...tag, ...options];
  const { status } = spawnSync('npm', args, { stdio: ['ignore', 'inherit', 'inherit'] });
  if (status !== 0) throw new Error(`npm did not publish ${name}@${version}`);
}

function isPublished(name: string): boolean {
  const { stdout } = spawnSync('npm', ['view', `${name}@${version}`, 'version'], { encoding: 'utf8' });
  return stdout.trim() === version;
}
