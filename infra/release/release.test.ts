import { execFileSync } from 'node:child_process';
import {
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { getFileInfo } from 'prettier';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { repositoryRoot, runNode } from '../checks/temp-repository.ts';
import { releaseProblems } from './release-problems.ts';
import { changedSinceRelease, currentVersion, releaseContract, versionsElsewhere } from './versions.ts';

const CHANGESET = 'node_modules/@changesets/cli/bin.js';

let root: string;

/** A commit with the files that a release looks at or writes. */
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'levelhook-release-'));
  const files = [
    'package.json',
    'CHANGELOG.md',
    '.changeset/config.json',
    'infra/release/versions.ts',
    'infra/contract/v1',
    'infra/crds',
  ];
  for (const file of [...files, 'infra/release/follow-version.ts', ...Object.keys(versionsElsewhere(repositoryRoot))]) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    cpSync(join(repositoryRoot, file), join(root, file), { recursive: true });
  }
  releaseContract(root);
  symlinkSync(join(repositoryRoot, 'node_modules'), join(root, 'node_modules'));
  git('init', '--quiet');
  git('add', '.');
  git('commit', '--quiet', '--message', 'start');
});
afterEach(() => rmSync(root, { recursive: true }));

const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { cwd: root });
const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const write = (file: string, text: string): void => writeFileSync(join(root, file), text);
const describeChange = (name: string, bump: string, text: string, of = 'levelhook'): void =>
  write(`.changeset/${name}.md`, `---\n'${of}': ${bump}\n---\n\n${text}\n`);

const problems = (more: Partial<Parameters<typeof releaseProblems>[1]> = {}): string[] =>
  releaseProblems(root, { tag: `v${currentVersion(root)}`, repository: 'levelhook/levelhook', ...more });

const RELEASED = 'infra/contract/v1/released';
/** The files of `released`, each with the document of today. */
const DOCUMENTS = globSync('**/*.*', { cwd: join(repositoryRoot, RELEASED) }).map(
  (file) =>
    [`${RELEASED}/${file}`, file.endsWith('.yaml') ? `infra/crds/${file}` : `infra/contract/v1/${file}`] as const,
);

describe('changeset version', () => {
  const before = currentVersion(repositoryRoot);
  const [major = 0, minor = 0, patch = 0] = before.split('.').map(Number);

  it.each([
    ['patch', `${major}.${minor}.${patch + 1}`],
    ['minor', `${major}.${minor + 1}.0`],
    ['major', `${major + 1}.0.0`],
  ])('makes of a changeset with %s version %s, in every file that names it', (bump, after) => {
    describeChange('small', 'patch', 'A queue forgets nothing.');
    describeChange('large', bump, 'Functions do more.');
    for (const [, document] of DOCUMENTS) write(document, `the next ${document}`);
    for (const script of [[CHANGESET, 'version'], ['infra/release/follow-version.ts']]) {
      const { output, exitCode } = runNode(root, script);
      expect(exitCode, output).toBe(0);
    }
    expect(currentVersion(root)).toBe(after);
    for (const [released, document] of DOCUMENTS) expect(read(released)).toBe(`the next ${document}`);
    expect(new Set(Object.values(versionsElsewhere(root)).flat())).toEqual(new Set([after]));
    const lock = JSON.parse(read('package-lock.json')) as { version: string; packages: { '': { version: string } } };
    expect([lock.version, lock.packages[''].version]).toEqual([after, after]);
    const [, section = ''] = new RegExp(`\n## ${after}\n([^]*?)\n## ${before}\n`).exec(read('CHANGELOG.md')) ?? [];
    expect(section).toContain('- A queue forgets nothing.');
    expect(section).toContain('- Functions do more.');
    expect(readdirSync(join(root, '.changeset'))).toEqual(['config.json']);
  });

  it('refuses a changeset of @levelhook/function, whose version is that of levelhook', () => {
    describeChange('sdk', 'minor', 'The SDK does more.', '@levelhook/function');
    const { output, exitCode } = runNode(root, [CHANGESET, 'version']);
    expect(exitCode).toBe(1);
    expect(output).toContain('@levelhook/function which is not in the workspace');
  });
});

describe('a release', () => {
  it('is made of a commit whose files agree with its tag', () => expect(problems()).toEqual([]));

  it('is refused for another tag, another repository, and no tag at all', () => {
    expect(problems({ tag: 'v9.0.0' })[0]).toContain('The tag is v9.0.0');
    expect(problems({ tag: '' })[0]).toContain('The tag is missing');
    expect(problems({ repository: 'a/fork' })[0]).toContain('and this is a/fork');
  });

  it('is refused while a changeset waits', () => {
    describeChange('late', 'patch', 'Late.');
    expect(problems()).toEqual(['Changesets that are in no version yet: 1. Run npm run new-version.']);
  });

  it('is refused when the changelog begins with another version', () => {
    write('CHANGELOG.md', `# Changelog\n\n## 9.0.0\n\n- New.\n`);
    expect(problems()).toEqual([`CHANGELOG.md begins with 9.0.0, not ${currentVersion(root)}.`]);
  });

  it.each(DOCUMENTS)('is refused when %s is of an earlier one', (released, document) => {
    write(released, '{}');
    expect(problems()).toEqual([`${document} is not the one in ${RELEASED}. Run npm run new-version.`]);
  });

  it.each(Object.keys(versionsElsewhere(repositoryRoot)))('is refused when %s has another version', (file) => {
    write(file, read(file).replaceAll(currentVersion(root), '9.0.0'));
    expect(problems()).toEqual([`${file} has version 9.0.0, not ${currentVersion(root)}.`]);
  });

  it.each(Object.keys(versionsElsewhere(repositoryRoot)))('is refused when %s names no version', (file) => {
    write(file, '');
    expect(problems).toThrow(`${file} has no version of levelhook`);
  });
});

describe('the documents of the last release', () => {
  it('have those that the contract accepts in a folder of its own, new ones too', () => {
    expect(DOCUMENTS.filter(([released]) => released.includes('/accepted/')).length).toBeGreaterThan(10);
    write('infra/contract/v1/accepted/outcome-new.ndjson', '{}\n');
    expect(problems()).toEqual([
      `infra/contract/v1/accepted/outcome-new.ndjson is not the one in ${RELEASED}. Run npm run new-version.`,
    ]);
    releaseContract(root);
    expect(read(`${RELEASED}/accepted/outcome-new.ndjson`)).toBe('{}\n');
    expect(problems()).toEqual([]);
  });

  it.each(DOCUMENTS)('are formatted as their originals, which they repeat byte for byte: %s', async (...files) => {
    const ignorePath = join(repositoryRoot, '.prettierignore');
    const infos = await Promise.all(files.map((file) => getFileInfo(join(repositoryRoot, file), { ignorePath })));
    expect(infos[0]).toEqual(infos[1]);
  });

  it('are as its tag has them', () => expect(changedSinceRelease(repositoryRoot)).toEqual([]));

  it('may change before the tag of their version exists, and not after it', () => {
    const [[released, document] = ['', '']] = DOCUMENTS;
    const changed = (text: string): string[] => {
      for (const file of [released, document]) write(file, text);
      git('commit', '--quiet', '--all', '--message', text);
      return changedSinceRelease(root);
    };
    expect(changed('{"first":true}')).toEqual([]);
    git('tag', `v${currentVersion(root)}`);
    expect(changedSinceRelease(root)).toEqual([]);
    expect(changed('{"second":true}')).toEqual([released]);
    write('package.json', JSON.stringify({ version: '9.0.0' }));
    expect(changedSinceRelease(root)).toEqual([]);
  });
});
