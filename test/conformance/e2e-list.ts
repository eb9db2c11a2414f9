import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The tests of a list in `lists`, by its name without `.txt`. */
export async function e2eList(name: string): Promise<string[]> {
  const text = await readFile(join(import.meta.dirname, 'lists', `${name}.txt`), 'utf8');
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
}
