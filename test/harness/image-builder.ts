import { execFile, execFileSync } from 'node:child_process';
import { chmod, copyFile, cp, mkdir, realpath, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { findOnPath } from '../../src/testing/process/find-on-path.ts';
import type { Started } from './started.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const AUTHORITIES = '/etc/ssl/certs/ca-certificates.crt';
const run = promisify(execFile);

export interface BuiltImage {
  /** Its unpacked root, which a test may change. */
  readonly folder: string;
  /** User, variables, entry point and folder, as OCI names them. */
  readonly config: {
    readonly User: string;
    readonly Env: readonly string[];
    readonly Entrypoint: readonly string[];
    readonly Cmd?: readonly string[];
    readonly WorkingDir: string;
  };
}

/**
 * Builds Dockerfiles by buildah, which needs no daemon, but root. The registries of the base images cannot be reached
 * everywhere, so their place take images of this machine's Node and C library with the same paths: one like distroless,
 * and one with busybox and npm in addition.
 */
export class ImageBuilder {
  readonly #store: readonly string[];

  private constructor(store: readonly string[]) {
    this.#store = store;
  }

  static async create(started: Started): Promise<ImageBuilder> {
    const folder = await started.directory();
    const store = ['--root', join(folder, 'store'), '--runroot', join(folder, 'run'), '--storage-driver', 'overlay'];
    const builder = new ImageBuilder(store);
    // Layers are mounted while containers exist.
    started.add(() => builder.#buildah(['rm', '--all']));
    const runtime = join(folder, 'runtime');
    const build = join(folder, 'build');
    for (const each of [runtime, build]) await makeRuntime(each);
    await addTools(build);
    await builder.#commit(runtime, 'localhost/run', []);
    const variables = ['PATH=/usr/bin:/bin:/nodejs/bin', `NODE_EXTRA_CA_CERTS=${AUTHORITIES}`];
    await builder.#commit(build, 'localhost/build', variables);
    return builder;
  }

  async build(dockerfile: string, args: Readonly<Record<string, string>> = {}): Promise<BuiltImage> {
    const given = { BUILD_IMAGE: 'localhost/build', RUN_IMAGE: 'localhost/run', ...args };
    const tag = dockerfile.toLowerCase();
    const file = `infra/images/${dockerfile}`;
    const named = Object.entries(given).map(([name, value]) => `--build-arg=${name}=${value}`);
    const how = ['--layers', '--isolation=chroot', '--format=oci', `--tag=${tag}`];
    await this.#buildah(['build', ...how, `--file=${file}`, `--ignorefile=${file}.dockerignore`, ...named, '.']);
    const container = (await this.#buildah(['from', `localhost/${tag}`])).trim();
    const folder = (await this.#buildah(['mount', container])).trim();
    const inspected = JSON.parse(await this.#buildah(['inspect', container])) as {
      OCIv1: { config: BuiltImage['config'] };
    };
    return { folder, config: inspected.OCIv1.config };
  }

  async #commit(folder: string, name: string, variables: readonly string[]): Promise<void> {
    const container = (await this.#buildah(['from', 'scratch'])).trim();
    await this.#buildah(['copy', container, folder, '/']);
    if (variables.length > 0) {
      await this.#buildah(['config', ...variables.flatMap((each) => ['--env', each]), container]);
    }
    await this.#buildah(['commit', '--rm', container, name]);
  }

  async #buildah(args: readonly string[]): Promise<string> {
    try {
      const { stdout } = await run('buildah', [...this.#store, ...args], { cwd: ROOT, maxBuffer: 64e6 });
      return stdout;
    } catch (error) {
      const { stderr = '' } = error as { stderr?: string };
      throw new Error(`buildah ${args.join(' ')}: ${stderr.slice(-4000)}`, { cause: error });
    }
  }
}

/** As distroless: Node, the libraries that it loads, certificates and users. */
async function makeRuntime(folder: string): Promise<void> {
  const node = await realpath(process.execPath);
  const libraries = [...execFileSync('ldd', [node], { encoding: 'utf8' }).matchAll(/(\/\S+)/g)].map(([path]) => path);
  const files = new Map([
    [node, '/nodejs/bin/node'],
    ...[AUTHORITIES, ...libraries].map((path) => [path, path] as const),
  ]);
  for (const [from, to] of files) {
    await mkdir(join(folder, dirname(to)), { recursive: true });
    await copyFile(await realpath(from), join(folder, to));
  }
  const users = [
    'root:x:0:0:root:/root:/sbin/nologin',
    'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin',
    '',
  ];
  await writeFile(join(folder, 'etc/passwd'), users.join('\n'));
  await mkdir(join(folder, 'tmp'));
  await chmod(join(folder, 'tmp'), 0o1777);
}

/** As Node's own image: a shell with the usual commands, and npm. */
async function addTools(folder: string): Promise<void> {
  for (const each of ['bin', 'root', 'usr/bin', 'usr/lib/node_modules']) {
    await mkdir(join(folder, each), { recursive: true });
  }
  await copyFile('/bin/busybox', join(folder, 'bin/busybox'));
  for (const name of execFileSync('/bin/busybox', ['--list'], { encoding: 'utf8' }).trim().split('\n')) {
    if (name !== 'busybox') await symlink('/bin/busybox', join(folder, 'bin', name));
  }
  await symlink('/bin/busybox', join(folder, 'usr/bin/env'));
  await symlink('/nodejs/bin/node', join(folder, 'usr/bin/node'));
  const npm = findOnPath(['npm'], process.env['PATH']);
  if (npm === undefined) throw new Error('npm is not on PATH');
  await cp(dirname(dirname(await realpath(npm))), join(folder, 'usr/lib/node_modules/npm'), { recursive: true });
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(folder, 'usr/bin/npm'));
}
