import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { Cluster } from '../../harness/cluster.ts';
import { ownAddress } from '../../harness/addresses.ts';
import { eventually } from '../../harness/eventually.ts';
import { type BuiltImage, ImageBuilder } from '../../harness/image-builder.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { generateSecret } from '../../../src/contract/index.ts';
import { type PodSpec, runPod } from '../../harness/pod.ts';
import type { TestProcess } from '../../harness/process.ts';
import { Started } from '../../harness/started.ts';

interface BillOfMaterials {
  readonly bomFormat: string;
  readonly components: readonly { readonly name: string; readonly version: string; readonly purl: string }[];
}

const started = new Started();
let builder: ImageBuilder;
let cluster: Cluster;

// Without its tools the images cannot be built: the gate installs them.
const missing = ['/usr/bin/buildah', '/bin/busybox'].filter((path) => !existsSync(path));

beforeAll(async () => {
  if (missing.length > 0) return;
  builder = await ImageBuilder.create(started);
  cluster = await Cluster.connect(inject('kubeconfig'));
  started.add(() => cluster.close());
}, 300_000);
afterAll(() => started.stop());

const billOf = ({ folder }: BuiltImage): BillOfMaterials =>
  JSON.parse(readFileSync(join(folder, 'app/sbom.cdx.json'), 'utf8')) as BillOfMaterials;

/** Runs it as the charts do: as its user, with a root that cannot be written and an empty /tmp. */
function start({ folder, config }: BuiltImage, env: Readonly<Record<string, string>>): Promise<TestProcess> {
  const spec: PodSpec = {
    volumes: [{ name: 'tmp', emptyDir: {} }],
    containers: [
      {
        args: config.Cmd ?? [],
        env: Object.entries(env).map(([name, value]) => ({ name, value })),
        volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }],
      },
    ],
  };
  const root = { kind: 'image', folder, entrypoint: config.Entrypoint, cwd: config.WorkingDir } as const;
  return runPod(started, { cluster, kubeconfig: inject('kubeconfig'), namespace: 'default', spec, root, hosts: {} });
}

/** Of the process in the image: its user, and whether any mount of its root can be written. */
function processOf({ pid }: TestProcess): { user: string | undefined; isRootReadOnly: boolean } {
  const user = /^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  const root = readFileSync(`/proc/${pid}/mounts`, 'utf8')
    .split('\n')
    .find((line) => line.split(' ')[1] === '/');
  return { user, isRootReadOnly: root?.split(' ')[3]?.split(',').includes('ro') ?? false };
}

describe.skipIf(missing.length > 0)('the image', () => {
  it('of the gateway runs as no root on a read-only root, with nothing but Node and the gateway', async () => {
    const image = await builder.build('gateway.Dockerfile');
    expect(image.config).toMatchObject({ User: '65532:65532', Cmd: ['gateway'], WorkingDir: '/app' });
    expect(globSync('{bin,usr/bin}/*', { cwd: image.folder })).toEqual([]);
    expect(globSync('app/**/*.{ts,test.js}', { cwd: image.folder, exclude: ['app/node_modules'] })).toEqual([]);
    expect(globSync('app/node_modules/{typescript,vitest,node}', { cwd: image.folder })).toEqual([]);

    const packages = globSync('app/node_modules/{*,@*/*}/package.json', { cwd: image.folder }).map(
      (path) => JSON.parse(readFileSync(join(image.folder, path), 'utf8')) as { name: string; version: string },
    );
    const { bomFormat, components } = billOf(image);
    expect(bomFormat).toBe('CycloneDX');
    const listed = components.map(({ purl }) => decodeURIComponent(purl));
    expect(packages.length).toBeGreaterThan(50);
    expect(packages.filter(({ name, version }) => !listed.includes(`pkg:npm/${name}@${version}`))).toEqual([]);

    const address = ownAddress(started);
    const gateway = await start(image, {
      REDIS_URL: inject('redisUrl'),
      LEVELHOOK_KEY_PREFIX: uniqueName('image'),
      LEVELHOOK_RECONCILE_FUNCTIONS: 'none',
      LEVELHOOK_CLUSTER_ID: 'image',
      LEVELHOOK_LEASE: 'off',
      LEVELHOOK_HOST: address,
    });
    const { url } = await gateway.line(({ msg }) => msg === 'listening');
    expect(processOf(gateway)).toEqual({ user: '65532', isRootReadOnly: true });
    await eventually(async () => {
      const answer = await fetch(`${String(url)}/readyz`);
      if (!answer.ok) throw new Error(`${await answer.text()}\n${gateway.output}`);
    });
    expect((await fetch(`${String(url)}/livez`)).status).toBe(200);
    expect(await gateway.kill('SIGTERM')).toBe(0);
  }, 600_000);

  it('of a function is one file, and answers signed requests', async () => {
    const image = await builder.build('function.Dockerfile', { FUNCTION: 'examples/01-minimal' });
    expect(image.config).toMatchObject({ User: '65532:65532', WorkingDir: '/app' });
    expect(globSync('app/*', { cwd: image.folder }).toSorted()).toEqual(['app/function.mjs', 'app/sbom.cdx.json']);
    const names = billOf(image).components.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['hono', 'undici', 'yaml']));
    expect(names).not.toContain('bullmq');

    const address = ownAddress(started);
    const served = await start(image, { LEVELHOOK_SIGNING_SECRETS: generateSecret(), HOST: address, PORT: '8080' });
    await served.line(({ msg }) => msg === 'listening');
    expect(processOf(served)).toEqual({ user: '65532', isRootReadOnly: true });
    expect((await fetch(`http://${address}:8080/`)).status).toBe(401);
    expect(await served.kill('SIGTERM')).toBe(0);
  }, 600_000);
});
