import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { resource } from '../../core/index.ts';
import { type CustomResourceDefinition, readDefinitions } from './definitions.ts';
import { MemoryApiserver } from './memory-apiserver.ts';
import { testContext } from './test-context.ts';

const SPEC = {
  type: 'object',
  properties: {
    size: { type: 'integer', default: 2 },
    mode: { type: 'string', nullable: true, default: 'slow' },
    inner: { type: 'object', default: {}, properties: { on: { type: 'boolean', default: true } } },
    parts: { type: 'array', items: { type: 'object', properties: { port: { type: 'integer', default: 80 } } } },
    named: {
      type: 'object',
      additionalProperties: { type: 'object', properties: { a: { type: 'string', default: 'b' } } },
    },
  },
};
const ROOT = { type: 'object', properties: { spec: SPEC } };
const definition: CustomResourceDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'policies.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Cluster',
    names: { kind: 'Policy', plural: 'policies' },
    versions: [{ name: 'v1', served: true, schema: { openAPIV3Schema: ROOT } }],
  },
};

type Policy = ReturnType<MemoryApiserver['objects']>[number] & { spec: object; status?: object };
const Policy = resource<Policy>('example.com/v1', 'Policy', { plural: 'policies', namespaced: false });

it('an object of a defined kind has the defaults of the definition, at any depth, and null where it may be', async () => {
  const apiserver = new MemoryApiserver({ definitions: [definition] });
  const { api } = testContext({ apiserver });
  const spec = { size: null, mode: null, parts: [{}, { port: 1 }], named: { x: {} } };
  await api.create(Policy, { metadata: { name: 'one' }, spec });
  expect(apiserver.object(Policy, { name: 'one' })?.spec).toEqual({
    size: 2,
    mode: null,
    inner: { on: true },
    parts: [{ port: 80 }, { port: 1 }],
    named: { x: { a: 'b' } },
  });
  await api.patch(Policy, { name: 'one' }, { type: 'merge', body: { spec: { size: null, inner: null } } });
  expect(apiserver.object(Policy, { name: 'one' })?.spec).toMatchObject({ size: 2, inner: { on: true } });
});

it('a defined kind has the plural, the scope and the status of its definition', async () => {
  const apiserver = new MemoryApiserver({
    definitions: [definition],
    objects: [{ apiVersion: 'example.com/v1', kind: 'Policy', metadata: { name: 'one' }, spec: {} }],
  });
  const { api } = testContext({ apiserver });
  expect((await api.get(Policy, { name: 'one' }))?.spec).toMatchObject({ size: 2 });
  // Without the subresource the status is a field like any other.
  await api.patch(Policy, { name: 'one' }, { type: 'merge', body: { status: { ok: true } } });
  expect(apiserver.object(Policy, { name: 'one' })?.status).toEqual({ ok: true });
});

it('definitions are read from the files of a folder, and a folder without any is a mistake', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'levelhook-definitions-'));
  await expect(readDefinitions(folder)).rejects.toThrow(/^There is no CustomResourceDefinition in the folder /);
  writeFileSync(join(folder, 'a.yaml'), `kind: ConfigMap\n---\n${JSON.stringify(definition)}\n`);
  writeFileSync(join(folder, 'b.txt'), JSON.stringify(definition));
  expect(await readDefinitions(folder)).toEqual([definition]);
  rmSync(folder, { recursive: true });
});
