import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { chmod, lstat, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';

import { messageOf, UserError } from '../../core/errors.ts';
import { type BinaryName, envtestBinaries } from './binary-name.ts';
import { Downloader } from './downloader.ts';
import { type EnvtestArchive, findArchive, publishedIndex } from './envtest-index.ts';
import type { ResolveBinaryOptions } from './binary-options.ts';

/** Indexes that this process has failed to reach, so that the next program does not wait for them again. */
const unreachable = new Set<string>();

/**
 * Puts the programs of the published envtest archive into `cache`. Returns false if the archive cannot provide `name`:
 * no index is configured, the index cannot be reached, or it has no archive for this machine.
 *
 * Throws `UserError` when the hash of the archive differs from the index, because the user must know this.
 */
export async function installFromEnvtest(
  name: BinaryName,
  cache: string,
  options: ResolveBinaryOptions,
): Promise<boolean> {
  const env = options.env ?? process.env;
  const indexUrl = options.envtestIndex ?? env['LEVELHOOK_ENVTEST_INDEX'] ?? publishedIndex;
  if (!indexUrl || unreachable.has(indexUrl)) return false;

  const downloader = new Downloader(env, options.signal);
  const temporary = await mkdtemp(join(cache, '.envtest-'));
  try {
    const archive = findArchive(await downloader.text(indexUrl), indexUrl);
    if (!archive) {
      options.onProgress?.(`${indexUrl} has no archive for this machine`);
      return false;
    }
    options.onProgress?.(`downloading ${archive.url}`);
    const file = join(temporary, 'archive.tar.gz');
    await downloadChecked(downloader, archive, file);
    await install(file, join(temporary, 'extracted'), cache);
    return (await readdir(cache)).includes(name);
  } catch (error) {
    if (error instanceof UserError || options.signal?.aborted) throw error;
    unreachable.add(indexUrl);
    options.onProgress?.(`no envtest archive: ${messageOf(error)}`);
    return false;
  } finally {
    await rm(temporary, { recursive: true, force: true });
    await downloader.close();
  }
}

async function downloadChecked(downloader: Downloader, { url, hash }: EnvtestArchive, file: string): Promise<void> {
  const sha512 = createHash('sha512');
  const { body } = await downloader.stream(url);
  await pipeline(
    body,
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        sha512.update(chunk);
        yield chunk;
      }
    },
    createWriteStream(file),
  );
  const actual = sha512.digest('hex');
  if (actual !== hash) {
    throw new UserError(
      `${url} has the SHA-512 ${actual} where its index says ${hash}: nothing of it was kept; ` +
        'check the index, or set KUBEBUILDER_ASSETS',
    );
  }
}

/**
 * Extracts a verified archive with the machine's `tar`, and keeps the programs: regular files with their names only.
 */
async function install(file: string, directory: string, cache: string): Promise<void> {
  await mkdir(directory);
  // Published archives hold controller-tools/envtest/NAME.
  await promisify(execFile)('tar', ['-xzf', file, '-C', directory, '--strip-components=2']);
  for (const name of envtestBinaries) {
    const program = join(directory, name);
    const isProgram = await lstat(program).then(
      (found) => found.isFile(),
      () => false,
    );
    if (!isProgram) continue;
    await chmod(program, 0o755);
    await rename(program, join(cache, name));
  }
}
