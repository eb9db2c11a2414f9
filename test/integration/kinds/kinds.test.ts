import { readdir, readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { afterAll, beforeAll, expect, expectTypeOf, inject, it } from 'vitest';
import { formatKinds, KINDS_FOLDER } from '../../../infra/kinds/format-kinds.ts';
import { generateKinds } from '../../../infra/kinds/generate-kinds.ts';
import * as kinds from '../../../src/function/kinds/index.ts';
import type { CacheReader } from '../../../src/function/index.ts';
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
