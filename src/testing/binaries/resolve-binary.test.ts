import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { access, chmod, constants, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { create } from 'tar';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { UserError } from '../../core/errors.ts';
import type { Environment } from '../process/environment.ts';
import { targetPlatform } from './platform.ts';
import { resolveBinary } from './resolve-binary.ts';

const { os, arch } = targetPlatform();
const noIndex = { envtestIndex: false, kubernetesDownloads: false } as const;

let directory: string;
let cache: string;
let env: Environment;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'levelhook-resolve-'));
  cache = join(directory, 'cache');
  env = { LEVELHOOK_ASSETS: cache, PATH: join(directory, 'bin'), LEVELHOOK_KUBERNETES_DOWNLOADS: '' };
});

afterEach(() => rm(directory, { recursive: true }));

async function program(path: string, script = '#!/bin/sh\n'): Promise<string> {
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, script, { mode: 0o755 });
  return path;
}

/** A fake `go` that records each call and creates the requested program after a moment. */
async function fakeGo(): Promise<{ calls(): Promise<string[]> }> {
  const log = join(directory, 'go-calls');
  await program(
    join(directory, 'bin', 'go'),
    `#!/bin/sh
PATH=/usr/bin:/bin
echo "$@" >> ${log}
sleep 0.3
if [ "$1" = install ]; then out=$GOBIN/kwok; else
  while [ "$1" != -o ]; do shift; done
  out=$2
fi
echo '#!/bin/sh' > "$out"
chmod 755 "$out"
`,
  );
  return { calls: async () => (await readFile(log, 'utf8')).trim().split('\n') };
}

describe('the order in which a program is looked for', () => {
  it('takes each from KUBEBUILDER_ASSETS if it is there, and the others from the cache directory', async () => {
    const assets = join(directory, 'assets');
    const etcd = await program(join(assets, 'etcd'));
    await program(join(cache, 'etcd'));
    const kwok = await program(join(cache, 'kwok'));
    const both = { ...noIndex, env: { ...env, KUBEBUILDER_ASSETS: assets } };

    expect(await resolveBinary('etcd', both)).toBe(etcd);
    expect(await resolveBinary('kwok', both)).toBe(kwok);
  });

  it('keeps its cache below XDG_CACHE_HOME, else below HOME', async () => {
    const name = `1.36.3-${os}-${arch}`;
    const xdg = await program(join(directory, 'xdg', 'levelhook', 'assets', name, 'etcd'));
    const home = await program(join(directory, 'home', '.cache', 'levelhook', 'assets', name, 'etcd'));
    const HOME = join(directory, 'home');

    expect(await resolveBinary('etcd', { env: { HOME, XDG_CACHE_HOME: join(directory, 'xdg') } })).toBe(xdg);
    expect(await resolveBinary('etcd', { env: { HOME } })).toBe(home);
  });

  it('builds with Go what it does not find, and says so', async () => {
    const go = await fakeGo();
    const lines: string[] = [];
    const onProgress = (line: string): number => lines.push(line);

    for (const name of ['etcd', 'kube-scheduler', 'kwok', 'e2e.test', 'ginkgo'] as const) {
      const path = await resolveBinary(name, { ...noIndex, env, onProgress });
      expect(path).toBe(join(cache, name));
      await access(path, constants.X_OK);
    }
    expect(await go.calls()).toEqual([
      expect.stringMatching(/^build .* go\.etcd\.io\/etcd\/server\/v3$/),
      expect.stringMatching(
        /^build .*-X k8s\.io\/component-base\/version\.gitVersion=v1\.36\.3.* k8s\.io\/kubernetes\/cmd\/kube-scheduler$/,
      ),
      expect.stringMatching(/^install .* sigs\.k8s\.io\/kwok\/cmd\/kwok@v0\.8\.0$/),
      expect.stringMatching(/^test -c .* k8s\.io\/kubernetes\/test\/e2e$/),
      expect.stringMatching(/^build .* github\.com\/onsi\/ginkgo\/v2\/ginkgo$/),
    ]);
    expect(lines.slice(0, 2)).toEqual([
      'building etcd with Go, about a minute, once',
      expect.stringMatching(/^built etcd in \d+ s$/),
    ]);
    expect((await readdir(cache)).toSorted()).toEqual(['e2e.test', 'etcd', 'ginkgo', 'kube-scheduler', 'kwok']);
  });

  it('builds once when several ask at the same time', async () => {
    const go = await fakeGo();
    const asked = Array.from({ length: 4 }, () => resolveBinary('kwok', { ...noIndex, env }));
    expect(new Set(await Promise.all(asked)).size).toBe(1);
    expect(await go.calls()).toHaveLength(1);
  });

  it('reports a build that fails with the end of what Go said, and leaves nothing behind', async () => {
    await program(join(directory, 'bin', 'go'), '#!/bin/sh\necho "go.mod requires go >= 1.26.0" >&2\nexit 1\n');
    const failed = resolveBinary('kwok', { ...noIndex, env });
    await expect(failed).rejects.toThrow(UserError);
    await expect(failed).rejects.toThrow(/^Building kwok with .* failed: go\.mod requires go >= 1\.26\.0$/);
    expect(await readdir(cache)).toEqual([]);
  });

  it('stops a build when aborted', async () => {
    await program(join(directory, 'bin', 'go'), '#!/bin/sh\nexec /bin/sleep 60\n');
    const signal = AbortSignal.timeout(200);
    await expect(resolveBinary('kwok', { ...noIndex, env, signal })).rejects.toThrow(/aborted/);
    expect(await readdir(cache)).toEqual([]);
  });

  it('says what to do when there is no Go', async () => {
    const failed = resolveBinary('kube-apiserver', { ...noIndex, env });
    await expect(failed).rejects.toThrow(UserError);
    await expect(failed).rejects.toThrow(
      'kube-apiserver is not on this machine and neither is Go to build it with: set KUBEBUILDER_ASSETS to a directory ' +
        'that holds kube-apiserver, or install Go 1.26 and put it on PATH',
    );
  });
});

