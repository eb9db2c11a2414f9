import { expect, test } from 'vitest';
import { TempRepository } from './temp-repository.ts';

const passing = `import { test } from 'vitest'; test('good', () => {});`;

/** How a run of the real configuration over these files ends; a name without a folder is a unit test in src. */
function lastLine(files: Record<string, string>): {
  line: string | undefined;
  failed: string[];
  exitCode: number | null;
} {
  const placed = Object.entries(files).map(([name, text]) => [name.includes('/') ? name : `src/${name}`, text]);
  using repository = new TempRepository(Object.fromEntries(placed));
  const { output, exitCode } = repository.run(
    'node_modules/vitest/vitest.mjs',
    'run',
    '--config',
    'infra/checks/vitest.config.ts',
  );
  const lines = output.trimEnd().split('\n');
  const failed = lines.filter((line) => line.startsWith('FAILED ')).map((line) => line.slice('FAILED '.length));
  return { line: lines.at(-1), failed, exitCode };
}

test('tests that pass, fail and are skipped are counted, and failures are named', () => {
  const { line, failed, exitCode } = lastLine({
    'a.test.ts': passing,
    'b.test.ts': `import { describe, expect, test } from 'vitest';
      describe('group', () => { test('bad', () => { expect(1).toBe(2); }); });
      test.skip('later', () => {});`,
  });
  expect(line).toBe('1 passed, 1 failed, 1 skipped');
  expect(failed).toEqual(['src/b.test.ts > group > bad: expected 1 to be 2 // Object.is equality (line 2)']);
  expect(exitCode).toBe(1);
});

test('what is thrown need not be an Error', () => {
  const { line, failed } = lastLine({
    'a.test.ts': passing,
    'b.test.ts': `import { test } from 'vitest'; test('bad', () => { throw { code: 409 }; });`,
  });
  expect(line).toBe('1 passed, 1 failed');
  expect(failed).toEqual([expect.stringMatching(/^src\/b[.]test[.]ts > bad: .*409/)]);
});

test('a good run exits with 0', () => {
  expect(lastLine({ 'a.test.ts': passing })).toEqual({ line: '1 passed, 0 failed', failed: [], exitCode: 0 });
});

test.each([
  ['a file that does not load', { 'b.test.ts': `throw new Error('broken');` }, /^src\/b[.]test[.]ts: broken/],
  ['a file without tests', { 'b.test.ts': `export const nothing = 1;` }, /^src\/b[.]test[.]ts: No test suite found/],
  [
    'an unhandled rejection',
    { 'b.test.ts': `void Promise.reject(new Error('lost'));\n${passing}` },
    /^unhandled error: lost/,
  ],
  [
    'a hook that fails after the tests',
    {
      'b.test.ts': `import { afterAll } from 'vitest'; afterAll(() => { throw new Error('left running'); });\n${passing}`,
    },
    /^src\/b[.]test[.]ts: left running/,
  ],
  [
    'a hook that fails before the tests',
    {
      'b.test.ts': `import { beforeAll, describe, test } from 'vitest';
        describe('group', () => { beforeAll(() => { throw new Error('no server'); }); test('never', () => {}); });`,
    },
    /^src\/b[.]test[.]ts > group: no server/,
  ],
  ['a focused test', { 'b.test.ts': `import { test } from 'vitest'; test.only('me', () => {});` }, /b[.]test[.]ts/],
  [
    'a global setup that fails',
    {
      'test/harness/global-setup.ts': `export function setup() { throw new Error('no apiserver'); }`,
      'test/integration/b.test.ts': passing,
    },
    /^no test was executed/,
  ],
  [
    'a global teardown that fails',
    {
      'test/harness/failure-log.ts': '',
      'test/harness/global-setup.ts': `export function setup() {} export function teardown() { throw new Error('stuck'); }`,
      'test/integration/b.test.ts': passing,
    },
    /^vitest exited with 1/,
  ],
])('%s is a failure', (_, files, name) => {
  const { line, failed, exitCode } = lastLine({ 'a.test.ts': passing, ...files });
  expect(failed).toEqual([expect.stringMatching(name)]);
  expect(line).toMatch(/^\d+ passed, 1 failed/);
  expect(exitCode).not.toBe(0);
});

test.each([
  ['no test file', {}],
  ['only skipped tests', { 'b.test.ts': `import { test } from 'vitest'; test.skip('later', () => {});` }],
])('%s is a failure', (_, files) => {
  const { line, failed, exitCode } = lastLine(files);
  expect(failed).toHaveLength(1);
  expect(line).toMatch(/^0 passed, 1 failed/);
  expect(exitCode).toBe(1);
});
