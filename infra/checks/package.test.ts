import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as tar from 'tar';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { exportedNames } from './exported-names.ts';
import { repositoryRoot, runNode } from './temp-repository.ts';

const packageJson = z
  .object({
    bin: z.record(z.string(), z.string()),
    files: z.array(z.string()),
    dependencies: z.record(z.string(), z.string()),
    exports: z.record(z.string(), z.union([z.string(), z.object({ types: z.string(), default: z.string() })])),
  })
  .parse(JSON.parse(readFileSync(join(repositoryRoot, 'package.json'), 'utf8')));

/** `./function` in package.json, `levelhook/function` in an import. */
const entries = Object.entries(packageJson.exports).flatMap(([path, target]) =>
  typeof target === 'string' ? [] : [{ name: path.replace('.', 'levelhook'), types: target.types }],
);

const pinnedPath = join(import.meta.dirname, 'public-interface.json');
const readPinned = (): unknown => JSON.parse(readFileSync(pinnedPath, 'utf8'));

let workspace: string;
let consumer: string;
let installed: string;

/** Builds, packs and unpacks the package beside links to its dependencies: what `npm install levelhook` would leave. */
beforeAll(() => {
  workspace = mkdtempSync(join(tmpdir(), 'levelhook-package-'));
  const stage = join(workspace, 'stage');
  consumer = join(workspace, 'consumer');
  installed = join(consumer, 'node_modules/levelhook');

  // Staged, so that neither an old dist nor a run of this test beside another can falsify the result.
  for (const name of ['package.json', ...packageJson.files]) {
    const source = join(repositoryRoot, name);
    if (!name.startsWith('dist') && existsSync(source)) cpSync(source, join(stage, name), { recursive: true });
  }
  const built = runNode(repositoryRoot, ['infra/checks/build.ts', join(stage, 'dist')]);
  expect(built, built.output).toMatchObject({ exitCode: 0 });

  execFileSync('npm', ['pack', '--offline', '--ignore-scripts', '--pack-destination', workspace], {
    cwd: stage,
    stdio: 'pipe',
  });
  const [tarball = ''] = globSync('*.tgz', { cwd: workspace });
  mkdirSync(installed, { recursive: true });
  tar.extract({ file: join(workspace, tarball), cwd: installed, strip: 1, sync: true });

  // Only dependencies: whatever the package takes from devDependencies must fail here. @types/node is the consumer's.
  for (const name of [...Object.keys(packageJson.dependencies), '@types/node']) {
    const link = join(consumer, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(repositoryRoot, 'node_modules', name), link);
  }
  writeFileSync(join(consumer, 'package.json'), JSON.stringify({ type: 'module' }));
});

afterAll(() => rmSync(workspace, { recursive: true, force: true }));

test('the package holds no sources and no tests', () => {
  const strangers = globSync('**/*', { cwd: installed }).filter(
    (path) =>
      /[.]test[.]|^(?:src|test|functions|dist\/test|dist\/infra)(?:\/|$)/.test(path) || /(?<![.]d)[.]ts$/.test(path),
  );
  expect(strangers).toEqual([]);
});

test('the package holds every Lua file', () => {
  const sources = globSync('{src,functions}/**/*.lua', { cwd: repositoryRoot }).toSorted();
  expect(globSync('**/*.lua', { cwd: join(installed, 'dist') }).toSorted()).toEqual(sources);
});

test.each(Object.entries(packageJson.bin))('the command %s answers --help', (_, path) => {
  expect(readFileSync(join(installed, path), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/);
  const { output, exitCode } = runNode(consumer, [join(installed, path), '--help'], { NODE_OPTIONS: '' });
  expect(output).toContain('Usage:');
  expect(exitCode).toBe(0);
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

test.skipIf(Object.keys(z.record(z.string(), z.unknown()).parse(readPinned())).length === 0 && !updating())(
  'the public interface is the one written down (UPDATE_PUBLIC_INTERFACE=1 writes it)',
  () => {
    const actual = Object.fromEntries(entries.map(({ name, types }) => [name, exportedNames(join(installed, types))]));
    if (updating()) writeFileSync(pinnedPath, `${JSON.stringify(actual, null, 2)}\n`);
    expect(actual).toEqual(readPinned());
  },
);

function updating(): boolean {
  return process.env['UPDATE_PUBLIC_INTERFACE'] === '1';
}
