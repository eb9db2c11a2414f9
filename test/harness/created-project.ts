import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { packPackages, type PackedPackages, unpackInto } from '../../infra/checks/packed-packages.ts';

export const run = promisify(execFile);

/** Projects as `npm create levelhook` makes them, with the packages of this tree in place of those of the registry. */
export class CreatedProjects {
  readonly folder = mkdtempSync(join(tmpdir(), 'levelhook-create-'));
  readonly #packed: PackedPackages = packPackages(this.folder);
  readonly program = join(
    unpackInto(join(this.folder, 'npx'), 'create-levelhook', this.#packed.create),
    'create-levelhook.js',
  );

  /** Writes the files of a project. @returns its folder and what the program printed. */
  async write(name: string, ...flags: readonly string[]): Promise<{ folder: string; stdout: string }> {
    const folder = join(this.folder, name);
    const args = [this.program, folder, '--no-install', ...flags];
    // Node 20 does, as npm runs it on the machine of a newcomer.
    const { stdout } = await run(existsSync('/usr/bin/node') ? '/usr/bin/node' : process.execPath, args);
    const path = join(folder, 'package.json');
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as Record<string, Record<string, string>>;
    const { dependencies = {}, devDependencies = {} } = manifest;
    dependencies['@levelhook/function'] = `file:${this.#packed.function}`;
    devDependencies['levelhook'] = `file:${this.#packed.levelhook}`;
    writeFileSync(path, JSON.stringify(manifest));
    return { folder, stdout };
  }

  clean(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function npmInstall(folder: string): Promise<void> {
  await run('npm', ['install', '--no-audit', '--no-fund'], { cwd: folder });
}

/** @returns what it wrote. @throws Error with that when it fails. */
export function npm(folder: string, ...args: readonly string[]): string {
  const env = { ...process.env, NO_COLOR: '1' };
  const { output, status } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8', env });
  const text = output.join('');
  if (status !== 0) throw new Error(`npm ${args.join(' ')} failed (${status}):\n${text}`);
  return text;
}
