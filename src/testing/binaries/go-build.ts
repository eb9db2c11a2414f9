import { spawn } from 'node:child_process';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

import { systemClock } from '../../core/clock.ts';
import { UserError } from '../../core/errors.ts';
import { packagePath } from '../package-root.ts';
import { findOnPath } from '../process/find-on-path.ts';
import type { BinaryName } from './binary-name.ts';
import type { Environment } from '../process/environment.ts';
import type { ResolveBinaryOptions } from './binary-options.ts';
import { goVersion, kubernetesVersion, kwokVersion } from './versions.ts';

const tellEveryMs = 15_000;
const kubernetesFlags = ['-s', '-w', ...versionFlags()].join(' ');

/** The duration of the first build of each program on two cores, shown while it runs. */
const duration: Record<BinaryName, string> = {
  etcd: 'about a minute',
  'kube-apiserver': 'about three minutes',
  'kube-controller-manager': 'about a minute',
  'kube-scheduler': 'about a minute',
  kubectl: 'about a minute',
  kwok: 'about two minutes',
  'e2e.test': 'about three minutes',
  ginkgo: 'less than a minute',
};

/**
 * Builds a program from the Go module that pins it and puts it at `target`, whole or not at all. Throws `UserError`
 * when there is no Go on PATH or the build fails.
 */
export async function buildWithGo(name: BinaryName, target: string, options: ResolveBinaryOptions): Promise<void> {
  const env = options.env ?? process.env;
  const go = findOnPath(['go'], env['PATH']);
  if (go === undefined) {
    throw new UserError(
      `${name} is not on this machine and neither is Go to build it with: set KUBEBUILDER_ASSETS to a directory that ` +
        `holds ${name}, or install Go ${goVersion} and put it on PATH`,
    );
  }
  const temporary = await mkdtemp(join(dirname(target), `.${name}-`));
  const output = join(temporary, name);
  const startedAt = systemClock.now();
  const seconds = (): number => Math.round((systemClock.now() - startedAt) / 1_000);
  options.onProgress?.(`building ${name} with Go, ${duration[name]}, once`);
  const timer = setInterval(() => options.onProgress?.(`building ${name}: ${seconds()} s`), tellEveryMs);
  try {
    await runGo(go, name, output, env, options.signal);
    await rename(output, target);
    options.onProgress?.(`built ${name} in ${seconds()} s`);
  } finally {
    clearInterval(timer);
    await rm(temporary, { recursive: true, force: true });
  }
}

/** The module in infra/control-plane for `go` to run in, and its arguments. */
function goCommand(name: BinaryName, output: string): { module: string; args: string[] } {
  const build = ['build', '-o', output, '-ldflags'];
  switch (name) {
    case 'etcd':
      return { module: 'module-etcd', args: [...build, '-s -w', 'go.etcd.io/etcd/server/v3'] };
    case 'kwok':
      // No module of ours: `go install` builds it with exactly the dependencies that it pins itself.
      return {
        module: '.',
        args: ['install', '-ldflags', '-s -w', `sigs.k8s.io/kwok/cmd/kwok@v${kwokVersion}`],
      };
    case 'ginkgo':
      return { module: 'module-kubernetes', args: ['build', '-o', output, 'github.com/onsi/ginkgo/v2/ginkgo'] };
    case 'e2e.test':
      return {
        module: 'module-kubernetes',
        args: ['test', '-c', '-o', output, '-ldflags', kubernetesFlags, 'k8s.io/kubernetes/test/e2e'],
      };
    case 'kube-apiserver':
    case 'kube-controller-manager':
    case 'kube-scheduler':
    case 'kubectl':
      return { module: 'module-kubernetes', args: [...build, kubernetesFlags, `k8s.io/kubernetes/cmd/${name}`] };
  }
}

/** Without these the programs would call themselves v0.0.0-master. */
function versionFlags(): string[] {
  const [major, minor] = kubernetesVersion.split('.');
  return ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'].flatMap((variable) => [
    `-X ${variable}.gitVersion=v${kubernetesVersion}`,
    `-X ${variable}.gitMajor=${major}`,
    `-X ${variable}.gitMinor=${minor}`,
    `-X ${variable}.gitTreeState=clean`,
  ]);
}

async function runGo(
  go: string,
  name: BinaryName,
  output: string,
  env: Environment,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { module, args } = goCommand(name, output);
  const child = spawn(go, args, {
    cwd: packagePath('infra', 'control-plane', module),
    env: {
      ...env,
      // Go refuses to run without a place for its caches.
      HOME: env['HOME'] || homedir(),
      GOBIN: dirname(output),
      // Builds our modules unchanged: no go.sum is rewritten, and no go.work in a parent directory applies. The commit
      // of the repository around them is not stamped into programs that are not made from it.
      GOFLAGS: '-mod=readonly -buildvcs=false',
      GOWORK: 'off',
    },
    stdio: ['ignore', 'ignore', 'pipe'],
    killSignal: 'SIGINT',
    ...(signal && { signal }),
  });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-4_000);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    // An abort is an error too, but then the process still runs, and would go on writing during the cleanup.
    child.once('error', (error) => child.pid === undefined && reject(error));
    child.once('close', resolve);
  });
  signal?.throwIfAborted();
  if (code !== 0) {
    throw new UserError(`Building ${name} with ${go} failed: ${errors.trim().split('\n').slice(-3).join(' | ')}`);
  }
}
