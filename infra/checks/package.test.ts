import { execFileSync } from 'node:child_process';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { tarballsOf } from '../release/tarballs.ts';
import { currentVersion } from '../release/versions.ts';
import { exportedNames } from './exported-names.ts';
import { linkInto, type PackedPackages, packPackages, sizeOf, unpackInto } from './packed-packages.ts';
import { repositoryRoot, runNode } from './temp-repository.ts';

const packageJson = z
  .object({
    bin: z.record(z.string(), z.string()),
    dependencies: z.record(z.string(), z.string()),
    exports: z.record(z.string(), z.union([z.string(), z.object({ types: z.string(), default: z.string() })])),
  })
  .parse(JSON.parse(readFileSync(join(repositoryRoot, 'package.json'), 'utf8')));

/** `./function` in package.json, `levelhook/function` in an import. */
const entries = Object.entries(packageJson.exports).flatMap(([path, target]) =>
  typeof target === 'string' ? [] : [{ name: path.replace('.', 'levelhook'), types: target.types }],
);

const pinnedPath = join(import.meta.dirname, 'public-interface.json');
const readPinned = (): Record<string, string[]> =>
  z.record(z.string(), z.array(z.string())).parse(JSON.parse(readFileSync(pinnedPath, 'utf8')));

/** Of what npm installs: the package and hono. */
const MAX_INSTALLED = 3_000_000;

const publishedSchema = z.object({
  name: z.string(),
  version: z.string(),
  engines: z.object({ node: z.string() }),
  repository: z.object({ type: z.string(), url: z.string() }),
  publishConfig: z.object({ access: z.string(), provenance: z.boolean() }),
});
const sdkManifestSchema = z.object({
  dependencies: z.record(z.string(), z.string()),
  peerDependencies: z.record(z.string(), z.string()),
  peerDependenciesMeta: z.record(z.string(), z.object({ optional: z.literal(true) })),
  exports: z.record(z.string(), z.union([z.string(), z.object({ types: z.string() })])),
});
/** `levelhook/function/node` is `@levelhook/function/node`. */
const SDK_NAMES = Object.keys(readPinned()).filter((name) => name.startsWith('levelhook/function'));

let workspace: string;
let packed: PackedPackages;
let consumer: string;
let installed: string;
let createInstalled: string;
let sdkConsumer: string;
let sdkInstalled: string;
let sdkManifest: z.infer<typeof sdkManifestSchema>;

// Unpacking a package and linking its dependencies leaves the same files as `npm install`, without the network.
beforeAll(() => {
  workspace = mkdtempSync(join(tmpdir(), 'levelhook-package-'));
  packed = packPackages(workspace);
  consumer = join(workspace, 'consumer');
  installed = unpackInto(consumer, 'levelhook', packed.levelhook);
  // Only dependencies: whatever the package takes from devDependencies must fail here. @types/node is the consumer's.
  linkInto(consumer, [...Object.keys(packageJson.dependencies), '@types/node']);
  sdkConsumer = join(workspace, 'sdk-consumer');
  sdkInstalled = unpackInto(sdkConsumer, '@levelhook/function', packed.function);
  createInstalled = unpackInto(join(workspace, 'create-consumer'), 'create-levelhook', packed.create);
  sdkManifest = sdkManifestSchema.parse(JSON.parse(readFileSync(join(sdkInstalled, 'package.json'), 'utf8')));
  linkInto(sdkConsumer, Object.keys(sdkManifest.dependencies));
  for (const each of [consumer, sdkConsumer]) {
    writeFileSync(join(each, 'package.json'), JSON.stringify({ type: 'module' }));
  }
}, 300_000);

afterAll(() => rmSync(workspace, { recursive: true, force: true }));

test('what is packed are the packages that a release publishes, of one version and one repository', () => {
  const version = currentVersion(repositoryRoot);
  const folders = [installed, sdkInstalled, createInstalled];
  const manifests = folders.map((folder) =>
    publishedSchema.parse(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))),
  );
  const files = Object.values(packed as unknown as Record<string, string>).map((file) => basename(file));
  expect(Object.fromEntries(manifests.map(({ name }, at) => [name, files[at]]))).toEqual(tarballsOf(version));
  for (const [at, manifest] of manifests.entries()) {
    expect(manifest.version).toBe(version);
    expect(manifest.publishConfig).toEqual({ access: 'public', provenance: true });
    expect(manifest.repository.url).toBe(manifests[0]?.repository.url);
    // The changes of the third are those of the projects that it writes.
    const changes = manifest.name === 'create-levelhook' ? undefined : join(folders[at] ?? '', 'CHANGELOG.md');
    if (changes) expect(readFileSync(changes, 'utf8')).toContain(`\n## ${version}\n`);
  }
});

