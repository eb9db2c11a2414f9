import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { silentLogger } from '../../../src/core/index.ts';
import { LeaderHandover } from '../../../src/gateway/election/leader-handover.ts';
import {
  NO_NEEDS,
  ReplicaRecord,
  type ReplicaRole,
  type ReplicaStanding,
} from '../../../src/gateway/election/replica-record.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import { HeldRuns } from '../../harness/held-runs.ts';
import { configMaps } from '../../harness/cluster.ts';
import { uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import { ShiftedClock } from '../../harness/test-clock.ts';
import { it, type World } from '../../harness/world.ts';

const NAME = 'handed-over';

/** Gateways of one prefix and one Lease. */
class Scene {
  readonly world: World;
  readonly keyPrefix = uniqueName('handover');

  constructor(world: World) {
    this.world = world;
  }

  async function(name: string): Promise<HeldRuns> {
    const { cluster, namespace, started } = this.world;
    return started.open(new HeldRuns(name, cluster, namespace, 15));
  }

  /** Opens a gateway, and waits until it is ready. */
  async gateway(...functions: readonly HeldRuns[]): Promise<Opened> {
    const { namespace, setting, started } = this.world;
    const { keyPrefix } = this;
    const urls = functions.map(({ url }) => url);
    const variables = { LEVELHOOK_LEASE: `${namespace}/${keyPrefix}` };
    const gateway = started.keep(await openGateway({ ...setting, keyPrefix }, urls, variables));
    await untilReady(gateway.url);
    return gateway;
  }
}

const leads = async ({ url }: Opened): Promise<boolean> => (await metric(url, 'leader_election_master_status')) === 1;

async function leaderCheck({ url }: Opened): Promise<string> {
  const text = await (await fetch(`${url}/readyz?verbose`)).text();
  return text.split('\n').find((line) => line.includes(']leader ')) ?? text;
}

it.beforeAll(async ({ world: { cluster, namespace } }) => {
  await cluster.create(configMaps, { metadata: { namespace, name: NAME } });
});

it('the gateway that leads hands the Lease over to a newer gateway with one more function', async ({ world }) => {
  const scene = new Scene(world);
  const [both, added] = [await scene.function('both'), await scene.function('added')];
  const older = await scene.gateway(both);
  await eventually(async () => expect(await leads(older)).toBe(true));
  await both.untilBegun(0, [NAME]);
  const newer = await scene.gateway(both, added);
  await added.untilBegun(0, [NAME]);
  await eventually(async () => expect([await leads(older), await leads(newer)]).toEqual([false, true]));
  // The older gateway still runs keys, and knows of nothing that is wrong.
  await untilReady(older.url);
  for (const each of [older, newer]) {
    await eventually(async () => expect(await leaderCheck(each)).toBe('[+]leader ok'));
  }
  expect([both.most, added.most]).toEqual([1, 1]);
});

it('gateways of two deployments with one Lease and prefix are ready, and say what is wrong', async ({ world }) => {
  const scene = new Scene(world);
  const [first, second] = [await scene.function('first'), await scene.function('second')];
  const older = await scene.gateway(first);
  await first.untilBegun(0, [NAME]);
  const newer = await scene.gateway(second);
  await eventually(async () =>
    expect(await leaderCheck(newer)).toMatch(
      /^\[\+\]leader warning: the gateway that leads \(.+\) does not know second: end it .* LEVELHOOK_LEASE and a LEVELHOOK_KEY_PREFIX of its own$/,
    ),
  );
  // It would remove the data of the other function.
  expect([await leads(older), second.begun]).toEqual([true, []]);
  expect(await leaderCheck(older)).toBe('[+]leader ok');
  expect(older.process.output).not.toContain('handing the Lease over');
  expect(await older.process.kill('SIGTERM')).toBe(0);
  await eventually(async () => expect(await leads(newer)).toBe(true));
  await second.untilBegun(0, [NAME]);
  await eventually(async () => expect(await leaderCheck(newer)).toBe('[+]leader ok'));
});

it('the Lease is handed over to no gateway that has not recorded itself for 15 s: it may have been killed', async ({
  world: { setting, started },
}) => {
  const redis = new Redis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  await redis.ping();
  const runtime = { clock: new ShiftedClock(), logger: silentLogger };
  const location = redisLocation(redis, uniqueName('handover'), 'c');
  const replica = (id: string, role: ReplicaRole, standing: ReplicaStanding): ReplicaRecord =>
    new ReplicaRecord({ runtime, location, id, version: '1.2.3', role: () => role, standing: () => standing });
  const older = replica('older', 'leader', NO_NEEDS);
  runtime.clock.advance(1000);
  const newer = replica('newer', 'follower', { needs: ['view'], mayLead: true, lacks: [] });
  const handover = new LeaderHandover({
    runtime,
    location,
    replica: older,
    leads: () => true,
    isReady: () => true,
    known: { needs: () => [], knows: () => false, keeps: () => true, knowsAll: true },
  });
  const successorOfTwoLooks = async (): Promise<string | undefined> => {
    await handover.look();
    await handover.look();
    return handover.successor;
  };
  await newer.record();
  expect(await successorOfTwoLooks()).toBe('newer');
  runtime.clock.advance(15_000);
  expect(await successorOfTwoLooks()).toBeUndefined();
  await newer.record();
  expect(await successorOfTwoLooks()).toBe('newer');
});
