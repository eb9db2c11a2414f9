import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './pages.ts';

/** What authors import, as the module names of the page. */
const ENTRIES = [
  'src/function/index.ts',
  'src/function/node/index.ts',
  'src/function/webhooks/index.ts',
  'src/function/callback.ts',
  'src/contract/index.ts',
  'src/testing/index.ts',
];

/**
 * Writes pages from the doc comments of the packages' exports. typedoc needs the JavaScript interface of TypeScript,
 * which the tools have in an earlier version than the repository.
 * @returns the pages below `out`.
 */
export async function sdkReference(tools: string, out: string): Promise<string[]> {
  const tsconfig = join(ROOT, `tsconfig.api-${process.pid}.json`);
  const settings = {
    extends: './tsconfig.json',
    compilerOptions: { typeRoots: ['node_modules/@types'] },
    files: ENTRIES,
    include: [],
  };
  await writeFile(tsconfig, JSON.stringify(settings));
  try {
    await promisify(execFile)(
      process.execPath,
      [
        [join(tools, 'typedoc/bin/typedoc')],
        ['--tsconfig', tsconfig, '--out', out, '--plugin', join(tools, 'typedoc-plugin-markdown/dist/index.js')],
        ['--skipErrorChecking', '--excludeInternal', '--disableSources', '--readme', 'none', '--logLevel', 'Error'],
        ['--hidePageHeader', 'true', '--hideBreadcrumbs', 'true', '--router', 'module'],
        ENTRIES.flatMap((entry) => ['--entryPoints', join(ROOT, entry)]),
      ].flat(),
      { cwd: ROOT, maxBuffer: 64 * 1024 * 1024 },
    );
  } finally {
    await rm(tsconfig, { force: true });
  }
  return globSync('**/*.md', { cwd: out }).toSorted();
}
