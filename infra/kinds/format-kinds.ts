import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { format, type Options } from 'prettier';

export const KINDS_FOLDER = resolve(import.meta.dirname, '../../src/function/kinds');

/** As `npm run format` would. */
export async function formatKinds(files: ReadonlyMap<string, string>): Promise<Map<string, string>> {
  const options = JSON.parse(
    await readFile(resolve(import.meta.dirname, '../checks/prettier.json'), 'utf8'),
  ) as Options;
  const formatted = new Map<string, string>();
  for (const [name, text] of files) formatted.set(name, await format(text, { ...options, parser: 'typescript' }));
  return formatted;
}