describe('the published envtest archive', () => {
  let server: Server;
  let origin: string;
  let archive: Buffer;
  let requests: string[];
  let hash: string;
  let versions: string[];

  beforeEach(async () => {
    const content = join(directory, 'content');
    for (const name of ['etcd', 'kube-apiserver', 'kubectl', 'README']) {
      await program(join(content, 'controller-tools', 'envtest', name), `#!/bin/sh\necho ${name} from the archive\n`);
    }
    await chmod(join(content, 'controller-tools', 'envtest', 'etcd'), 0o644);
    const file = join(directory, 'archive.tar.gz');
    await create({ gzip: true, file, cwd: content }, ['controller-tools']);
    archive = await readFile(file);
    hash = createHash('sha512').update(archive).digest('hex');
    versions = ['v1.36.0'];
    requests = [];
    server = createServer((request, response) => {
      requests.push(request.url ?? '');
      if (request.url === '/index.yaml') return response.end(index());
      if (request.url?.endsWith('.tar.gz')) return response.writeHead(302, { location: '/moved' }).end();
      if (request.url === '/moved') return response.end(archive);
      return response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });

  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  function index(): string {
    const lines = versions.map((version) => {
      const name = `envtest-${version}-${os}-${arch}.tar.gz`;
      return `  ${version}:\n    ${name}:\n      hash: ${hash}\n      selfLink: ${origin}/${name}\n`;
    });
    return `releases:\n${lines.join('')}`;
  }

  it('is downloaded, checked and unpacked once for all programs that it holds', async () => {
    const options = { env: { ...env, LEVELHOOK_ENVTEST_INDEX: `${origin}/index.yaml` } };
    const etcd = await resolveBinary('etcd', options);
    expect(await resolveBinary('kubectl', options)).toBe(join(cache, 'kubectl'));

    expect(await readFile(etcd, 'utf8')).toContain('etcd from the archive');
    await access(etcd, constants.X_OK);
    expect((await readdir(cache)).toSorted()).toEqual(['etcd', 'kube-apiserver', 'kubectl']);
    expect(requests).toEqual(['/index.yaml', `/envtest-v1.36.0-${os}-${arch}.tar.gz`, '/moved']);
  });

  it('is that of the newest patch of our minor version', async () => {
    versions = ['v1.36.0', 'v1.36.10', 'v1.36.9', 'v1.36.11-rc.0', 'v1.37.0'];
    await resolveBinary('etcd', { env, envtestIndex: `${origin}/index.yaml` });
    expect(requests[1]).toBe(`/envtest-v1.36.10-${os}-${arch}.tar.gz`);
  });

  it('is refused, and nothing of it kept, when its hash is not that of the index', async () => {
    hash = hash.replace(/^./, (digit) => (digit === '0' ? '1' : '0'));
    await fakeGo();
    const failed = resolveBinary('etcd', { env, envtestIndex: `${origin}/index.yaml` });
    await expect(failed).rejects.toThrow(UserError);
    await expect(failed).rejects.toThrow(/has the SHA-512 .* where its index says .* nothing of it was kept/);
    expect(await readdir(cache)).toEqual([]);
  });

  it('is done without when it is not for this machine, or the index is a login page', async () => {
    const go = await fakeGo();
    versions = ['v1.35.0'];
    await resolveBinary('etcd', { env, envtestIndex: `${origin}/index.yaml` });
    versions = [];
    await resolveBinary('kubectl', { env, envtestIndex: `${origin}/index.yaml` });
    expect(await go.calls()).toHaveLength(2);
  });

  it('is done without when its index cannot be reached, and not asked for again', async () => {
    const go = await fakeGo();
    const lines: string[] = [];
    const options = {
      env,
      envtestIndex: `${origin}/nothing-here.yaml`,
      onProgress: (line: string): number => lines.push(line),
    };
    await resolveBinary('etcd', options);
    await resolveBinary('kubectl', options);
    expect(requests).toEqual(['/nothing-here.yaml']);
    expect(lines[0]).toBe(`no envtest archive: ${origin}/nothing-here.yaml was answered with 404`);
    expect(await go.calls()).toHaveLength(2);
  });

  it('gives up on a server that does not accept connections within seconds', async () => {
    await fakeGo();
    // TEST-NET-1: its packets get lost, or there is no route.
    const startedAt = performance.now();
    await resolveBinary('etcd', { env, envtestIndex: 'http://192.0.2.1/index.yaml' });
    // Without a limit of the connection it would take 15 s.
    expect(performance.now() - startedAt).toBeLessThan(14_000);
  });

  it('is never asked for what it does not hold', async () => {
    await fakeGo();
    await resolveBinary('kwok', { env, envtestIndex: `${origin}/index.yaml` });
    expect(requests).toEqual([]);
  });
});

describe("Kubernetes' own downloads", () => {
  const partOf = join('cache', 'kube-controller-manager.part');
  const PATH = `/v1.36.3/bin/${os}/${arch}/kube-controller-manager`;
  const program = Buffer.from(`#!/bin/sh\necho ${'published '.repeat(1000)}\n`);
  let server: Server;
  let options: { env: Environment; envtestIndex: false; onProgress: (line: string) => void };
  let requests: string[];
  let lines: string[];
  let hash: string;
  /** The bytes after which the connection breaks. */
  let breaksAfter: number;

  beforeEach(async () => {
    requests = [];
    lines = [];
    breaksAfter = Infinity;
    hash = createHash('sha256').update(program).digest('hex');
    server = createServer((request, response) => {
      const { range } = request.headers;
      requests.push(`${request.url}${range === undefined ? '' : ` ${range}`}`);
      if (request.url === `${PATH}.sha256`) return response.end(hash);
      if (request.url !== PATH) return response.writeHead(404).end();
      const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0);
      if (from >= program.length) return response.writeHead(416).end();
      response.writeHead(range === undefined ? 200 : 206, { 'content-length': program.length - from });
      if (breaksAfter === Infinity) return response.end(program.subarray(from));
      response.write(program.subarray(from, breaksAfter));
      // The connection breaks once the client has kept something of it.
      const timer = setInterval(() => {
        const size = statSync(join(directory, partOf), { throwIfNoEntry: false })?.size ?? 0;
        if (size > 0) clearInterval(timer);
        if (size > 0) response.destroy();
      }, 10);
      return undefined;
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    // A server of its own for each test: one that fails is not asked again.
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const onProgress = (line: string): void => void lines.push(line);
    options = { env: { ...env, LEVELHOOK_KUBERNETES_DOWNLOADS: `${origin}/` }, envtestIndex: false, onProgress };
  });

  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  it('are taken before a build, with their hash', async () => {
    const path = await resolveBinary('kube-controller-manager', options);
    expect(await readFile(path)).toEqual(program);
    await access(path, constants.X_OK);
    expect(requests).toEqual([`${PATH}.sha256`, PATH]);
    expect(lines).toEqual([expect.stringMatching(/^downloading http:\S+\/kube-controller-manager$/)]);
    expect(await readdir(cache)).toEqual(['kube-controller-manager']);
  });

  it('are continued where they were broken off, and built where they cannot be reached', async () => {
    const go = await fakeGo();
    breaksAfter = 4000;
    await resolveBinary('kube-controller-manager', options);
    expect(await go.calls()).toHaveLength(1);
    const { length } = await readFile(join(directory, partOf));
    expect(length).toBeGreaterThan(0);
    await rm(join(cache, 'kube-controller-manager'));
    requests = [];
    breaksAfter = Infinity;
    // The same server under another name, as another process would ask it.
    const again = {
      ...options,
      kubernetesDownloads: options.env['LEVELHOOK_KUBERNETES_DOWNLOADS']?.slice(0, -1) ?? '',
    };
    expect(await readFile(await resolveBinary('kube-controller-manager', again))).toEqual(program);
    expect(requests).toEqual([`${PATH}.sha256`, `${PATH} bytes=${length}-`]);
    expect(await go.calls()).toHaveLength(1);
  });

  it('are refused with another hash, and nothing of them is kept', async () => {
    hash = hash.replace(/^./, (digit) => (digit === '0' ? '1' : '0'));
    const failed = resolveBinary('kube-controller-manager', options);
    await expect(failed).rejects.toThrow(UserError);
    await expect(failed).rejects.toThrow(/has the SHA-256 .* where the file beside it says .* nothing of it was kept/);
    expect(await readdir(cache)).toEqual([]);
  });

  it('begin anew when the part that is here is longer than the whole', async () => {
    await mkdir(cache);
    await writeFile(join(directory, partOf), Buffer.concat([program, program]));
    expect(await readFile(await resolveBinary('kube-controller-manager', options))).toEqual(program);
    expect(requests).toHaveLength(3);
  });

  it('are done without when they are not for this machine, or the hash is a login page', async () => {
    const go = await fakeGo();
    await resolveBinary('kwok', options);
    expect(requests).toEqual([]);
    hash = '<html>login</html>';
    await resolveBinary('kube-controller-manager', options);
    expect(await go.calls()).toHaveLength(2);
    expect(lines).toContainEqual(expect.stringMatching(/^no download of kube-controller-manager: .* is not the hash/));
  });
});
