import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { UserCommand } from './user-command.ts';

/** The rows of a benchmark's table by label, and its plot. */
export type BenchResults = [table: Map<string, string[]>, plot: string];

/** A command of the README with little to do. */
export function benchCommand(name: string, env: Readonly<Record<string, string>>): UserCommand {
  return new UserCommand('npm', ['run', '-s', 'bench', name], { env: { BENCH_ROUNDS: '1', ...env } });
}

/** Waits for the end of the command, which must leave no process and no file but its results. */
export async function resultsOf(name: string, command: UserCommand): Promise<BenchResults> {
  expect(await command.exited, command.output).toBe(0);
  expect(command.running()).toEqual([]);
  const [folder = '', ...others] = command.leftFiles();
  expect(others).toEqual([]);
  const text = readFileSync(join(command.temporary, folder, `${name}.md`), 'utf8');
  expect(command.stdout.join('\n')).toContain(text.slice(text.indexOf('|'), -1).trimEnd());
  const rows = text.split('\n').filter((line) => line.startsWith('|'));
  const cells = rows.map((row) => row.split('|').map((cell) => cell.trim()));
  const table = new Map(cells.map(([, label = '', ...values]) => [label, values]));
  return [table, readFileSync(join(command.temporary, folder, `${name}.svg`), 'utf8')];
}
