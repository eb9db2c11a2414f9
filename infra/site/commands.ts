import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './pages.ts';

/** The names of the commands in the help of a command, but `help`. */
export function namesIn(help: string): string[] {
  const [, list = ''] = /\nCommands:\n([\s\S]*)$/.exec(help) ?? [];
  return [...list.matchAll(/^ {2}([a-z][a-z-]*)/gm)].flatMap(([, name = '']) => (name === 'help' ? [] : [name]));
}

async function help(path: readonly string[]): Promise<string> {
  const program = join(ROOT, 'src/cli/levelhook.js');
  const env = { ...process.env, NO_COLOR: '1', COLUMNS: '100' };
  const args = ['--conditions=levelhook-source', program, ...path, '--help'];
  return (await promisify(execFile)(process.execPath, args, { env })).stdout;
}

async function withSubcommands(path: readonly string[]): Promise<(readonly [string, string])[]> {
  const text = await help(path);
  const below = await Promise.all(namesIn(text).map((name) => withSubcommands([...path, name])));
  return [[['levelhook', ...path].join(' '), text], ...below.flat()];
}

/** The page with the help of each command. */
export async function commandsPage(): Promise<string> {
  const all = await withSubcommands([]);
  return `# Commands

The help of each command. [Command line](command-line.md) says more of some.

${all.map(([name, text]) => `## ${name}\n\n\`\`\`text\n${text.trim()}\n\`\`\`\n`).join('\n')}`;
}
