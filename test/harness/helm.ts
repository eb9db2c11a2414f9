import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { withBuildLock } from '../../src/testing/binaries/build-lock.ts';
import { cacheDirectory } from '../../src/testing/binaries/resolve-binary.ts';

const run = promisify(execFile);

/** Pins its dependencies itself, so that `go install` builds it with just those. */
const HELM = '4.3.1';

/** Modules that carry the definitions of their kinds, and the folder or file where. The sum database checks them. */
const DEFINITIONS = [
  ['knative.dev/serving@v0.51.0', 'config/core/300-resources/service.yaml'],
  ['github.com/kedacore/keda/v2@v2.21.0', 'config/crd/bases/keda.sh_scaledobjects.yaml'],
  ['github.com/prometheus-operator/prometheus-operator@v0.85.0', 'example/prometheus-operator-crd'],
] as const;

// As for the control plane's programs: a go.work above is ignored.
const goEnvironment = () => ({
  ...process.env,
  HOME: process.env['HOME'] || homedir(),
  GOFLAGS: '-mod=readonly -buildvcs=false',
  GOWORK: 'off',
});

/** The folder that has `helm`, which Go builds once, where the control plane's programs are. */
export async function helmFolder(onProgress: (line: string) => void): Promise<string> {
  const cache = cacheDirectory(process.env);
  const folder = join(cache, `helm-${HELM}`);
  const target = join(folder, 'helm');
  if (existsSync(target)) return folder;
  await withBuildLock(cache, `helm-${HELM}`, { onProgress }, async () => {
    if (existsSync(target)) return;
    onProgress(`building helm ${HELM} with Go, about three minutes, once`);
    const output = await mkdtemp(join(cache, '.helm-'));
    try {
      const env = { ...goEnvironment(), GOBIN: output };
      await run('go', ['install', '-ldflags', '-s -w', `helm.sh/helm/v4/cmd/helm@v${HELM}`], { env, cwd: output });
      await mkdir(folder, { recursive: true });
      await rename(join(output, 'helm'), target);
    } finally {
      await rm(output, { recursive: true, force: true });
    }
  });
  return folder;
}

/** Files with the definitions of Knative Serving, KEDA and the Prometheus operator, from their published modules. */
export async function foreignDefinitions(): Promise<string[]> {
  const files: string[] = [];
  for (const [module, path] of DEFINITIONS) {
    const { stdout } = await run('go', ['mod', 'download', '-json', module], { env: goEnvironment(), cwd: '/' });
    files.push(join((JSON.parse(stdout) as { Dir: string }).Dir, path));
  }
  return files;
}
