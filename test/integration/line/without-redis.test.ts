import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { pods, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { type Listening, startFunction } from '../../harness/levelhook.ts';
import type { Opened } from '../../harness/opened.ts';
import { PodWatch } from '../../harness/pod-watch.ts';
import { it } from '../../harness/world.ts';

describe('a function that is given no Redis', () => {
  let fn: Listening;
  let gateway: Opened;

  it.beforeAll(async ({ world }) => {
    fn = world.started.keep(await startFunction({ ...world.setting, redisUrl: '' }));
    // The ReplicaSets of other tests have controllers of their own.
    const cacheFile = join(await world.started.directory(), 'cache.yaml');
    await writeFile(cacheFile, JSON.stringify({ defaults: { namespaces: [world.namespace] } }));
    gateway = await world.gateway([fn.url], { LEVELHOOK_CACHE_FILE: cacheFile });
  });

  it('reads from the cache API, with what came in the trigger, and never overshoots', async ({ world }) => {
    const { cluster, namespace } = world;
    const count = async (): Promise<number> => (await cluster.list(pods, namespace)).items.length;
    const watch = await PodWatch.start(cluster, namespace, 'web');
    world.started.add(() => watch.stop());
    await cluster.create(replicaSets, replicaSet({ namespace, name: 'web' }, 4));
    await eventually(async () => expect(await count()).toBe(4));
    await cluster.patch(replicaSets, { namespace, name: 'web' }, { spec: { replicas: 1 } });
    await eventually(async () => {
      const set = await cluster.get(replicaSets, { namespace, name: 'web' });
      expect([await count(), set?.status?.replicas]).toEqual([1, 1]);
      expect(watch.names.size).toBe(1);
    });
    expect(watch.most).toBe(4);
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(metrics).toMatch(/levelhook_cache_requests_total\{verb="get",code="200"\} [1-9]/);
    expect(metrics).toMatch(/levelhook_cache_requests_total\{verb="list",code="200"\} [1-9]/);
  });

  it('has its token in no log', () => {
    for (const output of [fn.process.output, gateway.process.output]) expect(output).not.toMatch(/eyJ[\w-]+\.[\w-]+\./);
  });
});
