import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { withBuildLock } from '../../../../src/testing/binaries/build-lock.ts';
import { cacheDirectory } from '../../../../src/testing/binaries/resolve-binary.ts';

/**
 * The operator's program, built once for each version of its sources, into the directory where the control plane's
 * programs are.
 */
export async function buildOperator(onProgress: (line: string) => void): Promise<string> {
  const cwd = import.meta.dirname;
  const hash = createHash('sha256');
  for (const file of ['main.go', 'webhook.go', 'go.mod', 'go.sum']) hash.update(readFileSync(join(cwd, file)));
  const cache = cacheDirectory(process.env);
  const name = `bench-controller-runtime-${hash.digest('hex').slice(0, 12)}`;
  const target = join(cache, name);
  if (existsSync(target)) return target;
  await withBuildLock(cache, name, { onProgress }, async () => {
    if (existsSync(target)) return;
    onProgress('building the operator with controller-runtime, about a minute, once');
    const output = `${target}.${process.pid}`;
    // As for the control plane's programs: go.mod must not change, and a go.work above is ignored.
    const env = {
      ...process.env,
      HOME: process.env['HOME'] || homedir(),
      GOFLAGS: '-mod=readonly -buildvcs=false',
      GOWORK: 'off',
    };
    await promisify(execFile)('go', ['build', '-ldflags', '-s -w', '-o', output, '.'], { cwd, env });
    await rename(output, target);
  });
  return target;
}
