import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { resource } from '../../../src/core/index.ts';
import { Cluster } from '../../harness/cluster.ts';
import { ScriptedApiserver } from '../../harness/scripted-apiserver.ts';
import { UserCommand } from '../../harness/user-command.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const EXAMPLE = join(ROOT, 'functions/examples/02-custom-resource');

const schema = {
  type: 'object',
  required: ['spec', 'metadata'],
  properties: {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    metadata: { type: 'object' },
    spec: {
      type: 'object',
      required: ['size'],
      properties: {
        size: { type: 'integer', description: 'How large. */ process.exit(1); /*' },
        port: { 'x-kubernetes-int-or-string': true },
        mode: { type: 'string', enum: ['Fast', "It's slow"] },
        when: { type: 'string', format: 'date-time' },
        parts: { type: 'array', items: { type: 'object', properties: { name: { type: 'string' } } } },
        labels: { type: 'object', additionalProperties: { type: 'string' } },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        maybe: { type: 'string', nullable: true },
        'odd-name': { type: 'boolean' },
        trick: { type: 'string', tsType: 'typeof import("node:fs")', $ref: 'file:///etc/passwd' },
      },
    },
  },
};

function definition(
  kind: string,
  group: string,
  versions: object[] = [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
) {
  const plural = `${kind.toLowerCase()}s`;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: { group, scope: 'Namespaced', names: { kind, plural, singular: kind.toLowerCase() }, versions },
  };
}

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'levelhook-types-'));
  return () => rm(folder, { recursive: true });
});

async function types(...args: string[]): Promise<{ code: number | string; stdout: string[]; stderr: string[] }> {
  const flags = ['--conditions=levelhook-source', join(ROOT, 'src/cli/levelhook.js'), 'types', ...args];
  const command = new UserCommand(process.execPath, flags, { cwd: folder });
  const code = await command.exited;
  return { code, stdout: command.stdout, stderr: command.complaints };
}

/** What the compiler says of the made modules and a program that uses them. */
async function compileWith(program: string): Promise<string> {
  await mkdir(join(folder, 'node_modules'), { recursive: true });
  await symlink(ROOT, join(folder, 'node_modules/levelhook')).catch(() => {});
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  await writeFile(join(folder, 'use.ts'), program);
  const options = {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: { rootDir: '/', typeRoots: [join(ROOT, 'node_modules/@types')], noUnusedLocals: false },
    include: ['*.ts', 'types/*.ts'],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(options));
  const command = new UserCommand(join(ROOT, 'node_modules/.bin/tsc'), ['-p', folder], { cwd: folder });
  await command.exited;
  return command.stdout.join('\n');
}

