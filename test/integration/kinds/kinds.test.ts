import { readdir, readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { afterAll, beforeAll, expect, expectTypeOf, inject, it } from 'vitest';
import { formatKinds, KINDS_FOLDER } from '../../../infra/kinds/format-kinds.ts';
import { generateKinds, readSchemas, type Schema, targetOf } from '../../../infra/kinds/generate-kinds.ts';
import * as kinds from '../../../src/function/kinds/index.ts';
import { type CacheReader, equal } from '../../../src/function/index.ts';
import { discoverResource } from '../../../src/ground/apiserver/discovery.ts';
import { Cluster } from '../../harness/cluster.ts';

let cluster: Cluster;
beforeAll(async () => {
  cluster = await Cluster.connect(inject('kubeconfig'));
});
afterAll(() => cluster.close());

it('the types of built-in kinds are those of the apiserver: `npm run kinds` makes them anew', async () => {
  const made = await formatKinds(await generateKinds(cluster.client));
  const names = (await readdir(KINDS_FOLDER)).filter((name) => name.endsWith('.ts'));
  expect(names.toSorted()).toEqual([...made.keys()].toSorted());
  for (const [name, text] of made) expect(await readFile(resolve(KINDS_FOLDER, name), 'utf8'), name).toBe(text);
});

it('every kind has the plural and scope that the apiserver serves', async () => {
  const all = Object.values(kinds);
  expect(all.length).toBeGreaterThan(50);
  for (const kind of all) expect(await discoverResource(cluster.client, kind)).toEqual(kind);
});

it('equal never takes an empty object for absent in a field of a built-in kind that is a pointer in Go', async () => {
  const { schemas, kinds: all } = await readSchemas(cluster.client);
  const isStructure = (name: string): boolean => schemas.get(name)?.properties !== undefined;
  // An object with a value at a path; undefined leaves the field out.
  const built = ([first, ...rest]: readonly string[], value: unknown): unknown => {
    if (first === undefined) return value;
    if (first === '[]') return [built(rest, value)];
    const inner = built(rest, value);
    return inner === undefined ? {} : { [first]: inner };
  };
  const wrong: string[] = [];
  const compared = { same: 0, other: 0 };
  const visit = (name: string, path: readonly string[], root: object, seen: ReadonlySet<string>): void => {
    for (const [field, schema] of Object.entries(schemas.get(name)?.properties ?? {})) {
      const at = [...path, field];
      const target = targetOf(schema)?.name;
      const isOne = schema.$ref !== undefined || schema.allOf !== undefined;
      if (isOne ? target !== undefined && isStructure(target) : schema.type === 'object') {
        const [empty, absent] = [{}, undefined].map((value) => Object.assign(built(at, value) as object, root));
        const isPointer = isOne && schema.default === undefined;
        compared[isPointer ? 'other' : 'same'] += 1;
        if (isPointer && equal(empty, absent)) wrong.push(`${JSON.stringify(root)} ${at.join('.')}`);
      }
      if (target === undefined || seen.has(target)) continue;
      visit(target, [...at, ...stepsOf(schema)], root, new Set([...seen, target]));
    }
  };
  for (const { schema, apiVersion, kind } of all) visit(schema, [], { apiVersion, kind }, new Set([schema]));
  expect(wrong).toEqual([]);
  expect(compared.other).toBeGreaterThan(500);
  expect(compared.same).toBeGreaterThan(500);
});

/** The steps from a field into its type, through lists and maps. */
function stepsOf(schema: Schema): string[] {
  if (schema.items) return ['[]', ...stepsOf(schema.items)];
  return schema.additionalProperties ? ['key', ...stepsOf(schema.additionalProperties)] : [];
}

it('what is read is typed as the JSON that it is', () => {
  const read = async (cache: CacheReader) => {
    const pod = await cache.get(kinds.Pod, { namespace: 'a', name: 'b' });
    const { items } = await cache.list(kinds.Deployment);
    const events = await cache.list<kinds.Event>(kinds.Event);
    return { pod, deployment: items[0], event: events.items[0] };
  };
  type Read = Awaited<ReturnType<typeof read>>;
  type Pod = NonNullable<Read['pod']>;
  type Deployment = NonNullable<Read['deployment']>;
  expectTypeOf<Pod>().toEqualTypeOf<kinds.Pod>();
  expectTypeOf<NonNullable<Pod['status']>['startTime']>().toEqualTypeOf<string | undefined>();
  expectTypeOf<Pod['metadata']['creationTimestamp']>().toEqualTypeOf<string | undefined>();
  expectTypeOf<NonNullable<Deployment['spec']>['replicas']>().toEqualTypeOf<number | undefined>();
  expectTypeOf<kinds.RollingUpdateDeployment['maxSurge']>().toEqualTypeOf<number | string | undefined>();
  expectTypeOf<NonNullable<kinds.ResourceRequirements['limits']>[string]>().toEqualTypeOf<string>();
  expectTypeOf<kinds.Secret['data']>().toEqualTypeOf<Record<string, string> | undefined>();
  expectTypeOf<NonNullable<Read['event']>['involvedObject']>().toEqualTypeOf<kinds.ObjectReference>();
});
