import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { expect, it } from 'vitest';
import { typesOf, parseDefinition } from './crd-types.ts';
import { formatKubectlYaml, parseKubectlYaml, valueOf } from './kubectl-yaml.ts';
import { mergedDefinitions } from './merged-definition.ts';

const documentsOf = (text: string): unknown[] => [...parseKubectlYaml(text)].map((each) => valueOf(each));

it.each([
  ['0644', 420],
  ['on', true],
  ['1_000', 1000],
  ['7', 7],
  ['9007199254740993', 9007199254740993n],
  ['-9223372036854775808', -9223372036854775808n],
  ['"0644"', '0644'],
  ['1.5', 1.5],
])('a file is read as kubectl reads it: %s', (text, value) => {
  expect(documentsOf(`a: ${text}\n`)).toEqual([{ a: value }]);
});

it.each([
  'off',
  'on',
  'y',
  'n',
  'yes',
  'no',
  '0644',
  '1_2',
  '0x1_f',
  '1e5',
  '~',
  '.inf',
  '12:30',
  '2026-01-01',
  'plain',
])('the text %s is written so that every reader has it back', (text) => {
  const value = { name: text, labels: { [text]: text } };
  const written = formatKubectlYaml(value);
  expect(parse(written, { version: '1.1' })).toEqual(value);
  expect(parse(written, { version: '1.2' })).toEqual(value);
});

const DEFINITION = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.a.com}
spec:
  group: a.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            size: {type: integer, default: 9007199254740993, enum: [7, 9223372036854775807]}
            perm: {type: integer, default: 0644}
`;

it('a definition that gets a conversion keeps its numbers', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'levelhook-crd-'));
  try {
    const file = join(directory, 'things.crd.yaml');
    await writeFile(file, DEFINITION);
    const conversion = {
      metadata: { name: 'things.a.com', labels: { inject: 'on' } },
      spec: { conversion: { strategy: 'None' } },
    };
    const [merged = ''] = await mergedDefinitions(file, [conversion]);
    expect(merged).toContain('default: 9007199254740993');
    expect(merged).toContain('9223372036854775807');
    const [value] = documentsOf(merged) as [{ metadata: { labels: object } }];
    expect(value.metadata.labels).toEqual({ inject: 'on' });
    expect(merged).toContain('default: 0644');
  } finally {
    await rm(directory, { recursive: true });
  }
});

it('types of a definition have no literal that is another number', async () => {
  const [value] = documentsOf(DEFINITION);
  const types = await typesOf(parseDefinition(value, 'things.crd.yaml'), 'things.crd.yaml');
  expect([...types.values()].join('')).toMatch(/size\?: 7 \| 9223372036854775807n;/);
});