describe('levelhook types, from files', () => {
  it('writes a module that compiles, with exactly the fields of the definition', async () => {
    const other = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x' } };
    const list = { apiVersion: 'v1', kind: 'List', items: [definition('Gear', 'example.com')] };
    // JSON is YAML; a bundle holds several objects.
    const text = [other, definition('Widget', 'example.com'), list].map((each) => JSON.stringify(each)).join('\n---\n');
    await writeFile(join(folder, 'crds.yaml'), text);
    expect(await types('crds.yaml')).toMatchObject({
      code: 0,
      stdout: ['types/widgets.example.com-v1.ts', 'types/gears.example.com-v1.ts'],
    });
    const program = `
      import type { CacheReader } from 'levelhook/function';
      import { Widget } from './types/widgets.example.com-v1.ts';
      export async function use(cache: CacheReader) {
        const { items } = await cache.list(Widget, { namespace: 'a' });
        const [widget] = items;
        if (!widget) return;
        const size: number = widget.spec.size;
        const port: number | string | undefined = widget.spec.port;
        const mode: 'Fast' | "It's slow" | undefined = widget.spec.mode;
        const when: string | undefined = widget.spec.when;
        const part: string | undefined = widget.spec.parts?.[0]?.name;
        const label: string | undefined = widget.spec.labels?.['x'];
        const free: unknown = widget.spec.free?.['anything'];
        const maybe: string | null | undefined = widget.spec.maybe;
        const odd: boolean | undefined = widget.spec['odd-name'];
        const trick: string | undefined = widget.spec.trick;
        const name: string = widget.metadata.name;
        // @ts-expect-error there is no such field
        widget.spec.nothing;
        // @ts-expect-error it is a number
        const wrong: string = widget.spec.size;
        return [size, port, mode, when, part, label, free, maybe, odd, trick, name, wrong];
      }`;
    expect(await compileWith(program)).toBe('');
    const made = await readFile(join(folder, 'types/widgets.example.com-v1.ts'), 'utf8');
    expect(made).not.toMatch(/node:fs|passwd|\*\/ process/);
    // Again: its own files are written anew.
    expect(await types('crds.yaml')).toMatchObject({ code: 0 });
  });

  it('types the values of a field as they are read: integers beyond 2^53, any JSON, and null where it is allowed', async () => {
    // The text, because no number has these integers.
    const enumOf = '{"type":"integer","enum":[1,9007199254740993]}';
    const fields = {
      size: 'SIZE',
      sizes: { type: 'array', items: 'SIZE' },
      least: { type: 'integer', enum: ['LEAST', null], nullable: true },
      word: { type: 'string', enum: ['a', 'b', null], nullable: true },
      port: { 'x-kubernetes-int-or-string': true, nullable: true },
      any: { 'x-kubernetes-preserve-unknown-fields': true },
      unrestricted: { type: 'string', enum: [] },
      shape: { 'x-kubernetes-preserve-unknown-fields': true, enum: ['none', { radius: 1 }] },
    };
    const spec = { type: 'object', required: Object.keys(fields), properties: fields };
    const openAPIV3Schema = { type: 'object', required: ['spec'], properties: { spec } };
    const version = { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } };
    const text = JSON.stringify(definition('Widget', 'example.com', [version]))
      .replaceAll('"SIZE"', enumOf)
      .replaceAll('"LEAST"', '-9223372036854775808');
    await writeFile(join(folder, 'crd.json'), text);
    expect(await types('crd.json')).toMatchObject({ code: 0, stderr: [] });
    const program = `
      import { Widget } from './types/widgets.example.com-v1.ts';
      type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
      type Spec = Widget['spec'];
      export const same: [
        Same<Spec['size'], 1 | 9007199254740993n>,
        Same<Spec['sizes'], (1 | 9007199254740993n)[]>,
        Same<Spec['least'], -9223372036854775808n | null>,
        Same<Spec['word'], 'a' | 'b' | null>,
        Same<Spec['port'], number | string | null>,
        Same<Spec['any'], unknown>,
        Same<Spec['unrestricted'], string>,
        Same<Spec['shape'], unknown>,
      ] = [true, true, true, true, true, true, true, true];`;
    expect(await compileWith(program)).toBe('');
  });

  it('makes types of every kind that the apiserver takes, whatever the module itself needs', async () => {
    const kinds = ['postgresql', 'Hyph-en', 'Resource', 'KubernetesObject', 'resource', 'Object', 'class', 'string'];
    // The generator of the fields would write K8SThing.
    const all = [...kinds, 'K8sThing', 'Fields'];
    const groups = all.map((_, at) => `g${at}.example.com`);
    const files = all.map((kind, at) => JSON.stringify(definition(kind, groups[at] ?? '')));
    await writeFile(join(folder, 'crds.yaml'), files.join('\n---\n'));
    expect(await types('crds.yaml')).toMatchObject({ code: 0, stderr: [] });
    const names = ['Postgresql', 'HyphEn', 'Resource', 'KubernetesObject', 'Resource', 'Object', 'Class', 'String'];
    const uses = [...names, 'K8sThing', 'Fields'].map((name, at) => {
      const file = `./types/${(all[at] ?? '').toLowerCase()}s.${groups[at]}-v1.ts`;
      return `import { ${name} as T${at} } from '${file}';
        export const size${at} = (it: T${at}): number => it.spec.size;
        export const kind${at}: string = T${at}.kind;`;
    });
    expect(await compileWith(uses.join('\n'))).toBe('');
    const postgresql = await readFile(join(folder, 'types/postgresqls.g0.example.com-v1.ts'), 'utf8');
    expect(postgresql).toContain("resource<Postgresql>('g0.example.com/v1', 'postgresql', {");
  });

  it('looks at no definition that was not asked for', async () => {
    const unusable = { ...definition('Old', 'example.com'), apiVersion: 'apiextensions.k8s.io/v1beta1' };
    const text = [unusable, definition('Widget', 'example.com')].map((each) => JSON.stringify(each)).join('\n---\n');
    await writeFile(join(folder, 'crds.yaml'), text);
    expect(await types('crds.yaml', '--only', 'widgets.example.com')).toMatchObject({ code: 0, stderr: [] });
    expect((await types('crds.yaml')).stderr[0]).toMatch(/apiVersion/);
  });

  it('makes of the conditions of Kubernetes what setStatusCondition takes and gives', async () => {
    await writeFile(join(folder, 'crd.yaml'), await readFile(join(EXAMPLE, 'site.crd.yaml'), 'utf8'));
    expect(await types('crd.yaml')).toMatchObject({ code: 0 });
    const program = `
      import { type Context, removeStatusCondition, setStatusCondition } from 'levelhook/function';
      import { Site } from './types/sites.example.com-v1.ts';
      export async function use(site: Site, { api }: Context) {
        const conditions = setStatusCondition(site.status?.conditions, { type: 'Ready', status: 'True', reason: 'Yes' });
        await api.replace(Site, { ...site, status: { ...site.status, conditions } }, 'status');
        const left = removeStatusCondition(site.status?.conditions, 'Ready');
        await api.replace(Site, { ...site, status: { ...site.status, conditions: left } }, 'status');
      }`;
    expect(await compileWith(program)).toBe('');
  });

  it('writes the types of the example, for the package that it is asked for', async () => {
    const file = 'sites.example.com-v1.ts';
    await writeFile(join(folder, 'site.crd.yaml'), await readFile(join(EXAMPLE, 'site.crd.yaml'), 'utf8'));
    expect(await types('site.crd.yaml', '--out', '.')).toMatchObject({ code: 0, stdout: [file] });
    const shipped = await readFile(join(EXAMPLE, file), 'utf8');
    expect(await readFile(join(folder, file), 'utf8')).toBe(shipped);
    expect(await types('site.crd.yaml', '--out', '.', '--from', '@levelhook/function')).toMatchObject({ code: 0 });
    const other = await readFile(join(folder, file), 'utf8');
    expect(other).toBe(shipped.replace("'levelhook/function'", "'@levelhook/function'"));
    const refused = await types('site.crd.yaml', '--from', "x'; import 'y");
    expect(refused).toMatchObject({ code: 1, stderr: [expect.stringMatching(/name of a package/)] });
  });

  it('writes each served version, and only what was asked for', async () => {
    const version = (name: string, served: boolean) => ({
      name,
      served,
      storage: false,
      schema: { openAPIV3Schema: schema },
    });
    const several = definition('Widget', 'example.com', [
      version('v1', true),
      version('v1beta1', true),
      version('v1alpha1', false),
    ]);
    await writeFile(join(folder, 'crd.json'), JSON.stringify(several));
    await writeFile(join(folder, 'other.yaml'), JSON.stringify(definition('Gear', 'example.com')));
    expect(await types('crd.json', 'other.yaml', '--only', 'widgets.example.com', '--out', 'a/b')).toMatchObject({
      code: 0,
    });
    expect(await readdir(join(folder, 'a/b'))).toEqual(['widgets.example.com-v1.ts', 'widgets.example.com-v1beta1.ts']);
  });

  it.each<[string, string, string[], RegExp]>([
    ['no file', '', ['nope.yaml'], /nope[.]yaml cannot be read/],
    ['no YAML', 'a: [', ['crd.yaml'], /crd[.]yaml is not YAML/],
    ['an empty file', '', ['crd.yaml'], /no CustomResourceDefinition in crd[.]yaml/],
    ['another object', 'kind: Pod', ['crd.yaml'], /no CustomResourceDefinition in crd[.]yaml/],
    [
      'a definition of an old version',
      JSON.stringify({ ...definition('A', 'b.c'), apiVersion: 'apiextensions.k8s.io/v1beta1' }),
      ['crd.yaml'],
      /apiVersion/,
    ],
    ['a name that leads elsewhere', JSON.stringify(definition('A', '../../x')), ['crd.yaml'], /spec[.]group/],
    ['a kind that is no name', JSON.stringify(definition('A; import "x"', 'b.c')), ['crd.yaml'], /spec[.]names/],
    [
      'a definition that is not there',
      JSON.stringify(definition('A', 'b.c')),
      ['crd.yaml', '--only', 'c.d'],
      /no custom resource definition "c[.]d"/,
    ],
    [
      'a folder that is a file',
      JSON.stringify(definition('A', 'b.c')),
      ['crd.yaml', '--out', 'crd.yaml'],
      /cannot be made/,
    ],
    ['no kubeconfig', '', ['--kubeconfig', 'nope'], /The kubeconfig nope cannot be read/],
  ])('says in one sentence that there is %s', async (_, text, args, message) => {
    if (text || args[0] === 'crd.yaml') await writeFile(join(folder, 'crd.yaml'), text);
    const { code, stdout, stderr } = await types(...args);
    expect([code, stdout, stderr.length]).toEqual([1, [], 1]);
    expect(stderr[0]).toMatch(message);
  });

  it('overwrites nothing that is not its own', async () => {
    await writeFile(join(folder, 'crd.yaml'), JSON.stringify(definition('Widget', 'example.com')));
    await mkdir(join(folder, 'types'));
    await writeFile(join(folder, 'types/widgets.example.com-v1.ts'), 'mine');
    expect((await types('crd.yaml')).stderr[0]).toMatch(/was not made by this command/);
    expect(await readFile(join(folder, 'types/widgets.example.com-v1.ts'), 'utf8')).toBe('mine');
  });
});

