import { afterEach, beforeEach, expect, it } from 'vitest';
import type { KubernetesObject } from '../../../src/core/index.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { compareObserved } from '../../../src/gateway/informer/cache/backfill.ts';
import { observedSpec } from '../../../src/gateway/informer/cache/observations.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { configMaps } from '../../harness/cluster.ts';
import { LONGEST_SCRIPT_MS, longestScriptMs } from '../../harness/slow-commands.ts';
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
  const changed = objectsAt(2000).map((object) => ({ kind: 'changed' as const, object }));
  expect(await longestScriptMs(redis, () => applier.apply(changed))).toBeLessThan(LONGEST_SCRIPT_MS);
  // Fields that are declared when the objects are there already.
  view.observations.maintain(
    FIELDS.map((field) => observedSpec(`${field}x`)),
    () => 1,
  );
  const compare = () =>
    compareObserved(
      view,
      FIELDS.map((field) => observedSpec(`${field}x`)),
      new AbortController().signal,
    );
  expect(await longestScriptMs(redis, compare)).toBeLessThan(LONGEST_SCRIPT_MS);
});
