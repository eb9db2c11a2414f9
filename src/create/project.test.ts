import { resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import type { ProjectOptions } from './project-options.ts';
import { controllerVariable } from './project-texts.ts';
import { BUILT_IN, checkProjectName, projectKind, projectFiles } from './project.ts';

const COMMON = { language: 'typescript', packageManager: 'npm', version: '1.2.3', bringsNode: false } as const;
const PROJECTS: readonly ProjectOptions[] = [
  { ...COMMON, name: 'site', kind: projectKind('example.com/v1/Site') },
  { ...COMMON, name: 'my-policies', kind: projectKind('shop.example.com/v1alpha1/Policy'), packageManager: 'pnpm' },
  { ...COMMON, name: 'site', kind: projectKind('example.com/v1/Site'), language: 'python' },
  { ...COMMON, name: 'my-policies', kind: projectKind('shop.example.com/v1/Policy'), language: 'go' },
  { ...COMMON, name: 'marks', kind: projectKind('v1/Service'), language: 'python', packageManager: 'pnpm' },
  { ...COMMON, name: 'marks', kind: projectKind('v1/Secret'), language: 'go' },
  ...[...BUILT_IN.keys()].map((kind) => ({ ...COMMON, name: 'labels', kind: projectKind(kind), bringsNode: true })),
];

it.each(PROJECTS.map((project) => [`${project.name}, ${project.kind.kind}, ${project.language}`, project] as const))(
  'the files of a new project are as prettier leaves them: %s',
  async (_, project) => {
    for (const [path, text] of projectFiles(project)) {
      const config = await resolveConfig(resolve('infra/checks/prettier.json'));
      const options = { ...config, singleQuote: true, printWidth: 120, filepath: path };
      if (!/\.(ts|json|md|ya?ml)$/.test(path) || path.startsWith('crds/')) continue;
      expect(await format(text, options), path).toBe(text);
    }
  },
);

it('a project with a kind of its own has its definition, and the same names everywhere', () => {
  const [, policies] = PROJECTS;
  if (!policies) throw new Error('there is no such project');
  const files = projectFiles(policies);
  const definition = parse(files.get('crds/policies.shop.example.com.yaml') ?? '') as {
    metadata: object;
    spec: object;
  };
  expect(definition.metadata).toEqual({ name: 'policies.shop.example.com' });
  expect(definition.spec).toMatchObject({ group: 'shop.example.com', names: { kind: 'Policy', plural: 'policies' } });
  expect(files.get('src/kinds.ts')).toContain("'shop.example.com/v1alpha1', 'Policy', { plural: 'policies' }");
  expect(files.get('src/my-policies.ts')).toContain('export const myPolicies = controller({');
  expect(files.get('src/node.ts')).toContain("import { myPolicies } from './my-policies.ts';");
  expect(files.get('Dockerfile')).toContain('pnpm install --prod --frozen-lockfile');
  expect(JSON.parse(files.get('package.json') ?? '')).toMatchObject({
    dependencies: { '@levelhook/function': '^1.2.3' },
    devDependencies: { levelhook: '^1.2.3' },
  });
});

it('names and kinds that no project can have are refused in a sentence', () => {
  for (const kind of [
    'Site',
    'example.com/v1',
    'a/b/c/D',
    'example.com/v1/site',
    'Example.com/v1/Site',
    'apps/v1/Deployment',
  ]) {
    expect(() => projectKind(kind), kind).toThrow(/^".*" is no kind/);
  }
  for (const name of ['', 'A', 'a.b', '-a', '1a', 'x'.repeat(51)]) {
    expect(() => checkProjectName(name), name).toThrow(/is no name of a controller/);
  }
  expect(projectKind('v1/ConfigMap')).toEqual({ group: '', version: 'v1', kind: 'ConfigMap', own: false });
  expect(projectKind('networking.k8s.io/v1/Ingress'.replace('networking.k8s.io', 'example.com'))).toMatchObject({
    own: true,
  });
});

it('no name or kind of a project is one that its files have for something else', () => {
  const declared = new Set(['node', 'kinds', 'delete', 'new', 'await']);
  for (const project of PROJECTS) {
    for (const [path, text] of projectFiles(project)) {
      if (!path.endsWith('.ts')) continue;
      const lists = text.matchAll(/(?:import(?: type)?|const|let|request,) \{([^}]*)\}/g);
      for (const [, list = ''] of lists) {
        for (const each of list.split(','))
          declared.add(each.replace(/=.*/s, '').replace(/.*:/s, '').replace('type ', '').trim());
      }
      for (const [, each = ''] of text.matchAll(/(?:const|let) (\w+)/g)) declared.add(each);
    }
  }
  const own = PROJECTS.flatMap(({ kind, name }) => [kind.kind, controllerVariable(name)]);
  for (const each of own) if (each !== 'ConfigMap') declared.delete(each);
  expect(declared.size).toBeGreaterThan(40);
  for (const each of declared) {
    if (each === '') continue;
    if (/^[A-Z]/.test(each)) expect(() => projectKind(`example.com/v1/${each}`), each).toThrow(/import another/);
    else
      expect(() => checkProjectName(each.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)), each).toThrow(
        /for something else/,
      );
  }
});
