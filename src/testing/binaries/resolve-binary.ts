import { access, constants } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { UserError } from '../../core/errors.ts';
import { type BinaryName, isInEnvtestArchive } from './binary-name.ts';
import type { Environment } from '../process/environment.ts';
import type { ResolveBinaryOptions } from './binary-options.ts';
import { installFromEnvtest } from './envtest-archive.ts';
import { buildWithGo } from './go-build.ts';
import { withBuildLock } from './build-lock.ts';
import { targetPlatform } from './platform.ts';
import { installPublished } from './published-program.ts';
import { kubernetesVersion } from './versions.ts';

/**
 * Finds a program of the control plane and returns its path. It looks in this order, for each program separately: the
 * directory KUBEBUILDER_ASSETS, the cache directory (LEVELHOOK_ASSETS, else
 * `~/.cache/levelhook/assets/VERSION-OS-ARCH`), the published envtest archive (etcd, kube-apiserver and kubectl only),
 * Kubernetes' own downloads (its programs only), and a build with Go from the module in infra/control-plane, once, into
 * the cache directory.
 *
 * Throws `UserError` when the hash of a download differs from the published one, when there is no Go, or when a build
 * fails.
 */
export async function resolveBinary(name: BinaryName, options: ResolveBinaryOptions = {}): Promise<string> {
  const env = options.env ?? process.env;
  const cache = cacheDirectory(env);
  const cached = join(cache, name);
  const found = await firstExecutable([env['KUBEBUILDER_ASSETS'] && join(env['KUBEBUILDER_ASSETS'], name), cached]);
  if (found !== undefined) return found;

  const lockName = isInEnvtestArchive(name) ? 'envtest' : name;
  await withBuildLock(cache, lockName, options, async () => {
    // The previous holder of the lock may have made this very program.
    if ((await firstExecutable([cached])) !== undefined) return;
    if (isInEnvtestArchive(name) && (await installFromEnvtest(name, cache, options))) return;
    if (await installPublished(name, cached, options)) return;
    await buildWithGo(name, cached, options);
  });
  if ((await firstExecutable([cached])) === undefined) throw new UserError(`${cached} is not executable`);
  return cached;
}

/** The directory for fetched or built programs. */
export function cacheDirectory(env: Environment): string {
  const { os, arch } = targetPlatform();
  return (
    env['LEVELHOOK_ASSETS'] ||
    join(
      env['XDG_CACHE_HOME'] || join(env['HOME'] || homedir(), '.cache'),
      'levelhook',
      'assets',
      `${kubernetesVersion}-${os}-${arch}`,
    )
  );
}

async function firstExecutable(paths: readonly (string | undefined)[]): Promise<string | undefined> {
  for (const path of paths) {
    if (!path) continue;
    try {
      await access(path, constants.X_OK);
      return path;
    } catch {
      // Try the next candidate.
    }
  }
  return undefined;
}
