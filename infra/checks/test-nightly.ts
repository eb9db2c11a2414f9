/**
 * `npm run test:nightly [GROUP...]` runs nightly groups of tests, by default all, one after the other; `-- --changed
 * BASE` runs those that guard a file which differs from the commit BASE; `-- --names` prints the names as JSON instead.
 * Exits with vitest's code, and with 2 for a group, an option or a commit that does not exist.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { groupsGuarding, NIGHTLY } from './test-groups.ts';

const root = resolve(import.meta.dirname, '../..');
const known = Object.keys(NIGHTLY);

/** A group, an option or a commit of the command line does not exist. */
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

/** Paths of the files that differ from the commit `base`; files that git does not know yet are among them. */
function changedSince(base: string): string[] {
  const git = (...args: string[]): string[] => {
    const stdio: ['ignore', 'pipe', 'ignore'] = ['ignore', 'pipe', 'ignore'];
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio })
      .split('\n')
      .filter((line) => line !== '');
  };
  try {
    // Resolved first, so that a base that looks like an option is none.
    const [commit = ''] = git('rev-parse', '--verify', '--quiet', '--end-of-options', `${base}^{commit}`);
    return [...git('diff', '--name-only', commit, '--'), ...git('ls-files', '--others', '--exclude-standard')];
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
