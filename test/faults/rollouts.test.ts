import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { controllerOf } from '../../src/core/index.ts';
import { pods, replicaSets } from '../harness/cluster.ts';
import { deployments, isSettled } from '../harness/deployments.ts';
import { eventually } from '../harness/eventually.ts';
import { userOf } from '../harness/identity.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { type Random, seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';
import { PLANE_FUNCTIONS, WorkloadPlane } from '../harness/workload-plane.ts';
import { RandomActions } from './rollouts/actions.ts';
import { RolloutHistory } from './rollouts/history.ts';
import { evidence, judge } from './rollouts/judge.ts';
import { MemoryRecord } from './rollouts/memory-record.ts';
import { Surroundings } from './rollouts/surroundings.ts';

/** How long things happen, at least: until each was killed once. Ten minutes by `npm run soak rollouts`. */
const SECONDS = Number(process.env['ROLLOUTS_SECONDS'] ?? 70);
/** From this time on the memory of a process in the last quarter must not be more than in the second, times this. */
const FLAT_FROM_SECONDS = 300;
const GROWTH = 1.3;
const NODES = 6;
/** Zones fall silent, are tainted and come back within the test. */
const VARIABLES = { NODE_MONITOR_GRACE_SECONDS: '25', NODE_EVICTION_RATE: '1' };
/** Between two kills, at most. */
const KILL_EVERY_MS = 8000;
/** How long what was killed is down, at most. */
const DOWN_MS = 2000;
/** A lost run is settled at its deadline, 15 s after its start; what failed often waits longer for its next attempt. */
const SETTLE_MS = 180_000;