describe('levelhook types, from the cluster', () => {
  const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
  const group = 'types.levelhook.test';
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.connect(inject('kubeconfig'));
    // The apiserver itself refuses a reference.
    const { trick: _, ...properties } = schema.properties.spec.properties;
    const spec = { ...schema.properties.spec, properties };
    const openAPIV3Schema = { ...schema, properties: { ...schema.properties, spec } };
    const version = { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } };
    for (const kind of ['Gadget', 'postgresql']) {
      const { apiVersion: __, kind: ___, ...made } = definition(kind, group, [version]);
      await cluster.create(definitions, made);
    }
  });
  afterAll(async () => {
    for (const plural of ['gadgets', 'postgresqls']) await cluster.delete(definitions, { name: `${plural}.${group}` });
    await cluster.close();
  });

  const [gadgets, postgresqls] = ['gadgets', 'postgresqls'].map((plural) => `types/${plural}.${group}-v1.ts`);
  const program = `import { Gadget } from './${gadgets}'; export const size = (it: Gadget): number => it.spec.size;`;

  it('writes the same types as from the files of the definitions', async () => {
    const asked = ['--kubeconfig', inject('kubeconfig')];
    const only = await types(...asked, '--only', `gadgets.${group}`);
    expect(only).toEqual({ code: 0, stdout: [gadgets], stderr: [] });
    expect(await compileWith(program)).toBe('');
  });

  it('writes all, looks at no definition that was not asked for, and names one that cannot be used', async () => {
    // No apiserver of today has such a version.
    const later = definition('Later', group, [{ name: '2', served: true, schema: { openAPIV3Schema: schema } }]);
    await using server = await ScriptedApiserver.start();
    // The real plane has definitions of other tests.
    let items = [definition('Gadget', group), definition('postgresql', group)];
    server.answer(() => ({ items }));
    const kubeconfig = join(folder, 'kubeconfig');
    const clusters = [{ name: 'it', cluster: { server: server.client.server, 'insecure-skip-tls-verify': true } }];
    const contexts = [{ name: 'here', context: { cluster: 'it' } }];
    await writeFile(kubeconfig, JSON.stringify({ clusters, contexts, 'current-context': 'here' }));
    const asked = ['--kubeconfig', kubeconfig];
    expect(await types(...asked)).toEqual({ code: 0, stdout: [gadgets, postgresqls], stderr: [] });
    expect(await compileWith(`import { Postgresql } from './${postgresqls}'; void Postgresql; ${program}`)).toBe('');
    items = [later, definition('Gadget', group)];
    expect(await types(...asked, '--only', `gadgets.${group}`)).toMatchObject({ code: 0, stderr: [] });
    expect((await types(...asked, '--out', 'all')).stderr).toEqual([
      expect.stringContaining(`, laters.${group}, holds no CustomResourceDefinition that can be used (spec.versions.0`),
    ]);
    expect(await readdir(folder)).not.toContain('all');
  });
});
