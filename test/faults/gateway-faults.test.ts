import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { replicaset } from '../../functions/replicaset/controller.ts';
import { controllerOf, messageOf } from '../../src/core/index.ts';
import { type AuditedRequest, isFullList } from '../harness/audit-log.ts';
import { type AuditedPlane, startAuditedPlane } from '../harness/audited-plane.ts';
import { configMaps, pods, replicaSet, replicaSets } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { FaultWorld } from '../harness/fault-world.ts';
import { metric, runsOnRecord, storyOf } from '../harness/gateway-view.ts';
import { HeldFunction } from '../harness/held-function.ts';
import { createSetting, uniqueName, untilIdle, untilReady } from '../harness/levelhook.ts';
import { openObserver } from '../harness/observer.ts';
import { openFunction, openGateway } from '../harness/opened.ts';
import { Started } from '../harness/started.ts';

/** Longer than Node's own server keeps an idle connection (5 s, and one more from Node 24.6 on). */
const LONGER_THAN_NODES_DEFAULT_MS = 7000;
const PODS = 100;

/** Active pods that the ReplicaSet controls, and what its status says. */
interface Scale {
  readonly active: number;
  readonly replicas: number | undefined;
}

/** Harm to the only gateway or to its apiserver, and the limits that hold after it. */
interface Fault {
  readonly name: string;
  /** Done first, while nothing changes and the gateway has nothing to do. */
  readonly atRest?: () => Promise<void>;
  /** Done while objects change. */
  readonly underChanges: () => Promise<void>;
  /** How often the gateway may list the ConfigMaps. Default never: it goes on from the version of its view. */
  readonly lists?: readonly number[];
  /** Further checks, once the world is well again. */
  readonly expected?: () => Promise<void>;
}

