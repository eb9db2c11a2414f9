import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync } from 'node:fs';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { withBuildLock } from '../../src/testing/binaries/build-lock.ts';
import { cacheDirectory } from '../../src/testing/binaries/resolve-binary.ts';
import { packagePath } from '../../src/testing/package-root.ts';

/**
 * The folder `node_modules` with what `infra/tools` names: runtimes of platforms and checks of packages. npm installs
 * them at the first call, by the lock file, into the cache directory of the tests (140 MB from the registry).
 */
export async function npmTools(): Promise<string> {
  const source = packagePath('infra/tools');
  const lock = await readFile(join(source, 'package-lock.json'));
  const version = createHash('sha256').update(lock).digest('hex').slice(0, 12);
  const folder = join(cacheDirectory(process.env), `npm-tools-${version}`);
  const done = join(folder, 'installed');
  await withBuildLock(dirname(folder), 'npm-tools', {}, async () => {
    if (existsSync(done)) return;
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    for (const name of ['package.json', 'package-lock.json']) await cp(join(source, name), join(folder, name));
    // The programs are files of packages. Install scripts would only link them.
    await promisify(execFile)('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder });
    await writeFile(done, '');
  });
  return join(folder, 'node_modules');
}

const PROGRAMS = {
  bun: '@oven/bun-*/bin/bun',
  deno: '@deno/*/deno',
  workerd: '@cloudflare/workerd-*/bin/workerd',
} as const;

/** The path of a runtime. npm installs the one package that fits this machine. */
export async function npmProgram(name: keyof typeof PROGRAMS): Promise<string> {
  const folder = await npmTools();
  const [found] = globSync(PROGRAMS[name], { cwd: folder });
  if (found === undefined) throw new Error(`there is no ${name} for this machine in ${folder}`);
  return join(folder, found);
}
