import { execFileSync } from 'node:child_process';
import { symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { untilCacheEqualsServer } from '../harness/cache-equals-server.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilReady,
} from '../harness/levelhook.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** A build without leader election, as the repository has it: a commit. `npm run soak builds` names one. */
const OLD_BUILD = process.env['OLD_BUILD'] ?? '';

describe('a gateway of this build beside one of a build without leader election', () => {
  const namespace = uniqueName('builds');
  const started = new Started();
  let cluster: Cluster;
  let setting: Setting;
  let observer: Observer;
  let changes: ConfigMapChanges;
  let oldScript: string;
  let present: Listening;

  beforeAll(async () => {
    const directory = await started.directory();
    execFileSync('sh', ['-c', `git archive ${OLD_BUILD} | tar -x -C ${directory}`], { cwd: ROOT });
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
    oldScript = join(directory, 'src/cli/levelhook.js');
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    observer = started.keep(await startObserver(setting, { ...configMapsOf(namespace), delayMs: 20 }));
    changes = new ConfigMapChanges(cluster, namespace, { count: 100, random: seededRandom('builds') });
    await changes.createAll();
  });

  afterAll(() => started.stop());

  const startOld = async (): Promise<Listening> =>
    started.keep(await startGateway(setting, [observer.url], {}, oldScript));

  async function untilAllIsWell(): Promise<void> {
    await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]));
    await untilCacheEqualsServer(setting, cluster, [{ resource: configMaps }]);
    expect(observer.overlaps).toEqual([]);
    await untilReady(present.url);
  }

  async function untilItEnds({ process }: Listening): Promise<void> {
    expect(await process.exited).toBe(1);
    expect(process.output).toContain('Another gateway has taken over this cluster');
  }

  it('takes its place, and no change is lost', async () => {
    const old = await startOld();
    await untilReady(old.url);
    await changes.keepChanging(50, async () => {
      await sleep(2000);
      present = started.keep(
        await startGateway(setting, [observer.url], { LEVELHOOK_LEASE: `${namespace}/levelhook` }),
      );
      await untilItEnds(old);
      await sleep(2000);
    });
    await untilAllIsWell();
  });

  it('takes the views again whenever the other one is started once more', async () => {
    await changes.keepChanging(50, async () => {
      for (let round = 0; round < 3; round += 1) {
        await untilItEnds(await startOld());
        await sleep(1000);
      }
    });
    await untilAllIsWell();
  });
});
