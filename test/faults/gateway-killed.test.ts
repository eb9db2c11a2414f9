import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { controllerOf, resourcePath } from '../../src/core/index.ts';
import { lines } from '../../src/gateway/reflector/lines.ts';
import { type Cluster, pods, replicaSet, replicaSets } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { runsOnRecord } from '../harness/gateway-view.ts';
import {
  createSetting,
  type Setting,
  startFunction,
  startGateway,
  uniqueName,
  untilReady,
} from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { type Random, seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';

const ROUNDS = 2;
const PODS = 200;

describe('a gateway killed with SIGKILL at random moments of a scale-up', () => {
  const namespace = uniqueName('killed');
  const started = new Started();
  let cluster: Cluster;
  let setting: Setting;
  let fn: Awaited<ReturnType<typeof startFunction>>;
  let random: Random;
  let gateway: Awaited<ReturnType<typeof startGateway>>;

  beforeAll(async () => {
    random = seededRandom('gateway-killed');
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    fn = started.keep(await startFunction(setting));
    gateway = started.keep(await startGateway(setting, [fn.url]));
    await untilReady(gateway.url);
  });

  afterAll(() => started.stop());

  /** Active pods that the ReplicaSet controls, and what its status says. */
  async function observe(name: string): Promise<{ active: number; replicas: number | undefined }> {
    const rs = await cluster.get(replicaSets, { namespace, name });
    const { items } = await cluster.list(pods, namespace, `app=${name}`);
    const active = items.filter(
      (pod) => controllerOf(pod)?.uid === rs?.metadata.uid && !pod.metadata.deletionTimestamp,
    );
    return { active: active.length, replicas: rs?.status?.replicas };
  }

  /** Until the ReplicaSet has had this many pods: by a watch, since all of them take less than a second. */
  async function untilPods(name: string, count: number): Promise<void> {
    if (count === 0) return;
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(60_000)]);
    const query = { labelSelector: `app=${name}`, watch: true };
    let seen = 0;
    try {
      const watch = await cluster.client.stream({ path: resourcePath(pods, { namespace }), query, signal });
      for await (const batch of lines(watch)) {
        seen += batch.filter((line) => line.includes('"type":"ADDED"')).length;
        if (seen >= count) return;
      }
    } catch (error) {
      throw new Error(`only ${seen} of ${count} pods:\n${gateway.process.output}\n${fn.process.output}`, {
        cause: error,
      });
    } finally {
      stop.abort();
    }
  }

  it.for(Array.from({ length: ROUNDS }, (_, at) => at + 1))(
    `ends with exactly ${PODS} pods within a minute (round %i)`,
    { timeout: 150_000 },
    async (round) => {
      const name = `web-${round}`;
      await cluster.create(replicaSets, replicaSet({ namespace, name }, PODS));
      const kills: string[] = [];
      const kill = async (when: string): Promise<void> => {
        await gateway.process.kill('SIGKILL');
        const left = await runsOnRecord(setting, cluster, 'replicaset');
        kills.push(`${when} (${left.length} in flight, then ${(await observe(name)).active} pods)`);
        // Restarted at once.
        gateway = started.keep(await startGateway(setting, [fn.url]));
      };
      const first = random.below(PODS);
      await untilPods(name, first);
      await kill(`at ${first} pods`);
      const afterMs = random.between(0, 1500);
      await sleep(afterMs);
      await kill(`${Math.round(afterMs)} ms after the restart`);
      // What the killed ones have left in flight is settled at its deadline, and only then the scale-up goes on.
      const last = Math.max(random.below(PODS), (await observe(name)).active + 1);
      await untilPods(name, Math.min(last, PODS));
      await kill(`at ${last} pods`);
      const restartedAt = machineMs();
      await eventually(async () => expect(await observe(name)).toEqual({ active: PODS, replicas: PODS }), 60_000);
      process.stdout.write(
        `gateway-killed round ${round}: killed ${kills.join(', ')}; ` +
          `${PODS} pods ${((machineMs() - restartedAt) / 1000).toFixed(1)} s after the last restart\n`,
      );
      expect(fn.process.alive, fn.process.output).toBe(true);
      const until = machineMs() + 2000;
      while (machineMs() < until) {
        expect(await observe(name)).toEqual({ active: PODS, replicas: PODS });
        await sleep(100);
      }
      // The last kill may have come after the last write: its run is settled at its deadline, 15 s after its start,
      // once BullMQ has handed its job out again.
      await eventually(async () => expect(await runsOnRecord(setting, cluster, 'replicaset')).toEqual([]), 40_000);
    },
  );
});
