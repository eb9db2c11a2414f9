/**
 * Compiles src and functions to dist, or to the folder given as the only argument, with declarations and without tests.
 * The Lua files, the assets of pages and the manifests of functions go beside their JavaScript: they are read at run
 * time by a path relative to it.
 * The folder `function` in it becomes the package `@levelhook/function`, the folder `create` the package
 * `create-levelhook`.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, globSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { writeCreatePackage } from './create-package.ts';
import { writeFunctionPackage } from './function-package.ts';

const root = resolve(import.meta.dirname, '../..');
const outDir = resolve(process.argv[2] ?? join(root, 'dist'));

// A module that has been renamed must not live on in the package.
rmSync(outDir, { recursive: true, force: true });

const tsc = join(root, 'node_modules/typescript/bin/tsc');
const project = join(root, 'infra/checks/tsconfig.build.json');
const { status } = spawnSync(process.execPath, [tsc, '--project', project, '--outDir', outDir], { stdio: 'inherit' });
if (status === 0) {
  for (const file of globSync(
    [
      '{src,functions}/**/*.lua',
      'src/**/assets/*',
      'functions/**/*.yaml',
      'functions/examples/{10-python/levelhook.py,11-go/levelhook/*.go}',
    ],
    {
      cwd: root,
      exclude: ['functions/examples/20-platforms/**'],
    },
  )) {
    cpSync(join(root, file), join(outDir, file));
  }
  writeFunctionPackage(root, outDir, join(outDir, 'function'));
  writeCreatePackage(root, outDir, join(outDir, 'create'));
} else {
  process.exitCode = 1;
}
