/**
 * `npm run test:nightly [GROUP...]` runs nightly groups of tests, by default all, one after the other; `-- --changed
 * BASE` runs those that guard what differs from a commit; `-- --names` prints all names as JSON. Exits with vitest's
 * code, and with 2 for a name or a commit that does not exist.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { groupsGuarding, NIGHTLY } from './test-groups.ts';

const root = resolve(import.meta.dirname, '../..');
const known = Object.keys(NIGHTLY);

/** What was asked for does not exist. */
class Refused extends Error {}

interface Asked {
  values: { changed?: string; names?: boolean };
  positionals: string[];
}

function asked(): Asked {
  try {
    const options = { changed: { type: 'string' }, names: { type: 'boolean' } } as const;
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    return { values: { ...values }, positionals };
  } catch (error) {
    throw new Refused(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/** The files that differ from a commit, with those that are not committed. */
function changedSince(base: string): string[] {
  const git = (...args: string[]): string[] => {
    const stdio: ['ignore', 'pipe', 'ignore'] = ['ignore', 'pipe', 'ignore'];
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio })
      .split('\n')
      .filter((line) => line !== '');
  };
  try {
    return [...git('diff', '--name-only', base, '--'), ...git('ls-files', '--others', '--exclude-standard')];
  } catch (cause) {
    const message = `git knows no commit ${JSON.stringify(base)}: name a commit or a branch after --changed.`;
    throw new Refused(message, { cause });
  }
}

/** The groups that were asked for. */
function groupsOf({ values: { changed }, positionals }: Asked): string[] {
  for (const name of positionals) {
    if (known.includes(name)) continue;
    throw new Refused(`There is no group ${JSON.stringify(name)}. The groups are ${known.join(', ')}.`);
  }
  if (changed !== undefined) return [...new Set([...positionals, ...groupsGuarding(changedSince(changed))])];
  return positionals.length > 0 ? positionals : known;
}

/** @returns the exit code. */
function main(): number {
  const given = asked();
  const groups = groupsOf(given);
  if (given.values.names === true) {
    process.stdout.write(`${JSON.stringify(groups)}\n`);
    return 0;
  }
  if (groups.length === 0) {
    process.stdout.write('No group guards what has changed.\n');
    return 0;
  }
  for (const group of groups) process.stdout.write(`${group}: ${NIGHTLY[group]?.protects}\n`);
  const projects = groups.flatMap((group) => ['--project', group]);
  const args = ['vitest', 'run', '--config', 'infra/checks/vitest.config.ts', ...projects];
  return spawnSync('npx', args, { cwd: root, stdio: 'inherit' }).status ?? 1;
}

try {
  process.exitCode = main();
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 2;
}
