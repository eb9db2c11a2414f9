import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { format } from 'prettier';
import type { Comparison } from './comparison.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** Whether the results go into the repository. */
export const isSaving = process.argv.includes('--save');

/**
 * Prints the table of a benchmark and writes it as `NAME.md`, with a plot as `NAME.svg`. With the argument `--save`
 * they go to test/bench/results, and the benchmark's section of RESULTS.md gets the main rows; else, and when the
 * machine was not quiet, to a temporary folder.
 * @param what one sentence: sizes, rounds, machine
 */
export async function showResults(name: string, title: string, what: string, found: Comparison): Promise<void> {
  const caption = `${what} ${machineOf(found)}`;
  console.log(`${caption}\n\n${found.table()}\n`);
  const refusal = isSaving ? found.refusal() : undefined;
  const isSaved = isSaving && refusal === undefined;
  const directory = isSaved ? join(ROOT, 'test/bench/results') : await mkdtemp(join(tmpdir(), 'levelhook-bench-'));
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, `${name}.svg`), found.plot(title));
  await writeFile(
    join(directory, `${name}.md`),
    await markdown(`# ${title}\n\n${caption}\n\n![${title}](${name}.svg)\n\n${found.table()}\n`),
  );
  if (isSaved) {
    const section = `![${title}](results/${name}.svg)\n\n${caption}\n\n${found.table('main')}`;
    const file = join(ROOT, 'test/bench/RESULTS.md');
    await writeFile(file, await markdown(withSection(await readFile(file, 'utf8'), name, section)));
  }
  process.stderr.write(`wrote ${join(directory, name)}.md and .svg\n`);
  if (refusal === undefined) return;
  process.stderr.write(`nothing was saved: ${refusal}\n`);
  process.exitCode = 1;
}

function machineOf(found: Comparison): string {
  return `Meanwhile other programs and the host took: ${found.machine()}.`;
}

/** A document with another text between `<!-- bench NAME -->` and `<!-- end of bench NAME -->`. */
export function withSection(document: string, name: string, section: string): string {
  const [from, to] = [`<!-- bench ${name} -->`, `<!-- end of bench ${name} -->`];
  const [start, end] = [document.indexOf(from), document.indexOf(to)];
  if (start < 0 || end < start) throw new Error(`RESULTS.md has no section ${from}`);
  return `${document.slice(0, start + from.length)}\n\n${section}\n\n${document.slice(end)}`;
}

/** As `npm run format` leaves it. */
async function markdown(text: string): Promise<string> {
  const options = JSON.parse(await readFile(join(ROOT, 'infra/checks/prettier.json'), 'utf8')) as object;
  return format(text, { parser: 'markdown', ...options });
}
