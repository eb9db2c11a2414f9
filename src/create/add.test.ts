import { expect, it } from 'vitest';
import { format, resolveConfig } from 'prettier';
import { addController, addKind, addWebhook } from './add.ts';
import { projectFiles, projectKind } from './project.ts';

const PROJECT = projectFiles({
  name: 'site',
  kind: projectKind('example.com/v1/Site'),
  language: 'typescript',
  packageManager: 'npm',
  version: '0.1.0',
  bringsNode: false,
});
const read = (path: string): string | undefined => PROJECT.get(path);
const report = { name: 'report', kind: projectKind('example.com/v1/Report') };

it('a controller comes with its tests, its kind and its definition, and is served with the first one', async () => {
  const { files, left } = addController(report, read);
  expect(left).toEqual([
    expect.stringMatching(/^Several controllers of a function have paths of their own, such as \/report: /),
  ]);
  expect([...files.keys()].toSorted()).toEqual([
    'crds/reports.example.com.yaml',
    'src/kinds.ts',
    'src/node.ts',
    'src/report.cluster.test.ts',
    'src/report.test.ts',
    'src/report.ts',
  ]);
  expect(files.get('src/node.ts')).toBe(`import { serveController } from '@levelhook/function/node';
import { site } from './site.ts';
import { report } from './report.ts';

await serveController([site, report]);
`);
  const kinds = files.get('src/kinds.ts') ?? '';
  expect(kinds.startsWith(read('src/kinds.ts') ?? 'none')).toBe(true);
  expect(kinds).toContain('export interface ReportSpec {');
  const config = await resolveConfig('infra/checks/prettier.json');
  for (const [path, text] of files) {
    if (path.endsWith('.ts'))
      expect(await format(text, { ...config, printWidth: 120, singleQuote: true, filepath: path })).toBe(text);
  }
});

it('a third controller for a kind that is there leaves the kinds alone', () => {
  const before = new Map([...PROJECT, ...addController(report, read).files]);
  const third = addController({ name: 'copies', kind: projectKind('example.com/v1/Report') }, (path) =>
    before.get(path),
  );
  expect(third.files.get('src/node.ts')).toContain('serveController([site, report, copies]);');
  expect([...third.files.keys()].some((path) => path.includes('kinds') || path.startsWith('crds/'))).toBe(false);
});

it('an entry that its author has changed stays as it is, and the author is told what to do', () => {
  const own = (path: string): string | undefined => (path === 'src/node.ts' ? 'await serveMyWay();\n' : read(path));
  const { files, left } = addController(report, own);
  expect(files.has('src/node.ts')).toBe(false);
  expect(left[0]).toBe(
    "Serve it in src/node.ts: import { report } from './report.ts', and give it to serveController.",
  );
});

it('an entry in several lines keeps its controllers, and no file of the author is overwritten', () => {
  const lines = "import { serveController } from 'x';\n\nawait serveController([\n  one,\n  two,\n]);\n";
  const long = (path: string): string | undefined => (path === 'src/node.ts' ? lines : read(path));
  expect(addController(report, long).files.get('src/node.ts')).toContain('two, report]);');
  const tested = (path: string): string | undefined => (path === 'src/report.test.ts' ? 'mine' : read(path));
  expect(() => addController(report, tested)).toThrow(/src\/report\.test\.ts is there already/);
  expect(() => addKind(projectKind('example.com/v2/Site'), read)).toThrow(/has another Site/);
  expect(() => addKind(projectKind('other.example/v1/Site'), read)).toThrow(/has another Site/);
});

it('a webhook and a kind are added, and what is there already is refused in a sentence', () => {
  expect(
    addWebhook({ name: 'names', kind: projectKind('example.com/v1/Site') }, read).files.get('src/names.ts'),
  ).toContain("export const names = validatingWebhook({ name: 'names', for: Site })");
  expect([...addKind(report.kind, read).files.keys()]).toEqual(['src/kinds.ts', 'crds/reports.example.com.yaml']);
  expect(() => addKind(projectKind('example.com/v1/Site'), read)).toThrow(/has the kind Site already/);
  expect(() => addKind(projectKind('v1/ConfigMap'), read)).toThrow(/is a kind of Kubernetes/);
  expect(() => addController({ ...report, name: 'site' }, read)).toThrow(/src\/site\.ts is there already/);
  expect(() => addController(report, () => undefined)).toThrow(/There is no src\/node\.ts here/);
});
