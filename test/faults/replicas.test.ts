import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type AuditedRequest, isFullList } from '../harness/audit-log.ts';
import { type AuditedPlane, startAuditedPlane } from '../harness/audited-plane.ts';
import { untilCacheEqualsServer } from '../harness/cache-equals-server.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import { metric } from '../harness/gateway-view.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../harness/levelhook.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { listedGateways } from '../harness/listed-gateways.ts';
import { seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';

/** A gateway behind proxies of its own. */
interface Replica extends Listening {
  readonly toApiserver: CuttingProxy;
  readonly toRedis: CuttingProxy;
}

/**
 * `REPLICAS_LONG=1` is the long form: 10,000 objects, 200 changes a second, client-go's times, ten rounds of each
 * fault.
 */
const long = process.env['REPLICAS_LONG'] === '1';
const OBJECTS = long ? 10_000 : 300;
const PER_SECOND = long ? 200 : 60;
const ROUNDS = long ? 10 : 1;
const [LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS] = long ? [15, 10, 2] : [4, 3, 1];
const PAUSE_MS = 3000;
const REPLICAS = 3;

describe(`${REPLICAS} gateways of one deployment`, () => {
  const namespace = uniqueName('replicas');
  const kinds = [{ resource: configMaps }];
  const random = seededRandom('replicas');
  const started = new Started();
  let audited: AuditedPlane;
  let cluster: Cluster;
  let setting: Setting;
  let observer: Observer;
  let changes: ConfigMapChanges;
  const gateways: Replica[] = [];

  beforeAll(async () => {
    audited = await startAuditedPlane();
    started.add(() => audited.stop());
    cluster = await Cluster.connect(audited.plane.kubeconfig);
    started.add(() => cluster.close());
    setting = createSetting({ kubeconfig: audited.gatewayKubeconfig, redisUrl: inject('redisUrl') });
    await cluster.createNamespace(namespace);
    observer = started.keep(await startObserver(setting, { ...configMapsOf(namespace), delayMs: 20 }));
    changes = new ConfigMapChanges(cluster, namespace, { count: OBJECTS, random });
    await changes.createAll();
    for (let at = 0; at < REPLICAS; at += 1) gateways.push(await start());
    await eventually(leader);
  }, 240_000);

  afterAll(() => started.stop());

  async function start(): Promise<Replica> {
    const toApiserver = await CuttingProxy.start(audited.plane.server);
    const toRedis = await CuttingProxy.start(setting.redisUrl);
    started.add(() => Promise.all([toApiserver.stop(), toRedis.stop()]));
    const kubeconfig = await toApiserver.kubeconfig(setting.kubeconfig, join(await started.directory(), 'kubeconfig'));
    const redisUrl = `redis://127.0.0.1:${toRedis.port}`;
    const gateway = started.keep(
      await startGateway({ ...setting, kubeconfig, redisUrl }, [observer.url], {
        LEVELHOOK_LEASE: `${namespace}/levelhook`,
        LEVELHOOK_LEASE_SECONDS: String(LEASE_SECONDS),
        LEVELHOOK_LEASE_RENEW_SECONDS: String(RENEW_SECONDS),
        LEVELHOOK_LEASE_RETRY_SECONDS: String(RETRY_SECONDS),
      }),
    );
    await untilReady(gateway.url);
    return { ...gateway, toApiserver, toRedis };
  }

  /** The one gateway that says that it leads. @throws when none does, or more than one. */
  async function leader(): Promise<Replica> {
    const leading: Replica[] = [];
    for (const gateway of gateways) {
      if ((await metric(gateway.url, 'leader_election_master_status')) === 1) leading.push(gateway);
    }
    expect(leading).toHaveLength(1);
    return leading[0] as Replica;
  }

  /** The leader is replaced by a new gateway in the list. */
  async function replace(gone: Replica): Promise<void> {
    gateways.splice(gateways.indexOf(gone), 1);
    gateways.push(await start());
  }

  const lists = (requests: readonly AuditedRequest[]): AuditedRequest[] =>
    requests.filter((each) => each.resource === 'configmaps' && isFullList(each));

  async function untilAllIsWell(): Promise<void> {
    await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]), 120_000);
    await untilCacheEqualsServer(setting, cluster, kinds, 30_000);
    expect(observer.overlaps).toEqual([]);
    for (const gateway of gateways) await untilReady(gateway.url);
    await eventually(leader, 60_000);
  }

  it('have one leader, which lists once', async () => {
    await untilAllIsWell();
    expect(lists(await audited.requests())).toHaveLength(1);
  }, 240_000);

  it('list each other with their roles, the same on the page of each', async () => {
    const leading = await leader();
    await eventually(async () => {
      const [first, ...others] = await Promise.all(gateways.map(({ url }) => listedGateways(url)));
      expect(Object.values(first ?? {}).toSorted()).toEqual(['follower', 'follower', 'leader']);
      for (const other of others) expect(other).toEqual(first);
    });
    const answer = await fetch(`${leading.url}/dashboard`);
    expect(await answer.text()).toContain('this gateway leads');
  });

  /** Who has led from when to when, by the logs of the gateways that run: for the message of a failed assertion. */
  const leaderships = (): string =>
    gateways
      .flatMap(({ process }) => process.lines)
      .filter(({ lease }) => lease !== undefined)
      .map(({ time, msg, identity, reason, leader: leading }) => ({ time, msg, identity, reason, leading }))
      .toSorted((a, b) => Number(a.time) - Number(b.time))
      .map((line) => JSON.stringify(line))
      .join('\n');

  const faults: Readonly<Record<string, (leading: Replica) => Promise<void>>> = {
    'killed with SIGKILL': async (leading) => {
      await leading.process.kill('SIGKILL');
      await replace(leading);
    },
    'killed with SIGKILL while the next one cannot reach Redis': async (leading) => {
      const [next, last] = gateways.filter((gateway) => gateway !== leading);
      if (!next || !last) throw new Error('too few gateways');
      const from = next.process.lines.length;
      next.toRedis.hold();
      await sleep(2 * RETRY_SECONDS * 1000);
      await leading.process.kill('SIGKILL');
      await eventually(
        async () => expect(await metric(last.url, 'leader_election_master_status')).toBe(1),
        (LEASE_SECONDS + 5) * 1000,
      );
      expect(next.process.lines.slice(from).filter(({ msg }) => msg === 'leading')).toEqual([]);
      next.toRedis.cut();
      await replace(leading);
    },
    'stopped with SIGTERM': async (leading) => {
      expect(await leading.process.kill('SIGTERM')).toBe(0);
      await replace(leading);
    },
    'frozen for longer than its Lease': async (leading) => {
      leading.process.send('SIGSTOP');
      await sleep((LEASE_SECONDS + 2 * RETRY_SECONDS) * 1000);
      leading.process.send('SIGCONT');
    },
    'cut off from the apiserver': async ({ toApiserver }) => {
      toApiserver.sever();
      await sleep((LEASE_SECONDS + 2 * RETRY_SECONDS) * 1000);
      toApiserver.mend();
    },
    'cut off from Redis': async ({ toRedis }) => {
      toRedis.sever();
      await sleep((LEASE_SECONDS + 2 * RETRY_SECONDS) * 1000);
      toRedis.mend();
    },
    'cut off from Redis by a firewall that drops packets': async ({ toRedis }) => {
      toRedis.hold();
      await sleep((LEASE_SECONDS + 2 * RETRY_SECONDS) * 1000);
      toRedis.cut();
    },
  };

  for (const [name, fault] of Object.entries(faults)) {
    it.for(Array.from({ length: ROUNDS }, (_, at) => at + 1))(
      `go on when the leader is ${name} under changes, without a list (round %i)`,
      { timeout: 300_000 },
      async () => {
        const from = (await audited.requests()).length;
        const before = await eventually(leader);
        await changes.keepChanging(PER_SECOND, async () => {
          await sleep(random.below(2000));
          await fault(before);
          await sleep(PAUSE_MS);
        });
        await untilAllIsWell();
        expect(await leader(), leaderships()).not.toBe(before);
        expect(lists((await audited.requests()).slice(from))).toEqual([]);
      },
    );
  }

  it('do not list those that were killed', async () => {
    await eventually(async () => {
      for (const { url } of gateways) {
        expect(Object.values(await listedGateways(url)).toSorted()).toEqual(['follower', 'follower', 'leader']);
      }
    }, 60_000);
  }, 90_000);

  it('leave nothing running, and no Lease held, when all have stopped', async () => {
    for (const gateway of gateways) await untilIdle(gateway.url);
    for (const gateway of gateways) expect(await gateway.process.kill('SIGTERM')).toBe(0);
    const lease = await cluster.client.json<{ spec: { holderIdentity?: string } }>({
      path: `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/levelhook`,
    });
    expect(lease.spec.holderIdentity ?? '').toBe('');
  }, 60_000);
});
