/**
 * Whether this commit can be released as the tag that GitHub names. It runs before the gate, which takes an hour.
 * GITHUB_REF_NAME and GITHUB_REPOSITORY are the tag and owner/name.
 */
import { releaseProblems } from './release-problems.ts';

const { GITHUB_REF_NAME: tag = '', GITHUB_REPOSITORY: repository = '' } = process.env;
const problems = releaseProblems(process.cwd(), { tag, repository });
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length > 0 ? 1 : 0;
