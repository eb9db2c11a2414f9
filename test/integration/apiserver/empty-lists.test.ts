import { expect } from 'vitest';
import { formatObjectKey } from '../../../src/core/index.ts';
import { ListWatch } from '../../../src/gateway/informer/reflector/list-watch.ts';
import { configMaps } from '../../harness/cluster.ts';
import { it } from '../../harness/world.ts';

/** For a list without objects the apiserver answers `items: null` when it is asked for metadata alone. */
it('a list of metadata without objects is a list: a leader looks for an object that was deleted before it led', async ({
  world: { cluster, namespace },
}) => {
  const key = { namespace, name: 'gone' };
  const { metadata } = await cluster.create(configMaps, { metadata: key });
  const known = { key: formatObjectKey(key), uid: metadata.uid, version: metadata.resourceVersion };
  await cluster.delete(configMaps, key);
  const signal = AbortSignal.timeout(60_000);
  const listWatch = new ListWatch(cluster.client, configMaps, { namespace });
  expect(await listWatch.checkHistory(known, signal)).toMatchObject({ history: 'same' });
  const unknown = { ...known, uid: 'another' };
  expect(await listWatch.checkHistory(unknown, signal)).toMatchObject({ history: 'other' });
  const nothing = new ListWatch(cluster.client, configMaps, {
    namespace,
    labelSelector: 'never=there',
    metadataOnly: true,
  });
  for await (const page of nothing.pages('', signal)) expect(page.items).toEqual([]);
});