describe('Deployments, their Services, Namespaces and nodes change at random while gateway, functions and Redis are killed', () => {
  const namespace = uniqueName('rollouts');
  const started = new Started();
  let workloads: WorkloadPlane;
  let random: Random;

  beforeAll(async () => {
    random = seededRandom('rollouts');
    workloads = await WorkloadPlane.start(started, {
      functions: PLANE_FUNCTIONS,
      functionVariables: VARIABLES,
      nodes: NODES,
    });
    await workloads.cluster.createNamespace(namespace);
    await workloads.startLine();
  }, 15 * 60_000);

  afterAll(() => started.stop());

  it(
    'end as they should be, and never had too many pods or two ReplicaSets of one template',
    { timeout: SECONDS * 1000 + SETTLE_MS + 120_000 },
    async () => {
      const { cluster } = workloads;
      const history = await RolloutHistory.record(cluster, namespace);
      const surroundings = new Surroundings(cluster, { namespace, random });
      started.add(() => surroundings.stop());
      const memory = new MemoryRecord(pids);
      started.add(() => memory.stop());
      const others = surroundings.actions;
      const actions = new RandomActions(cluster, { namespace, random, nodes: NODES, others });
      await surroundings.start();
      await actions.createAll();
      const end = machineMs() + SECONDS * 1000;
      const enough = new AbortController();
      const killing = killUntil(end).finally(() => enough.abort());
      while (!enough.signal.aborted) {
        await actions.act();
        await sleep(random.between(50, 500));
      }
      const kills = await killing;
      await actions.mend();
      await surroundings.mend();
      const endedAt = machineMs();
      const settled = Promise.all([eventually(allIsWell, SETTLE_MS, 500), surroundings.untilRight(SETTLE_MS)]);
      await settled.catch((error: unknown) => {
        throw new Error(`not settled: ${String(error)}\n${workloads.output(10_000)}`, { cause: error });
      });
      const settledMs = machineMs() - endedAt;
      await history.stop();
      await memory.stop();
      const quarters = memory.quarters();
      const { changes } = history;
      process.stdout.write(
        `rollouts: ${SECONDS} s, ${JSON.stringify(actions.counts)}, killed ${kills.join(', ')}; ` +
          `${changes.length} changes seen; settled ${(settledMs / 1000).toFixed(1)} s after the last action; ` +
          `MiB by quarters of the time: ${JSON.stringify(Object.fromEntries(quarters))}\n`,
      );
      const requests = await workloads.audit.requests();
      const refused = requests.filter(({ user, authorized }) => user.startsWith(userOf('')) && !authorized);
      expect(refused, 'requests for which an rbac.yaml lacks a right').toEqual([]);
      if (SECONDS >= FLAT_FROM_SECONDS) {
        const grown = [...quarters].filter(([, [, second = 0, , last = 0]]) => last > GROWTH * second);
        expect(grown, 'processes whose memory grows').toEqual([]);
      }
      expect(judge(changes), [...evidence(changes), workloads.output(10_000)].join('\n')).toEqual([]);
    },
  );

  /** What runs now. */
  function pids(): ReadonlyMap<string, number> {
    const served = [['gateway', workloads.gateway] as const, ...workloads.functions];
    const alive = served.flatMap(([name, { process }]) => (process.alive ? [[name, process.pid] as const] : []));
    const { pid } = workloads.redis;
    return new Map([...alive, ...(pid === undefined ? [] : [['redis', pid] as const])]);
  }

  /** Who is killed, in turn, and how it comes back. */
  function victims(): { name: string; kill: () => Promise<unknown>; start: () => Promise<void> }[] {
    return [
      { name: 'gateway', kill: () => workloads.gateway.process.kill(), start: () => workloads.startGateway() },
      ...PLANE_FUNCTIONS.map((name) => ({
        name,
        kill: async () => workloads.functions.get(name)?.process.kill(),
        start: () => workloads.startFunction(name),
      })),
      { name: 'redis', kill: () => workloads.redis.kill(), start: () => workloads.redis.start() },
    ];
  }

  /** Until then, and until each was killed once. */
  async function killUntil(end: number): Promise<string[]> {
    const kills: string[] = [];
    const all = victims();
    for (;;) {
      const wait = random.between(KILL_EVERY_MS / 2, KILL_EVERY_MS);
      const left = end - machineMs();
      if (kills.length >= all.length && wait > left) {
        await sleep(Math.max(0, left));
        return kills;
      }
      await sleep(wait);
      const victim = all[kills.length % all.length];
      await victim?.kill();
      await sleep(random.between(0, DOWN_MS));
      await victim?.start();
      kills.push(victim?.name ?? '');
    }
  }

  /** Every Deployment is what its spec says, and nothing else is there: no pod and no ReplicaSet that nobody owns. */
  async function allIsWell(): Promise<void> {
    const { cluster } = workloads;
    const [wanted, sets, running] = [
      (await cluster.list(deployments, namespace)).items,
      (await cluster.list(replicaSets, namespace)).items,
      (await cluster.list(pods, namespace)).items,
    ];
    expect(
      wanted
        .filter((each) => !isSettled(each))
        .map(({ metadata, spec, status }) => [metadata.name, spec.replicas, status]),
    ).toEqual([]);
    const deploymentUids = new Set(wanted.map(({ metadata }) => metadata.uid));
    expect(
      sets.filter((each) => !deploymentUids.has(controllerOf(each)?.uid ?? '')).map(({ metadata }) => metadata.name),
    ).toEqual([]);
    const setUids = new Map(sets.map((each) => [each.metadata.uid, each]));
    expect(
      running.filter((each) => !setUids.has(controllerOf(each)?.uid ?? '')).map(({ metadata }) => metadata.name),
    ).toEqual([]);
    for (const { metadata, spec } of wanted) {
      const own = sets.filter((each) => controllerOf(each)?.uid === metadata.uid);
      const active = running.filter(
        (pod) =>
          own.some(({ metadata: { uid } }) => uid === controllerOf(pod)?.uid) &&
          pod.metadata.deletionTimestamp === undefined &&
          pod.status?.phase !== 'Failed',
      );
      const counts = {
        askedFor: own.map((each) => each.spec.replicas).filter((count) => count > 0),
        active: active.length,
      };
      const { replicas } = spec;
      expect({ name: metadata.name, ...counts }).toEqual({
        name: metadata.name,
        askedFor: replicas > 0 ? [replicas] : [],
        active: replicas,
      });
    }
  }
});
