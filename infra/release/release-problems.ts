import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { currentVersion, documentsNotReleased, versionsElsewhere } from './versions.ts';

/**
 * What keeps a commit from being released, each as a sentence.
 * @param root the repository
 * @param release its tag, and the repository as GitHub names it: owner/name
 */
export function releaseProblems(
  root: string,
  release: { readonly tag: string; readonly repository: string },
): string[] {
  const problems: string[] = [];
  const version = currentVersion(root);
  if (release.tag !== `v${version}`) {
    problems.push(`The tag is ${release.tag || 'missing'}, and package.json has version ${version}.`);
  }
  const { repository } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    repository: { url: string };
  };
  // npm compares it with the repository of the provenance, and refuses the package after all the work.
  if (repository.url !== `git+https://github.com/${release.repository}.git`) {
    problems.push(`package.json has the repository ${repository.url}, and this is ${release.repository || 'none'}.`);
  }
  const changesets = globSync('.changeset/*.md', { cwd: root }).filter((file) => !file.endsWith('README.md'));
  if (changesets.length > 0) {
    problems.push(`Changesets that are in no version yet: ${changesets.length}. Run npm run new-version.`);
  }
  const [, described] = /^## (\S+)/m.exec(readFileSync(join(root, 'CHANGELOG.md'), 'utf8')) ?? [];
  if (described !== version) problems.push(`CHANGELOG.md begins with ${described ?? 'no version'}, not ${version}.`);
  for (const [file, versions] of Object.entries(versionsElsewhere(root))) {
    const other = versions.find((each) => each !== version);
    if (other) problems.push(`${file} has version ${other}, not ${version}.`);
  }
  for (const file of documentsNotReleased(root)) {
    problems.push(`${file} is not the one in infra/contract/v1/released. Run npm run new-version.`);
  }
  return problems;
}
