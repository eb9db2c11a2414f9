import { expect } from 'vitest';
import { ListWatch, type Scope } from '../../../src/gateway/informer/reflector/list-watch.ts';
import { lines } from '../../../src/gateway/informer/reflector/lines.ts';
import { configMaps } from '../../harness/cluster.ts';
import { ScriptedApiserver } from '../../harness/scripted-apiserver.ts';
import { it } from '../../harness/world.ts';

const DROP = ['metadata.managedFields'];

it.for([
  ['whole objects', {}, 'application/json;drop=metadata.managedFields,application/json'],
  [
    'metadata alone',
    { metadataOnly: true },
    'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;drop=metadata.managedFields,' +
      'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
  ],
] as const)('the server is asked to leave out dropped managedFields of %s', async ([, scope, accept]) => {
  await using server = await ScriptedApiserver.start();
  const { signal } = new AbortController();
  const watching = new ListWatch(server.client, configMaps, { ...scope, drop: DROP }).watch({}, signal);
  const asked = await server.next();
  expect(asked.accept).toBe(accept);
  asked.list([], '1');
  (await watching).resume();
  const keeping = new ListWatch(server.client, configMaps, { drop: ['data'] }).watch({}, signal);
  const kept = await server.next();
  expect(kept.accept).toBe('application/json');
  kept.list([], '1');
  (await keeping).resume();
});

it('a server that does not know the parameter gives whole objects and metadata as before', async ({
  world: { cluster, namespace },
}) => {
  const { metadata } = await cluster.create(configMaps, { metadata: { namespace, name: 'dropped' }, data: { a: 'b' } });
  const signal = AbortSignal.timeout(60_000);
  for (const scope of [{}, { metadataOnly: true }]) {
    const own: Scope = { ...scope, namespace, fieldSelector: 'metadata.name=dropped' };
    const listed = async (drop: readonly string[]): Promise<unknown[]> => {
      const items: unknown[] = [];
      for await (const page of new ListWatch(cluster.client, configMaps, { ...own, drop }).pages('', signal)) {
        items.push(...page.items.map(({ metadata: { managedFields: _, ...rest }, ...item }) => ({ ...item, ...rest })));
      }
      return items;
    };
    const items = await listed(DROP);
    expect(items).toMatchObject([{ uid: metadata.uid }]);
    expect(items).toEqual(await listed([]));
    const watched = new ListWatch(cluster.client, configMaps, { ...own, drop: DROP });
    const stream = await watched.watch({ resourceVersion: '0' }, signal);
    for await (const [line] of lines(stream)) {
      const event = JSON.parse(line?.toString('utf8') ?? '') as { type: string; object: { metadata: object } };
      expect(event).toMatchObject({ type: 'ADDED', object: { metadata: { name: 'dropped', uid: metadata.uid } } });
      break;
    }
    stream.destroy();
  }
});
