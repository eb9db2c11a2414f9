import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { repositoryRoot } from '../checks/temp-repository.ts';

const stepSchema = z.strictObject({
  uses: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
  run: z.string().optional(),
  env: z.record(z.string(), z.string()).optional(),
});
const jobSchema = z.object({
  needs: z.string().optional(),
  environment: z.string().optional(),
  permissions: z.record(z.string(), z.string()),
  'timeout-minutes': z.number(),
  steps: z.array(stepSchema),
});
const workflowSchema = z.object({
  on: z.strictObject({ push: z.strictObject({ tags: z.array(z.string()) }) }),
  permissions: z.record(z.string(), z.string()),
  jobs: z.strictObject({ gate: jobSchema, publish: jobSchema }),
});

const text = readFileSync(join(repositoryRoot, '.github/workflows/release.yml'), 'utf8');
const workflow = workflowSchema.parse(parse(text));
const { gate, publish } = workflow.jobs;
const commands = ({ steps }: typeof gate): string[] => steps.flatMap(({ run }) => run ?? []);

it('runs for tags of versions, and one job alone may ask for an identity', () => {
  expect(workflow.on.push.tags).toEqual(['v[0-9]+.[0-9]+.[0-9]+*']);
  expect(workflow.permissions).toEqual({});
  expect(gate.permissions).toEqual({ contents: 'read' });
  expect(publish.permissions).toEqual({ contents: 'read', 'id-token': 'write' });
});

it('publishes what the gate has packed after it has passed, and nothing else', () => {
  expect(commands(gate)).toEqual([
    'node infra/release/check-release.ts',
    '.ci/run',
    '.ci/run images helm packages',
    'node infra/release/pack-packages.ts packages',
  ]);
  expect(publish.needs).toBe('gate');
  expect(publish.environment).toBe('npm');
  expect(commands(publish)).toEqual(['node infra/release/publish-packages.ts packages --provenance']);
  const artifact = ({ steps }: typeof gate, action: string) => {
    const { name, path } = steps.find(({ uses }) => uses?.startsWith(action))?.with ?? {};
    return { name, path };
  };
  expect(artifact(gate, 'actions/upload-artifact@')).toEqual({ name: 'packages', path: 'packages' });
  expect(artifact(publish, 'actions/download-artifact@')).toEqual({ name: 'packages', path: 'packages' });
});

it('gives the secret of npm to the step that publishes, and to no other', () => {
  const secret = [gate, publish]
    .flatMap(({ steps }) => steps)
    .filter((step) => JSON.stringify(step).includes('secrets.'));
  expect(secret).toEqual([publish.steps.at(-1)]);
});

it('puts nothing of the event into a command', () => {
  for (const command of [...commands(gate), ...commands(publish)]) expect(command).not.toContain('${{');
});

it('pins each action by a commit, and names its release beside', () => {
  const lines = text.split('\n').filter((line) => line.includes('uses:'));
  expect(lines).toHaveLength(6);
  for (const line of lines) expect(line).toMatch(/ uses: actions\/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
});

it('has Go as the control plane needs it', () => {
  const image = /golang:(\d+\.\d+)-/.exec(text)?.[1];
  const [module = ''] = globSync('infra/control-plane/module-kubernetes/go.mod', { cwd: repositoryRoot });
  expect(/^go (\d+\.\d+)/m.exec(readFileSync(join(repositoryRoot, module), 'utf8'))?.[1]).toBe(image);
});

it('runs nothing but Node in the job with the identity', () => {
  const imported = (file: string): string[] => {
    const source = readFileSync(join(repositoryRoot, 'infra/release', file), 'utf8');
    const names = [...source.matchAll(/from '([^']+)'/g)].map(([, name = '']) => name);
    return names.flatMap((name) => (name.startsWith('./') ? imported(name) : [name]));
  };
  const names = imported('publish-packages.ts');
  expect(names.length).toBeGreaterThan(3);
  expect(names.filter((name) => !name.startsWith('node:'))).toEqual([]);
});
