import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, expect, test } from 'vitest';
import { repositoryRoot, runNode } from './temp-repository.ts';

/**
 * hono alone is 15 KB. Cold start at the edge is mostly parsing, so growth must be a decision. To hand reviews to
 * webhooks takes 1.2 KB of it; what answers them is an entry of its own. JSON with integers of 64 bits takes 1.3 KB,
 * errors that two copies of the package share 0.5 KB, the log and the stack of a run 1.3 KB, and its steps (`RunSteps`)
 * 4.8 KB.
 */
const LIMIT = 60 * 1024;
/**
 * `equal` and its table of the fields that hold quantities. Bundlers leave both out of a function that does not
 * compare.
 */
const EQUAL = 5.5 * 1024;
/** The time that a bundle takes to load is printed and not asserted: it is the machine's. */
const LOADS = 7;

/** What a function with an object of its own mostly needs. */
const TYPICAL = [
  'controller',
  'createFunctionApp',
  'fetchTransport',
  'resource',
  'ensureFinalizer',
  'removeFinalizer',
  'setControllerReference',
  'controllerOf',
  'setStatusCondition',
  'isStatusConditionTrue',
  'ApiError',
  'RetryAfterError',
  'TerminalError',
];

const workspace = mkdtempSync(join(tmpdir(), 'levelhook-bundle-'));
afterAll(() => rmSync(workspace, { recursive: true, force: true }));

test.each([
  ['a typical function', `{ ${TYPICAL.join(', ')} }`, LIMIT],
  ['the same with an EventRecorder', `{ ${TYPICAL.join(', ')}, EventRecorder }`, LIMIT + 3 * 1024],
  ['everything that it exports', '*', LIMIT + 5.25 * 1024 + EQUAL],
])('levelhook/function bundles for a browser, small and without Node: %s', async (what, exported, limit) => {
  // A node: module, or a package that needs one, has no browser build: esbuild fails.
  const { metafile, outputFiles } = await build({
    absWorkingDir: repositoryRoot,
    stdin: { contents: `export ${exported} from './src/function/index.ts';`, resolveDir: repositoryRoot, loader: 'ts' },
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
  const bundle = join(workspace, 'bundle.mjs');
  writeFileSync(bundle, outputFiles[0]?.contents ?? '');
  const loadMs = Array.from({ length: LOADS }, () => loadTime(bundle)).toSorted((a, b) => a - b)[(LOADS - 1) / 2];
  process.stdout.write(
    `levelhook/function, ${what}: ${(size / 1024).toFixed(1)} KB minified, loads in ${loadMs?.toFixed(1)} ms (median of ${LOADS} processes)\n`,
  );

  const foreign = Object.keys(metafile.inputs).filter(
    (path) => !/^(?:<stdin>$|src\/(?:core|contract|function)\/|(?:.*\/)?node_modules\/hono\/)/.test(path),
  );
  expect(foreign).toEqual([]);
  expect(size).toBeLessThan(limit);
});

/** In a process of its own, which has loaded nothing else. */
function loadTime(bundle: string): number {
  const program = `const at = performance.now(); await import(${JSON.stringify(bundle)}); console.log(performance.now() - at);`;
  const { exitCode, output } = runNode(workspace, ['--input-type=module', '--eval', program]);
  expect(exitCode, output).toBe(0);
  return Number(output);
}
