import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { parse } from 'yaml';
import { projectFiles, projectKind } from '../../create/project.ts';
import { definitionFiles } from './definition.ts';
import { kindsIn, type KindVersion } from './kinds.ts';

let folder: string;

beforeEach(() => {
  // In the repository, where the types of levelhook are found.
  folder = mkdtempSync(join(tmpdir(), 'levelhook-kinds-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

async function kindsOf(text: string, name = 'kinds.ts'): Promise<KindVersion[]> {
  const file = join(folder, name);
  writeFileSync(file, text);
  return kindsIn([file]);
}

const specOf = (kinds: readonly KindVersion[]) => kinds[0]?.schema.properties?.['spec']?.properties;

it('a kind has the group, the names and the columns of its markers', async () => {
  const [site] = await kindsOf(`
    /**
     * A web site.
     * @kind example.com/v1
     * @shortName st, si
     * @category all
     * @scope Cluster
     * @printColumn
     *   Ready string .status.conditions[?(@.type=="Ready")].status
     *   Pages integer .status.pages
     * @scale .spec.replicas .status.replicas .status.selector
     * @validation
     *   self.spec.a < self.spec.b :: a must be less than b
     *   has(self.spec.a) :: there must be an a
     */
    export interface Site { apiVersion: string; kind: string; metadata: object; spec: { a: number; b?: number }; status?: { pages: number } }
  `);
  expect(site).toMatchObject({
    group: 'example.com',
    version: 'v1',
    kind: 'Site',
    plural: 'sites',
    namespaced: false,
    shortNames: ['st', 'si'],
    categories: ['all'],
    printColumns: [
      { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
      { name: 'Pages', type: 'integer', jsonPath: '.status.pages' },
    ],
    scale: { replicas: '.spec.replicas', status: '.status.replicas', selector: '.status.selector' },
    hasStatus: true,
    schema: {
      description: 'A web site.',
      required: ['spec'],
      'x-kubernetes-validations': [
        { rule: 'self.spec.a < self.spec.b', message: 'a must be less than b' },
        { rule: 'has(self.spec.a)', message: 'there must be an a' },
      ],
    },
  });
});

it('a field has the bounds, the default and the rules of its markers', async () => {
  const kinds = await kindsOf(`
    /** @kind example.com/v1 */
    export interface Site {
      spec: {
        /**
         * How many.
         * @format int32
         * @minimum 1
         * @default 2
         */
        replicas?: number;
        /** @pattern ^[a-z]+$ */
        host: string;
        theme?: 'light' | 'dark';
        port?: number | string;
        /**
         * @listType map
         * @listMapKey name
         */
        items?: readonly Item[];
        /** @preserveUnknownFields true */
        raw?: { a?: string };
        any?: unknown;
        texts: Record<string, string>;
      };
    }
    /** @validation self.name != 'x' :: x is taken */
    export interface Item { name: string }
  `);
  expect(specOf(kinds)).toEqual({
    replicas: { type: 'integer', description: 'How many.', format: 'int32', minimum: 1, default: 2 },
    host: { type: 'string', pattern: '^[a-z]+$' },
    theme: { type: 'string', enum: ['light', 'dark'] },
    port: { 'x-kubernetes-int-or-string': true },
    items: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name'],
        properties: { name: { type: 'string' } },
        'x-kubernetes-validations': [{ rule: "self.name != 'x'", message: 'x is taken' }],
      },
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
    },
    raw: { type: 'object', properties: { a: { type: 'string' } }, 'x-kubernetes-preserve-unknown-fields': true },
    any: { 'x-kubernetes-preserve-unknown-fields': true },
    texts: { type: 'object', additionalProperties: { type: 'string' } },
  });
});

it.each([
  ['@kind example.com', 'spec: {}', /kinds\.ts, Site: @kind example\.com must be GROUP\/VERSION\.$/],
  ['@kind example.com/v1\n * @scope all', 'spec: {}', /@scope all must be Namespaced or Cluster\.$/],
  ['@kind example.com/v1\n * @printColumn Ready', 'spec: {}', /@printColumn Ready must be a name, one of string, /],
  ['@kind example.com/v1', 'spec: { tree: Tree }', /The field spec\.tree\.of contains itself by the type Tree/],
  ['@kind example.com/v1', 'spec: { pair: [string, number] }', /The field spec\.pair is a tuple/],
  [
    '@kind example.com/v1',
    'spec: { both: string | boolean }',
    /The field spec\.both is string or boolean|boolean or string/,
  ],
])('a type that no definition can say is refused with its place: %s, %s', async (tags, fields, message) => {
  const text = `/** ${tags}\n */\nexport interface Site { ${fields} }\nexport interface Tree { of?: Tree }\n`;
  await expect(kindsOf(text)).rejects.toThrow(message);
});

it('versions of a kind make one definition, of which one is stored', async () => {
  const version = (name: string, tags = ''): string =>
    `/**\n * @kind example.com/${name}\n${tags} */\nexport interface Site { spec: { a?: string } }\n`;
  const old = await kindsOf(version('v1alpha1', ' * @served false\n * @deprecated use v1\n'), 'old.ts');
  const now = await kindsOf(version('v1', ' * @storage true\n'), 'now.ts');
  const [file, ...more] = definitionFiles([...old, ...now]);
  expect(more).toEqual([]);
  expect(file?.name).toBe('sites.example.com.yaml');
  expect(parse(file?.text ?? '')).toMatchObject({
    spec: {
      versions: [
        { name: 'v1alpha1', served: false, storage: false, deprecated: true, deprecationWarning: 'use v1' },
        { name: 'v1', served: true, storage: true },
      ],
    },
  });
  const neither = await kindsOf(version('v2'), 'neither.ts');
  expect(() => definitionFiles([...old, ...neither])).toThrow(
    /0 of the 2 versions of sites\.example\.com have "@storage true"/,
  );
  const again = await kindsOf(version('v1'), 'again.ts');
  expect(() => definitionFiles([...now, ...again])).toThrow(/is the version v1 of sites\.example\.com, too/);
});

it('the definition of a new project is that of its types', async () => {
  const files = projectFiles({
    name: 'site',
    kind: projectKind('example.com/v1/Site'),
    language: 'typescript',
    packageManager: 'npm',
    version: '0.1.0',
    bringsNode: false,
  });
  const text = (files.get('src/kinds.ts') ?? '').replace(
    '@levelhook/function',
    join(process.cwd(), 'src/function/index.ts'),
  );
  const [definition] = definitionFiles(await kindsOf(text));
  expect(definition?.text).toBe(files.get('crds/sites.example.com.yaml'));
});
