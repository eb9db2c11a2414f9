import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { repositoryRoot, runNode } from './temp-repository.ts';
import { GATE, GATE_ALONE, GATE_LATE, groupsGuarding, NIGHTLY, SYSTEM, UNIT } from './test-groups.ts';

const groups = Object.entries(NIGHTLY);
const filesOf = (patterns: readonly string[]): string[] => globSync([...patterns], { cwd: repositoryRoot });
const nightly = (...args: string[]) => runNode(repositoryRoot, ['infra/checks/test-nightly.ts', ...args]);

describe('the table of test groups', () => {
  it.each([['gate', GATE] as const, ...groups.map(([name, { files }]) => [name, files] as const)])(
    'names files that exist, in %s',
    (_, files) => {
      for (const pattern of files) expect(filesOf([pattern]), pattern).not.toEqual([]);
    },
  );

  it.each(groups)('names folders and files that exist as what %s guards', (_, { guards }) => {
    expect(guards.filter((guarded) => !existsSync(join(repositoryRoot, guarded)))).toEqual([]);
  });

  it('runs every test: in npm test, the gate or a nightly group', () => {
    const all = filesOf(['{src,functions,infra,test}/**/*.test.ts']);
    const grouped = [...GATE, ...GATE_LATE, ...GATE_ALONE, ...groups.flatMap(([, { files }]) => files)];
    const run = new Set(filesOf([...UNIT, ...SYSTEM, ...grouped]));
    expect(all.length).toBeGreaterThan(300);
    expect(all.filter((file) => !run.has(file))).toEqual([]);
  });

  it('tells which groups guard a changed file', () => {
    expect(groupsGuarding(['infra/helm/levelhook/values.yaml'])).toEqual(['images', 'helm']);
    expect(groupsGuarding(['infra/helmsman.ts', 'LICENSE'])).toEqual([]);
  });
});

describe('npm run test:nightly', () => {
  it('refuses a group, a commit and an option that do not exist in one sentence', () => {
    const unknown = nightly('imags');
    expect([unknown.exitCode, unknown.output.trim()]).toEqual([
      2,
      `There is no group "imags". The groups are ${Object.keys(NIGHTLY).join(', ')}.`,
    ]);
    const commit = nightly('--changed', 'no-such-commit');
    expect([commit.exitCode, commit.output.trim()]).toEqual([
      2,
      'git knows no commit "no-such-commit": name a commit or a branch after --changed.',
    ]);
    expect(nightly('--wrong').exitCode).toBe(2);
    // An option of git's is no commit.
    expect(nightly('--changed=--output=/dev/null').exitCode).toBe(2);
  });

  it('names the groups as JSON, for a workflow with a job for each', () => {
    expect(JSON.parse(nightly('--names').output)).toEqual(Object.keys(NIGHTLY));
  });
});
