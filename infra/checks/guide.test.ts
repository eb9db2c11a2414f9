import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect, it } from 'vitest';
import { projectKind, projectFiles } from '../../src/create/project.ts';
import { repositoryRoot, runNode } from './temp-repository.ts';

const GUIDE = join(repositoryRoot, 'infra/docs/guide');

const blocksOf = (file: string, language: string): string[] =>
  [...readFileSync(file, 'utf8').matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(
    ([, text = '']) => text,
  );

it('the code of the guide type-checks in the project that it begins with', () => {
  const folder = mkdtempSync(join(tmpdir(), 'levelhook-guide-'));
  const files = projectFiles({
    name: 'site',
    kind: projectKind('example.com/v1/Site'),
    language: 'typescript',
    packageManager: 'npm',
    version: '0.1.0',
    bringsNode: false,
  });
  const blocks = globSync('*.md', { cwd: GUIDE }).flatMap((name) =>
    blocksOf(join(GUIDE, name), 'ts').map((text, at) => [`${basename(name, '.md')}-${at}.ts`, text] as const),
  );
  expect(blocks.length).toBeGreaterThan(8);
  mkdirSync(join(folder, 'src'));
  symlinkSync(join(repositoryRoot, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  for (const name of ['src/kinds.ts', 'src/site.ts']) writeFileSync(join(folder, name), files.get(name) ?? '');
  for (const [name, text] of blocks) writeFileSync(join(folder, 'src', name), text);
  const sources = (path: string): string[] => [join(repositoryRoot, 'src', path)];
  const paths = {
    '@levelhook/function': sources('function/index.ts'),
    '@levelhook/function/kinds': sources('function/kinds/index.ts'),
    '@levelhook/function/node': sources('function/node/index.ts'),
    '@levelhook/function/callback': sources('function/callback.ts'),
    '@levelhook/function/webhooks': sources('function/webhooks/index.ts'),
    'levelhook/testing/reconciler': sources('testing/reconciler/index.ts'),
  };
  const project = JSON.parse(files.get('tsconfig.json') ?? '') as { compilerOptions: object };
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ ...project, compilerOptions: { ...project.compilerOptions, paths } }),
  );
  const { output } = runNode(folder, [join(repositoryRoot, 'node_modules/typescript/bin/tsc'), '--pretty', 'false']);
  rmSync(folder, { recursive: true });
  expect(output).toBe('');
}, 120_000);

it('the commands of the first chapter are those that a test gives, or that need another terminal', () => {
  const commands = blocksOf(join(GUIDE, 'ten-minutes.md'), 'sh').flatMap((text) => text.trim().split('\n'));
  // test/integration/packages/create.test.ts gives these, with the packages of this tree.
  const tested = ['npm test', 'npm run dev', 'npm run crds', 'npm run test:cluster'];
  expect(commands).toEqual([
    'npm create levelhook@latest site',
    'cd site',
    'npm test',
    'npm run dev',
    'export KUBECONFIG=.levelhook/control-plane/kubeconfig',
    'kubectl apply -f deploy/sample.yaml',
    'kubectl get sites',
    'npx levelhook explain site default/hello',
    'npm run crds',
    'npm run test:cluster',
  ]);
  const test = readFileSync(join(repositoryRoot, 'test/integration/packages/create.test.ts'), 'utf8');
  for (const command of tested) expect(test).toContain(`'${command.replace(/^npm (run )?/, '')}'`);
});