test('the gateway needs Node 24, and the SDK the oldest Node that its client for the cache runs on', () => {
  const [gateway, sdk] = [installed, sdkInstalled].map(
    (folder) => publishedSchema.parse(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))).engines.node,
  );
  expect({ gateway, sdk }).toEqual({ gateway: '>=24', sdk: '>=22.19.0' });
});

test('the package holds no sources and no tests', () => {
  const strangers = globSync('**/*', { cwd: installed }).filter(
    (path) =>
      /[.]test[.]|^(?:src|test|functions|dist\/(?:test|infra|function))(?:\/|$)/.test(path) ||
      /(?<![.]d)[.]ts$/.test(path),
  );
  expect(strangers).toEqual([]);
});

test('the package holds every Lua file', () => {
  const sources = globSync('{src,functions}/**/*.lua', { cwd: repositoryRoot }).toSorted();
  expect(globSync('**/*.lua', { cwd: join(installed, 'dist') }).toSorted()).toEqual(sources);
});

test('the package holds what npm would pack, the definitions that the gateway needs and its roles among it', () => {
  const dryRun = execFileSync('npm', ['pack', '--dry-run', '--json', '--offline', '--ignore-scripts'], {
    cwd: repositoryRoot,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [listed] = z.array(z.object({ files: z.array(z.object({ path: z.string() })) })).parse(JSON.parse(dryRun));
  // The folder dist has the files of earlier builds.
  const expected = listed?.files.map(({ path }) => path).filter((path) => !path.startsWith('dist/'));
  const there = globSync('**/*', { cwd: installed, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(installed, join(parentPath, name)));
  expect(there.filter((path) => !path.startsWith('dist/')).toSorted()).toEqual(expected?.toSorted());
  expect(there).toEqual(
    expect.arrayContaining([
      'infra/crds/levelhook.dev_reconcilefunctions.yaml',
      'infra/rbac/gateway.yaml',
      'dist/functions/replicaset/rbac.yaml',
      'dist/functions/examples/02-custom-resource/site.crd.yaml',
    ]),
  );
});

test('the package holds each file and folder that its commands name, or that its documents say to apply', () => {
  const textOf = (pattern: string, relevant: (text: string) => string[]): string[] =>
    globSync(pattern, { cwd: installed }).flatMap((path) => relevant(readFileSync(join(installed, path), 'utf8')));
  const texts = [
    // Without comments, which only an author reads.
    ...textOf('dist/src/**/*.js', (code) => code.split('\n').filter((line) => !/^\s*(?:\/\/|\/?\*)/.test(line))),
    ...textOf('{*,infra/**/*}.md', (markdown) => markdown.match(/^```[^]*?^```/gm) ?? []),
  ];
  const named = new Set(texts.flatMap((text) => text.match(/\binfra\/[\w./-]*\w/g) ?? []));
  expect([...named]).toEqual(
    expect.arrayContaining(['infra/docs/settings.md', 'infra/crds', 'infra/rbac/signing-secret.yaml']),
  );
  expect([...named].filter((path) => !existsSync(join(installed, path)))).toEqual([]);
});

test.each(Object.entries(packageJson.bin))('the command %s answers --help', (_, path) => {
  expect(readFileSync(join(installed, path), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/);
  const { output, exitCode } = runNode(consumer, [join(installed, path), '--help'], { NODE_OPTIONS: '' });
  expect(output).toContain('Usage:');
  expect(exitCode).toBe(0);
});

test('levelhook types asks for the package that only it needs, and works with it', () => {
  const definition = join(installed, 'dist/functions/examples/02-custom-resource/site.crd.yaml');
  const args = [join(installed, packageJson.bin['levelhook'] ?? ''), 'types', definition, '--out', workspace];
  const { output, exitCode } = runNode(consumer, args, { NODE_OPTIONS: '' });
  expect(output.trim()).toBe(
    'levelhook: The package json-schema-to-typescript is missing: install it (npm install json-schema-to-typescript).',
  );
  expect(exitCode).toBe(1);
  linkInto(consumer, ['json-schema-to-typescript']);
  expect(runNode(consumer, args, { NODE_OPTIONS: '' })).toMatchObject({ exitCode: 0 });
});

test.each(entries)('$name can be imported, does nothing by itself, and has its declared values', ({ name, types }) => {
  const script = `console.log(JSON.stringify(Object.keys(await import('${name}'))))`;
  // Anything left running by the import (a timer, a connection) would keep the process from ending.
  const { output, exitCode } = runNode(consumer, ['--input-type=module', '--eval', script], { NODE_OPTIONS: '' });
  expect(exitCode, output).toBe(0);
  const declared = exportedNames(join(installed, types));
  expect(declared).toEqual(expect.arrayContaining(z.array(z.string()).parse(JSON.parse(output))));
});

test('a strict consumer type-checks', () => {
  const lines = entries.map(({ name }, index) => `import * as entry${index} from '${name}';\nvoid entry${index};`);
  writeFileSync(join(consumer, 'index.ts'), `${lines.join('\n')}\n`);
  const compilerOptions = { module: 'nodenext', target: 'es2024', strict: true, noEmit: true, types: ['node'] };
  writeFileSync(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['index.ts'] }));

  const { output } = runNode(consumer, [join(repositoryRoot, 'node_modules/typescript/bin/tsc'), '--pretty', 'false']);
  // Without skipLibCheck our declarations are checked, and so are those of dependencies, whose errors are not ours.
  const ours = output.split('\n').filter((line) => /^(?:index[.]ts|node_modules\/levelhook\/|error)/.test(line));
  expect(ours).toEqual([]);
});

test.skipIf(Object.keys(readPinned()).length === 0 && !updating())(
  'the public interface is the one written down (UPDATE_PUBLIC_INTERFACE=1 writes it)',
  () => {
    const actual = Object.fromEntries(entries.map(({ name, types }) => [name, exportedNames(join(installed, types))]));
    if (updating()) writeFileSync(pinnedPath, `${JSON.stringify(actual, null, 2)}\n`);
    expect(actual).toEqual(readPinned());
  },
);

describe('@levelhook/function', () => {
  test('hono is all that it installs, and both are under 3 MB', () => {
    expect(Object.keys(sdkManifest.dependencies)).toEqual(['hono']);
    expect(Object.keys(sdkManifest.peerDependenciesMeta).toSorted()).toEqual(Object.keys(sdkManifest.peerDependencies));
    const [own, hono] = [sizeOf(sdkInstalled), sizeOf(join(repositoryRoot, 'node_modules/hono'))];
    const inMb = (bytes: number): string => `${(bytes / 1e6).toFixed(2)} MB`;
    process.stdout.write(`@levelhook/function: ${inMb(own)}, with hono ${inMb(own + hono)}\n`);
    expect(own + hono).toBeLessThan(MAX_INSTALLED);
  });

  test('it has the public interface of levelhook/function, entry by entry', () => {
    const actual = Object.entries(sdkManifest.exports).flatMap(([name, target]) =>
      typeof target === 'string'
        ? []
        : [[name.replace('.', 'levelhook/function'), exportedNames(join(sdkInstalled, target.types))] as const],
    );
    expect(Object.fromEntries(actual)).toEqual(Object.fromEntries(SDK_NAMES.map((name) => [name, readPinned()[name]])));
  });

  const load = (name: string) =>
    runNode(sdkConsumer, ['--input-type=module', '--eval', `await import('${name}')`], { NODE_OPTIONS: '' });

  test('each entry but those for Node and webhooks loads with hono alone, and these with their peers', () => {
    const names = SDK_NAMES.map((name) => `@${name}`);
    const withoutPeers = names.filter((name) => load(name).exitCode === 0);
    const withPeers = ['@levelhook/function/node', '@levelhook/function/webhooks'];
    expect(withoutPeers).toEqual(names.filter((name) => !withPeers.includes(name)));
    linkInto(sdkConsumer, Object.keys(sdkManifest.peerDependencies));
    for (const name of withPeers) expect(load(name)).toMatchObject({ exitCode: 0 });
  });

  test('a strict consumer type-checks', () => {
    const lines = SDK_NAMES.map((name, at) => `import * as entry${at} from '@${name}';\nvoid entry${at};`);
    writeFileSync(join(sdkConsumer, 'index.ts'), `${lines.join('\n')}\n`);
    linkInto(sdkConsumer, ['@types/node']);
    const compilerOptions = { module: 'nodenext', target: 'es2024', strict: true, noEmit: true, types: ['node'] };
    writeFileSync(join(sdkConsumer, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['index.ts'] }));
    const { output } = runNode(sdkConsumer, [
      join(repositoryRoot, 'node_modules/typescript/bin/tsc'),
      '--pretty',
      'false',
    ]);
    // Without skipLibCheck our declarations are checked, and so are those of dependencies, whose errors are not ours.
    const ours = output.split('\n').filter((line) => /^(?:index[.]ts|node_modules\/@levelhook\/|error)/.test(line));
    expect(ours).toEqual([]);
  });
});

function updating(): boolean {
  return process.env['UPDATE_PUBLIC_INTERFACE'] === '1';
}