describe('one gateway', () => {
  const started = new Started();
  let audited: AuditedPlane;
  let world: FaultWorld;
  let held: HeldFunction;
  /** Where each log was when the fault began. */
  let from: { readonly requests: number; readonly lines: number; readonly runs: readonly number[] };

  beforeAll(async () => {
    audited = await startAuditedPlane();
    started.add(() => audited.stop());
    world = await FaultWorld.start(started, 'gateway-faults', {
      kubeconfig: audited.plane.kubeconfig,
      gatewayKubeconfig: audited.gatewayKubeconfig,
      redisUrl: inject('redisUrl'),
      alone: true,
      observers: 2,
      // What a killed gateway leaves in flight is settled when this has passed.
      observer: { timeoutSeconds: 15, delayMs: 200, concurrency: 30 },
      variables: HeldFunction.gatewayVariables,
      functions: async (setting) => {
        held = started.keep(await HeldFunction.open(setting));
        const scaling = started.keep(await openFunction(setting, [{ ...replicaset, timeoutSeconds: 10 }]));
        return [held.url, `${scaling.url}/${replicaset.name}`];
      },
    });
    await Promise.all(Array.from({ length: 20 }, (_, at) => create(`unchanged-${at}`)));
    await held.createObjects(world);
    await world.untilAllIsWell();
  });

  afterAll(() => started.stop());

  const create = (name: string): Promise<unknown> =>
    world.cluster.create(configMaps, { metadata: { namespace: world.namespace, name }, data: {} });

  /** The gateway's requests about ConfigMaps since the fault began. */
  async function requests(): Promise<AuditedRequest[]> {
    return (await audited.requests()).slice(from.requests).filter(({ resource }) => resource === 'configmaps');
  }

  /** How often the gateway has listed them. The apiserver refuses lists while it starts; these do not count. */
  async function lists(): Promise<number> {
    return (await requests()).filter((each) => isFullList(each) && each.code === 200).length;
  }

  const killGateway = async (): Promise<void> => void (await world.gateway.process.kill('SIGKILL'));

  const killApiserver = (): Promise<void> => audited.plane.kill('kube-apiserver');
  const startApiserver = (): Promise<void> => audited.plane.start('kube-apiserver');

  /** Writes an event that a restarted apiserver does not have: the apiserver tells a gateway behind it to list. */
  const writeUnseen = (): Promise<void> => eventually(() => world.cluster.createNamespace(uniqueName('unseen')));

  /** Until the gateway has seen a change that was made just now: others may have been on their way to it. */
  async function untilFollowing(): Promise<void> {
    const name = uniqueName('following');
    await eventually(() => create(name));
    for (const observer of world.observers) {
      // A watch that has failed seven times in two minutes waits for up to a minute.
      await eventually(async () => expect(observer.keys()).toContain(`${world.namespace}/${name}`), 120_000);
    }
  }

  /** Makes many objects at once, so that as many connections to the function as there may be are in use. */
  async function openConnections(): Promise<void> {
    const names = Array.from({ length: 20 }, () => uniqueName('connections'));
    await Promise.all(names.map(create));
    const keys = names.map((name) => `${world.namespace}/${name}`);
    await eventually(async () => expect(world.observer.keys()).toEqual(expect.arrayContaining(keys)));
    await untilIdle(world.gateway.url);
  }

  async function noTriggerHasFailed(): Promise<void> {
    const triggers = world.gateway.process.lines
      .slice(from.lines)
      .filter(({ msg, key }) => msg === 'trigger' && String(key).startsWith(`${world.namespace}/`));
    expect(triggers.length).toBeGreaterThan(10);
    expect(triggers.filter(({ outcome }) => outcome !== 'done')).toEqual([]);
  }

  const errors = (): Promise<number> =>
    metric(world.gateway.url, 'controller_runtime_reconcile_errors_total', { controller: world.observer.name });

  async function observeScale(name: string): Promise<Scale> {
    const { cluster, namespace } = world;
    const set = await cluster.get(replicaSets, { namespace, name });
    const { items } = await cluster.list(pods, namespace, `app=${name}`);
    const active = items.filter(
      (pod) => controllerOf(pod)?.uid === set?.metadata.uid && !pod.metadata.deletionTimestamp,
    );
    return { active: active.length, replicas: set?.status?.replicas };
  }

  it('fills the view of two controllers with one list, and watches from there', async () => {
    from = { requests: 0, lines: 0, runs: [] };
    expect(await lists()).toBe(1);
    // The apiserver may close a watch that it finds slow.
    for (const { query } of (await requests()).filter((each) => each.verb === 'watch' && !isFullList(each))) {
      expect(Number(query.get('resourceVersion'))).toBeGreaterThan(0);
    }
  });

  const faults: readonly Fault[] = [
    {
      name: 'is killed with SIGKILL at rest, and objects change while none runs',
      atRest: killGateway,
      underChanges: async () => {
        await sleep(1500);
        await world.replace(world.gateway);
      },
      async expected() {
        const watches = (await requests()).filter(({ verb }) => verb === 'watch');
        expect(watches).not.toEqual([]);
        for (const { query } of watches) expect(Number(query.get('resourceVersion'))).toBeGreaterThan(0);
        // A look at the server's version.
        expect((await requests()).some(({ verb }) => verb === 'list')).toBe(true);
      },
    },
    {
      name: 'is killed with SIGKILL three times at random moments of a scale-up of 100 pods',
      async underChanges() {
        const { cluster, namespace, random } = world;
        const name = 'scaled';
        await cluster.create(replicaSets, replicaSet({ namespace, name }, PODS));
        // A run that a killed gateway has left in flight is over only at its deadline, and a slow machine needs
        // several.
        const untilScale = async (isThere: (scale: Scale) => boolean): Promise<void> => {
          const look = async (): Promise<void> => {
            const scale = await observeScale(name);
            if (!isThere(scale)) throw new Error(JSON.stringify(scale));
          };
          await eventually(look, 180_000, 5).catch(async (error: unknown) => {
            const story = await storyOf(world.gateway.url, replicaset.name, `${world.namespace}/${name}`);
            throw new Error(`${messageOf(error)}, and its key: ${story}`);
          });
        };
        const untilPods = (least: number): Promise<void> => untilScale(({ active }) => active >= least);
        await untilPods(random.below(PODS));
        await killGateway();
        // The next one is killed while it starts, or soon after.
        const second = await world.startGateway();
        await sleep(random.between(0, 1500));
        await second.process.kill('SIGKILL');
        await world.replace(world.gateway);
        // What the killed ones have left in flight is settled at its deadline, and only then the scale-up goes on.
        await untilPods(Math.min(PODS, Math.max(random.below(PODS), (await observeScale(name)).active + 1)));
        await killGateway();
        await world.replace(world.gateway);
        await untilScale(({ active, replicas }) => active === PODS && replicas === PODS);
      },
      async expected() {
        const { setting, cluster } = world;
        await eventually(async () => expect(await runsOnRecord(setting, cluster, replicaset.name)).toEqual([]));
        await untilIdle(world.gateway.url);
        expect(await observeScale('scaled')).toEqual({ active: PODS, replicas: PODS });
      },
      // On a slow machine four starts take longer than the apiserver keeps its events.
      lists: [0, 1],
    },
    {
      name: 'is stopped with SIGTERM during runs',
      async underChanges() {
        const stopped = await held.stop(world, world.gateway);
        expect(stopped.own).toEqual(stopped.inFlight);
        expect(await runsOnRecord(world.setting, world.cluster, held.name)).toEqual([]);
        expect(held.keys(stopped.fromRun)).toEqual(stopped.inFlight);
        await world.replace(world.gateway);
        await held.untilEachHasRunOnce(world, stopped);
      },
    },
    {
      name: 'has nothing to send for longer than Node keeps a connection',
      async atRest() {
        await openConnections();
        const { port, pathname } = new URL(world.observer.url);
        const socket = connect(Number(port), '127.0.0.1');
        started.add(async () => socket.destroy());
        const ask = async (): Promise<string> => {
          socket.write(`GET ${pathname} HTTP/1.1\r\nhost: function\r\n\r\n`);
          return String((await once(socket, 'data'))[0]);
        };
        expect(await ask()).toMatch(/\r\nkeep-alive: timeout=75\r\n/i);
        await sleep(LONGER_THAN_NODES_DEFAULT_MS);
        // The function has kept it.
        expect(await ask()).toMatch(/^HTTP\/1\.1 401 /);
      },
      underChanges: () => sleep(500),
      expected: noTriggerHasFailed,
    },
    {
      name: 'loses its apiserver to SIGKILL twice, at rest and under changes',
      async atRest() {
        await writeUnseen();
        await killApiserver();
      },
      async underChanges() {
        const { changes, random } = world;
        const [failed, failedRuns] = [changes.failed, await errors()];
        await changes.unwatched(async () => {
          await startApiserver();
          await untilFollowing();
        });
        // It has forgotten the events from before its start: this resume had to be refused.
        expect(await lists()).toBe(1);
        await sleep(random.between(0, 1000));
        await changes.unwatched(async () => {
          await killApiserver();
          await startApiserver();
          await untilFollowing();
        });
        expect(changes.failed).toBeGreaterThan(failed);
        // No run failed for it: functions read the cache.
        expect(await errors()).toBe(failedRuns);
      },
      lists: [1, 2],
    },
    {
      name: 'stands still for longer than Node keeps a connection, while its apiserver is killed and restarted twice',
      async atRest() {
        await openConnections();
        world.gateway.process.send('SIGSTOP');
      },
      // An apiserver that starts delays early connections, so the gateway is back with the first writes. Frozen, it
      // misses a good second of them.
      underChanges: () =>
        world.changes.unwatched(async () => {
          const longEnough = sleep(LONGER_THAN_NODES_DEFAULT_MS);
          await killApiserver();
          await startApiserver();
          await writeUnseen();
          await killApiserver();
          await startApiserver();
          await sleep(world.random.between(1000, 2000));
          await longEnough;
          world.gateway.process.send('SIGCONT');
          await untilFollowing();
        }),
      lists: [1],
      expected: noTriggerHasFailed,
    },
    {
      name: 'is killed with SIGKILL at rest, and its apiserver restarts while none runs',
      atRest: killGateway,
      underChanges: () =>
        world.changes.unwatched(async () => {
          await sleep(500);
          await writeUnseen();
          await killApiserver();
          await startApiserver();
          await world.replace(world.gateway);
          await untilFollowing();
        }),
      lists: [1],
    },
  ];

  for (const fault of faults) {
    it(`${fault.name}: no change is lost, and nothing else is run`, { timeout: 900_000 }, async () => {
      // A run whose outcome was not yet recorded has to be repeated, and so has a wakeup in the outbox.
      await untilIdle(world.gateway.url);
      await world.untilCacheEqualsServer();
      from = {
        requests: (await audited.requests()).length,
        lines: world.gateway.process.lines.length,
        runs: world.observers.map(({ count }) => count),
      };
      await fault.atRest?.();
      await world.underChanges(fault.underChanges);
      await world.untilAllIsWell();
      expect(fault.lists ?? [0], `${await lists()} lists`).toContain(await lists());
      const unchanged = `${world.namespace}/unchanged-`;
      const startedMs = world.gateway.process.lines
        .filter(({ msg }) => msg === 'controller started')
        .map(({ time }) => Date.parse(String(time)));
      // A view waits three seconds for its functions. A function that starts later gets all its keys.
      const wereHeard = Math.max(...startedMs) - Math.min(...startedMs) < 2000;
      for (const [at, observer] of wereHeard ? world.observers.entries() : []) {
        expect(observer.keys(from.runs[at]).filter((key) => key.startsWith(unchanged))).toEqual([]);
      }
      await fault.expected?.();
    });
  }

  it('stops in order with no run left', async () => {
    await untilIdle(world.gateway.url);
    await world.stopInOrder();
  });

  it('stops before it queues keys against a gateway that has taken its views without a Lease', async () => {
    const setting = createSetting({ kubeconfig: audited.plane.kubeconfig, redisUrl: inject('redisUrl') });
    const namespace = uniqueName('two');
    await world.cluster.createNamespace(namespace);
    const names = Array.from({ length: 20 }, (_, at) => `object-${at}`);
    const [name, reconciled] = ['updated', { resource: configMaps, namespaces: [namespace] }];
    const spec = { name, for: reconciled, timeoutSeconds: 15 };
    const old = started.keep(await openObserver(setting, spec));
    // The new version of the function reads one kind more: all keys are due once.
    const updated = started.keep(await openObserver(setting, { ...spec, reads: [pods] }));
    const metadata = names.map((each) => ({ namespace, name: each }));
    await Promise.all(metadata.map((each) => world.cluster.create(configMaps, { metadata: each, data: {} })));
    const first = started.keep(await openGateway(setting, [old.url]));
    await untilReady(first.url);
    await eventually(async () => expect(old.count).toBeGreaterThanOrEqual(names.length));
    await untilIdle(first.url);
    const second = started.keep(await openGateway(setting, [updated.url]));
    await untilReady(second.url);
    expect(await first.process.exited).toBe(1);
    expect(first.process.output).toContain('Another gateway has taken over this cluster');
    // The first takes keys that the second has queued until it notices: each is due once more, by either of them.
    await eventually(async () => expect(old.count + updated.count).toBeGreaterThanOrEqual(2 * names.length));
    await untilIdle(second.url);
    // Both would have queued all keys once a second.
    expect(old.count + updated.count).toBeLessThanOrEqual(3 * names.length);
  });
});
