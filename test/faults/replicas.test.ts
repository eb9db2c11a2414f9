import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type AuditedRequest, isFullList } from '../harness/audit-log.ts';
import { type AuditedPlane, startAuditedPlane } from '../harness/audited-plane.ts';
import type { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import { FaultWorld, type WorldGateway } from '../harness/fault-world.ts';
import { metric } from '../harness/gateway-view.ts';
import { HeldFunction } from '../harness/held-function.ts';
import { untilIdle } from '../harness/levelhook.ts';
import { listedGateways } from '../harness/listed-gateways.ts';
import { Started } from '../harness/started.ts';

/**
 * `REPLICAS_LONG=1` is the long form: 10,000 objects, 200 changes a second, client-go's times, ten rounds of each
 * fault.
 */
const long = process.env['REPLICAS_LONG'] === '1';
const OBJECTS = long ? 10_000 : 200;
const PER_SECOND = long ? 200 : 50;
const ROUNDS = long ? 10 : 1;
const [LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS] = long ? [15, 10, 2] : [4, 3, 1];
const REPLICAS = 3;

/** What is done to a gateway while objects change. */
interface Fault {
  readonly name: string;
  /** Default: to the leader. */
  readonly to?: 'a follower';
  readonly fault: (gateway: WorldGateway) => Promise<void>;
  /** Not in the gate, where another fault takes the same path. */
  readonly longOnly?: boolean;
}

describe(`${REPLICAS} gateways of one deployment`, () => {
  const started = new Started();
  let audited: AuditedPlane;
  let world: FaultWorld;
  let held: HeldFunction;

  beforeAll(
    async () => {
      audited = await startAuditedPlane();
      started.add(() => audited.stop());
      world = await FaultWorld.start(started, 'replicas', {
        kubeconfig: audited.plane.kubeconfig,
        gatewayKubeconfig: audited.gatewayKubeconfig,
        redisUrl: inject('redisUrl'),
        alone: true,
        gateways: REPLICAS,
        proxies: true,
        observer: { delayMs: 20 },
        objects: OBJECTS,
        changesPerSecond: PER_SECOND,
        variables: {
          ...HeldFunction.gatewayVariables,
          LEVELHOOK_LEASE_SECONDS: String(LEASE_SECONDS),
          LEVELHOOK_LEASE_RENEW_SECONDS: String(RENEW_SECONDS),
          LEVELHOOK_LEASE_RETRY_SECONDS: String(RETRY_SECONDS),
        },
        functions: async (setting) => {
          held = started.keep(await HeldFunction.open(setting));
          return [held.url];
        },
      });
      await held.createObjects(world);
    },
    long ? 600_000 : 240_000,
  );

  afterAll(() => started.stop());

  const lists = (requests: readonly AuditedRequest[]): AuditedRequest[] =>
    requests.filter((each) => each.resource === 'configmaps' && isFullList(each));

  const proxiesOf = ({ proxies }: WorldGateway): { toApiserver: CuttingProxy; toRedis: CuttingProxy } => {
    if (!proxies) throw new Error('a gateway without proxies');
    return proxies;
  };

  const others = (than: WorldGateway): WorldGateway[] => world.gateways.filter((gateway) => gateway !== than);

  const isLeading = async ({ url }: WorldGateway): Promise<boolean> =>
    (await metric(url, 'leader_election_master_status')) === 1;

  async function untilOneLeads(of: readonly WorldGateway[]): Promise<void> {
    await eventually(async () => expect((await Promise.all(of.map(isLeading))).filter(Boolean)).toHaveLength(1));
  }

  it('have one leader, which lists once', async () => {
    await world.untilAllIsWell();
    expect(lists(await audited.requests())).toHaveLength(1);
  }, 240_000);

  it('list each other with their roles, the same on the page of each', async () => {
    await eventually(async () => {
      const [first, ...rest] = await Promise.all(world.gateways.map(({ url }) => listedGateways(url)));
      expect(Object.values(first ?? {}).toSorted()).toEqual(['follower', 'follower', 'leader']);
      for (const other of rest) expect(other).toEqual(first);
    });
    await eventually(async () => {
      const answer = await fetch(`${(await world.leader()).url}/dashboard`);
      expect(await answer.text()).toContain('this gateway leads');
    });
  });

  /** Whether one of them has begun to lead since its log had so many lines. */
  const hasLed = (gateways: readonly WorldGateway[], from: ReadonlyMap<WorldGateway, number>): boolean =>
    gateways.some((each) => each.process.lines.slice(from.get(each) ?? 0).some(({ msg }) => msg === 'leading'));

  /** Who has led from when to when, by the logs of the gateways that run: for the message of a failed assertion. */
  const leaderships = (): string =>
    world.gateways
      .flatMap(({ process }) => process.lines)
      .filter(({ lease }) => lease !== undefined)
      .map(({ time, msg, identity, reason, leader: leading }) => ({ time, msg, identity, reason, leading }))
      .toSorted((a, b) => String(a.time).localeCompare(String(b.time)))
      .map((line) => JSON.stringify(line))
      .join('\n');

  const faults: readonly Fault[] = [
    {
      name: 'the leader is killed with SIGKILL',
      async fault(leader) {
        await leader.process.kill('SIGKILL');
        await world.replace(leader);
      },
    },
    {
      name: 'the leader is killed with SIGKILL while the next one cannot reach Redis',
      async fault(leader) {
        const [next, last] = others(leader);
        if (!next || !last) throw new Error('too few gateways');
        const from = new Map([[next, next.process.lines.length]]);
        proxiesOf(next).toRedis.hold();
        await sleep(2 * RETRY_SECONDS * 1000);
        await leader.process.kill('SIGKILL');
        await untilOneLeads([last]);
        expect(hasLed([next], from)).toBe(false);
        proxiesOf(next).toRedis.cut();
        await world.replace(leader);
      },
    },
    {
      name: 'the leader is stopped with SIGTERM during runs',
      async fault(leader) {
        // Before the runs of the gateway that stops have ended.
        const stopped = await held.stop(world, leader, () => untilOneLeads(others(leader)));
        await world.replace(leader);
        await held.untilEachHasRunOnce(world, stopped);
      },
    },
    {
      name: 'a follower is stopped with SIGTERM during runs',
      to: 'a follower',
      async fault(follower) {
        // An attempt at the Lease that was under way ends with a look at it, before the follower takes no more keys.
        const stopped = await held.stop(world, follower, () => sleep(3500));
        await world.replace(follower);
        await held.untilEachHasRunOnce(world, stopped);
      },
    },
    {
      name: 'the leader is frozen for longer than its Lease',
      async fault(leader) {
        leader.process.send('SIGSTOP');
        await untilOneLeads(others(leader));
        leader.process.send('SIGCONT');
      },
    },
    {
      name: 'the leader is cut off from the apiserver',
      async fault(leader) {
        proxiesOf(leader).toApiserver.sever();
        await untilOneLeads(others(leader));
        proxiesOf(leader).toApiserver.mend();
      },
    },
    {
      name: 'the leader is cut off from Redis',
      async fault(leader) {
        proxiesOf(leader).toRedis.sever();
        await untilOneLeads(others(leader));
        proxiesOf(leader).toRedis.mend();
      },
      longOnly: true,
    },
    {
      name: 'the leader is cut off from Redis by a firewall that drops packets',
      async fault(leader) {
        proxiesOf(leader).toRedis.hold();
        // A scrape does not wait for Redis.
        expect(await metric(leader.url, 'process_cpu_seconds_total')).toBeGreaterThan(0);
        await untilOneLeads(others(leader));
        proxiesOf(leader).toRedis.cut();
      },
    },
  ];

  for (const { name, to, fault } of faults.filter(({ longOnly = false }) => long || !longOnly)) {
    it.for(Array.from({ length: ROUNDS }, (_, at) => at + 1))(
      `go on when ${name} under changes, without a list (round %i)`,
      { timeout: 300_000 },
      async () => {
        const from = (await audited.requests()).length;
        const before = await eventually(() => world.leader());
        const lines = new Map(world.gateways.map((each) => [each, each.process.lines.length]));
        const [follower] = others(before);
        const gateway = to === 'a follower' ? follower : before;
        if (!gateway) throw new Error('too few gateways');
        await world.underChanges(async () => {
          await sleep(world.random.below(1000));
          await fault(gateway);
          await sleep(1000);
        });
        await world.untilAllIsWell();
        if (gateway === before) expect(hasLed(others(before), lines), leaderships()).toBe(true);
        expect(lists((await audited.requests()).slice(from))).toEqual([]);
      },
    );
  }

  it('do not list those that were killed', async () => {
    await eventually(async () => {
      for (const { url } of world.gateways) {
        expect(Object.values(await listedGateways(url)).toSorted()).toEqual(['follower', 'follower', 'leader']);
      }
    });
  });

  it('leave nothing running, and no Lease held, when all have stopped', async () => {
    for (const gateway of world.gateways) await untilIdle(gateway.url);
    await world.stopInOrder();
  });
});
