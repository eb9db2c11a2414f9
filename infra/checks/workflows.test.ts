import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { repositoryRoot } from './temp-repository.ts';

interface Workflow {
  on: Record<string, unknown>;
  permissions: object;
  jobs: Record<string, { permissions: object; strategy?: object; steps: { run?: string }[] }>;
}

const textOf = (name: string): string => readFileSync(join(repositoryRoot, '.github/workflows', name), 'utf8');
const workflowOf = (name: string): Workflow => parse(textOf(name)) as Workflow;
const commandsOf = (name: string, job: string): string[] =>
  (workflowOf(name).jobs[job]?.steps ?? []).flatMap(({ run }) => run ?? []);

describe.each(['ci.yml', 'nightly.yml'])('the workflow %s', (name) => {
  it('may only read the repository', () => {
    const { permissions, jobs } = workflowOf(name);
    expect(permissions).toEqual({});
    for (const job of Object.values(jobs)) expect(job.permissions).toEqual({ contents: 'read' });
  });

  it('pins each action by a commit, and names its release beside', () => {
    const lines = textOf(name)
      .split('\n')
      .filter((line) => line.includes('uses:'));
    expect(lines).not.toEqual([]);
    for (const line of lines) expect(line).toMatch(/ uses: actions\/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  it('puts no expression into a command', () => {
    const commands = Object.keys(workflowOf(name).jobs).flatMap((job) => commandsOf(name, job));
    expect(commands.filter((command) => command.includes('${{'))).toEqual([]);
  });

  it('has the same image with Go as the release', () => {
    const image = (text: string) => /image: '(golang:[^']+)'/.exec(text)?.[1];
    expect(image(textOf(name))).toBe(image(textOf('release.yml')));
  });
});

it('a pull request runs the gate, and each night runs each group of the table as a job', () => {
  expect(Object.keys(workflowOf('ci.yml').on)).toEqual(['pull_request']);
  expect(commandsOf('ci.yml', 'gate')).toEqual(['.ci/run']);
  expect(Object.keys(workflowOf('nightly.yml').on)).toEqual(['schedule', 'workflow_dispatch']);
  expect(commandsOf('nightly.yml', 'groups')).toEqual([expect.stringContaining('test-nightly.ts --names')]);
  expect(workflowOf('nightly.yml').jobs['nightly']?.strategy).toMatchObject({
    matrix: { group: '${{ fromJSON(needs.groups.outputs.names) }}' },
  });
  expect(commandsOf('nightly.yml', 'nightly')).toEqual(['.ci/run "$GROUP"']);
});
