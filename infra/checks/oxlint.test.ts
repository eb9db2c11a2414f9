import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Finished, repositoryRoot, TempRepository } from './temp-repository.ts';

/** `rule` must be reported in a file that holds `code`. Files are modules; `f` is an async function in reach. */
interface Violation {
  rule: string;
  code: string;
  /** Where the file is planted, when the rule is not one for all places. */
  in?: string;
}

const violations: Violation[] = [
  { rule: 'typescript(no-floating-promises)', code: 'f();' },
  { rule: 'typescript(no-misused-promises)', code: '[1].forEach(async () => { await f(); });' },
  { rule: 'typescript(await-thenable)', code: 'export async function g(): Promise<number> { return await 3; }' },
  {
    rule: 'typescript(switch-exhaustiveness-check)',
    code: `export function s(x: 'a' | 'b'): number { switch (x) { case 'a': return 1; } return 2; }`,
  },
  { rule: 'typescript(consistent-type-imports)', code: `import { T } from './types.ts'; export const t: T = 1;` },
  { rule: 'typescript(consistent-type-imports)', code: `export const t: import('./types.ts').T = 1;` },
  { rule: 'typescript(no-explicit-any)', code: 'export const a: any = 1;' },
  { rule: 'typescript(only-throw-error)', code: `export function t(): never { throw 'text'; }` },
  { rule: 'typescript(prefer-promise-reject-errors)', code: `export const p = Promise.reject('text');` },
  {
    rule: 'typescript(use-unknown-in-catch-callback-variable)',
    code: 'export const p = f().catch((error: Error) => error.message);',
  },
  { rule: 'typescript(no-namespace)', code: 'export declare namespace N { const n: number; }' },
  { rule: 'typescript(no-require-imports)', code: `export const r = require('./types.ts');`, in: 'src/gateway' },
  { rule: 'typescript(ban-ts-comment)', code: `// @ts-ignore\nexport const n: number = 'x';` },
  { rule: 'typescript(ban-ts-comment)', code: `// @ts-expect-error\nexport const n: number = 'x';` },
  { rule: 'import(no-cycle)', code: `import { violation } from './types.ts'; export { violation as again };` },
  { rule: 'import(no-default-export)', code: 'export default f;' },
  { rule: 'import(no-default-export)', code: 'export default f;', in: 'src/cli' },
  { rule: 'import(no-default-export)', code: 'export default f;', in: 'test/harness' },
  { rule: 'import(no-duplicates)', code: `import { f as g } from './types.ts'; export { g };` },
  { rule: 'unicorn(prefer-node-protocol)', code: `import fs from 'fs'; export { fs };`, in: 'src/gateway' },
  { rule: 'unicorn(no-process-exit)', code: 'process.exit(1);', in: 'src/gateway' },
  { rule: 'unicorn(no-abusive-eslint-disable)', code: '// oxlint-disable-next-line -- why\nf();' },
  { rule: 'levelhook(reasoned-disable)', code: '// oxlint-disable-next-line no-console\nconsole.log(1);' },
  { rule: 'levelhook(reasoned-disable)', code: '/* eslint-disable no-console */\nconsole.log(1);' },
  {
    rule: 'Unused oxlint-disable directive',
    code: '// oxlint-disable-next-line no-console -- nothing here\nvoid f();',
  },
  { rule: 'eslint(no-console)', code: 'console.log(1);' },
  { rule: 'eslint(no-console)', code: 'console.log(1);', in: 'functions/hello' },
  { rule: 'eslint(no-console)', code: 'console.log(1);', in: 'test/harness' },
  { rule: 'eslint(no-unused-vars)', code: 'const unused = 1;' },
  { rule: 'eslint(no-var)', code: 'export var v = 1;' },
  { rule: 'eslint(prefer-const)', code: 'let once = 1; export { once };' },
  { rule: 'eslint(eqeqeq)', code: 'export const e = f == null;' },
  {
    rule: 'eslint(no-restricted-imports)',
    code: `import { env } from 'node:process'; export { env };`,
    in: 'src/gateway',
  },
  ...['src/core', 'src/contract/node', 'src/function/node', 'src/gateway', 'src/ground/config'].flatMap((folder) => [
    { rule: 'eslint(no-restricted-properties)', code: `export const e = process.env['HOME'];`, in: folder },
    { rule: 'eslint(no-restricted-properties)', code: 'const { env } = process; export { env };', in: folder },
    { rule: 'eslint(no-restricted-properties)', code: 'export const { env } = globalThis.process;', in: folder },
  ]),
  ...['src/function', 'src/testing/reconciler', 'src/gateway/informer/cache'].map((folder) => ({
    rule: 'eslint(no-restricted-properties)',
    code: `export const v: unknown = JSON.parse('1');`,
    in: folder,
  })),
  {
    rule: 'levelhook(equality-by-text)',
    code: 'export const same = JSON.stringify(f) === JSON.stringify(violation);',
    in: 'functions/hello',
  },
  { rule: 'eslint(no-restricted-globals)', code: `export const b = Buffer.from('');`, in: 'src/function' },
  { rule: 'eslint(no-restricted-globals)', code: 'process.nextTick(f);', in: 'src/core' },
  { rule: 'eslint(no-restricted-globals)', code: 'setImmediate(f);', in: 'src/contract' },
];

