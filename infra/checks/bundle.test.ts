import { join } from 'node:path';
import { build } from 'esbuild';
import { expect, test } from 'vitest';
import { repositoryRoot } from './temp-repository.ts';

/** hono alone is 20 KB. Cold start at the edge is mostly parsing, so growth must be a decision. */
const LIMIT = 40 * 1024;

test('levelhook/function bundles for a browser, small and without Node', async () => {
  // A node: module, or a package that needs one, has no browser build: esbuild fails.
  const { metafile, outputFiles } = await build({
    absWorkingDir: repositoryRoot,
    entryPoints: ['src/function/index.ts'],
    bundle: true,
    minify: true,
    platform: 'browser',
    format: 'esm',
    target: 'es2022',
    write: false,
    metafile: true,
    logLevel: 'silent',
    outdir: join(repositoryRoot, 'dist'),
  });
  const size = outputFiles.reduce((total, { contents }) => total + contents.byteLength, 0);
  process.stdout.write(`levelhook/function: ${(size / 1024).toFixed(1)} KB minified\n`);

  const foreign = Object.keys(metafile.inputs).filter(
    (path) => !/^(?:src\/(?:core|contract|function)|(?:.*\/)?node_modules\/hono)\//.test(path),
  );
  expect(foreign).toEqual([]);
  expect(size).toBeLessThan(LIMIT);
});
