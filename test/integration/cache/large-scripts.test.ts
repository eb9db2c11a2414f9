import { afterEach, beforeEach, it } from 'vitest';
import type { KubernetesObject } from '../../../src/core/index.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { compareObserved } from '../../../src/gateway/informer/cache/backfill.ts';
import { observedSpec } from '../../../src/gateway/informer/cache/observations.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { configMaps } from '../../harness/cluster.ts';
import { expectShortScripts } from '../../harness/slow-commands.ts';
import { createView } from '../../harness/views.ts';

let server: RedisServer;
let redis: Redis;

beforeEach(async () => {
  server = await startRedis({ ignoreEnvironment: true });
  redis = await connectRedis(server.url);
});

afterEach(async () => {
  redis.disconnect();
  await server.stop();
});

/** As fifty declarations of one tenant may observe. */
const FIELDS = Array.from({ length: 400 }, (_, at) => `data.field-${at}`);

function objectsAt(version: number): KubernetesObject[] {
  return Array.from({ length: 300 }, (_, at) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'a', name: `object-${at}`, uid: `uid-${at}`, resourceVersion: String(version + at) },
    data: Object.fromEntries(FIELDS.map((_, field) => [`field-${field}`, `${version}-${field}`])),
  }));
}

it('many observed fields of many objects are written in scripts that block Redis no longer than a few objects', async () => {
  const view = createView(redis, configMaps);
  await view.writer.claim('writer');
  view.observations.maintain(FIELDS.map(observedSpec), () => 1);
  const applier = applierOf(view);
  await applier.apply(listOf('1000', objectsAt(1)));
  await expectShortScripts(redis, (round) =>
    applier.apply(objectsAt(1000 + 1000 * round).map((object) => ({ kind: 'changed' as const, object }))),
  );
  // Fields that are declared when the objects are there already.
  await expectShortScripts(redis, (round) => {
    const specs = FIELDS.map((field) => observedSpec(`${field}x${round}`));
    view.observations.maintain(specs, () => 1);
    return compareObserved(view, specs, new AbortController().signal);
  });
});