/** Each is allowed where it stands. */
const clean: Record<string, string> = {
  'src/cli/main.ts': `console.log(process.env['HOME']);\nprocess.exit(0);`,
  'src/gateway/reason.ts': `// oxlint-disable-next-line no-console -- the last words before the logger exists\nconsole.log(1);`,
  'src/testing/index.ts': `export const home = process.env['HOME'];`,
  'src/function/node/index.ts': `export const bytes = Buffer.from('x');`,
  'src/function/index.test.ts': `export const bytes = Buffer.from('x');`,
  'functions/hello/index.ts': `export default { port: process.env['PORT'] };`,
  'test/harness/global-setup.ts': `export const home = process.env['HOME'];`,
};

const types = `
export type T = number;
export async function f(): Promise<void> { await Promise.resolve(); }
export * from './cycle.ts';
`;

function lint(files: Record<string, string>): Finished {
  using repository = new TempRepository(files);
  return repository.run(
    'node_modules/oxlint/bin/oxlint',
    '-c',
    'infra/checks/oxlint.json',
    '-f',
    'unix',
    'src',
    'functions',
    'test',
  );
}

test('a tree that uses each permission passes', () => {
  const { output, exitCode } = lint(clean);
  expect(output).not.toContain(': ');
  expect(exitCode).toBe(0);
});

test('each planted violation is reported by name', () => {
  const places = violations.map(({ in: folder = 'src/core' }, index) => `${folder}/planted-${index}.ts`);
  const files: Record<string, string> = {};
  for (const [index, { code }] of violations.entries()) {
    const place = places[index] ?? '';
    files[place] = `import { f } from './types.ts';\nexport const violation = f;\n${code}\n`;
    files[join(place, '../types.ts')] ??= types;
  }
  files['src/core/cycle.ts'] =
    `export { violation } from './planted-${violations.findIndex(({ rule }) => rule.includes('cycle'))}.ts';`;

  const { output, exitCode } = lint(files);
  const lines = output.split('\n');
  const missed = violations.filter(
    ({ rule }, index) => !lines.some((line) => line.startsWith(`${places[index]}:`) && line.includes(rule)),
  );
  expect(missed).toEqual([]);
  expect(exitCode).toBe(1);
});

test('every rule of the configuration has a planted violation', () => {
  const config = readFileSync(join(repositoryRoot, 'infra/checks/oxlint.json'), 'utf8');
  const named = [...config.matchAll(/^\s+"(?:(\w+)\/)?([\w-]+)": (?:\[\s*)?"error"/gm)]
    .filter(([, , rule = '']) => !['correctness', 'suspicious', 'reportUnusedDisableDirectives'].includes(rule))
    .map(([, plugin = 'eslint', rule = '']) => `${plugin}(${rule})`);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !violations.some(({ rule }) => rule === name))).toEqual([]);
});
