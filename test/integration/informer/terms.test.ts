import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import {
  type Clock,
  compareResourceVersions,
  type Resource,
  resource,
  silentLogger,
  systemClock,
} from '../../../src/core/index.ts';
import { viewKeys } from '../../../src/contract/cache-layout.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import type { ChangeHandler } from '../../../src/gateway/informer/cache/change.ts';
import { GatewayWriter } from '../../../src/gateway/informer/cache/gateway-writer.ts';
import type { Informer } from '../../../src/gateway/informer/cache/informer.ts';
import { Informers } from '../../../src/gateway/informer/cache/informers.ts';
import { ProgressRequests } from '../../../src/gateway/process/progress-requests.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import { untilCacheEqualsServer } from '../../harness/cache-equals-server.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, uniqueName } from '../../harness/levelhook.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
import { Started } from '../../harness/started.ts';

const USER = 'user';
const namespace = uniqueName('terms');
/** Other tests write ConfigMaps of other namespaces meanwhile. */
const settings = { namespaces: [namespace] };
const secrets = resource('v1', 'Secret');
const roles = resource('rbac.authorization.k8s.io/v1', 'Role');

/** One replica's part of the cache: what it relays to queues is kept. */
class Replica {
  readonly woken: string[] = [];
  /** How often the users of a view were told of its marks. */
  toldOfView = 0;
  /** Whether the queues take no wakeups. */
  refuses = false;
  replaced = 0;
  readonly writer: GatewayWriter;
  readonly informers: Informers;
  readonly requests: ProgressRequests;
  #term = new AbortController();

  constructor(cluster: Cluster, redis: Redis, setting: Setting, clusterId: string, clock = systemClock) {
    const location = redisLocation(redis, setting.keyPrefix, clusterId);
    this.requests = new ProgressRequests({ location, informers: () => this.informers, logger: silentLogger });
    this.writer = new GatewayWriter({
      logger: silentLogger,
      onReplaced: () => (this.replaced += 1),
      askLeader: (viewPrefix) => this.requests.send(viewPrefix),
    });
    this.informers = new Informers({
      client: cluster.client,
      location,
      settings: { defaults: settings, kinds: {} },
      writer: this.writer,
      listeners: {
        enqueue: async (wakeups) => {
          if (this.refuses) throw new Error('the queue refuses');
          this.woken.push(...wakeups.map(({ key }) => key));
        },
        onHandlerError: () => {},
        lookupBudget: () => undefined,
        onUndeliverable: () => {},
        onViewChanged: () => (this.toldOfView += 1),
      },
      runtime: quietRuntime({ clock }),
    });
  }

  async start(of: Resource = configMaps): Promise<Informer> {
    const [informer] = await this.informers.ensure(of, USER);
    if (!informer) throw new Error('no informer');
    const handler: ChangeHandler = {
      needsOld: () => false,
      handle: ({ object }) => [
        { controller: USER, key: `${object.metadata.namespace}/${object.metadata.name}`, reasons: [] },
      ],
    };
    await informer.setHandlers(USER, [handler]);
    await informer.begin();
    return informer;
  }

  async lead(isLeading = (): boolean => true): Promise<void> {
    this.#term = new AbortController();
    await this.informers.lead(this.writer.begin(this.#term.signal, isLeading));
  }

  async follow(): Promise<void> {
    this.#term.abort();
    await this.informers.follow();
  }
}

/** A connection whose scans name the objects of a view first, and stand still before they name its other keys. */
class StallingRedis extends Redis {
  readonly goOn = Promise.withResolvers<void>();

  override async scan(...[cursor, , match]: unknown[]): Promise<[string, string[]]> {
    const keys = await this.keys(String(match));
    if (cursor === '0') return ['1', keys.filter((key) => /:(?:objects|entries|order)$/.test(key))];
    await this.goOn.promise;
    return ['0', keys];
  }
}

describe('the terms of an informer', () => {
  const started = new Started();
  let cluster: Cluster;
  let redis: Redis;
  let setting: Setting;
  let one: Replica;
  let two: Replica;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    redis = new Redis(inject('redisUrl'));
    started.add(async () => redis.disconnect());
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const clusterId = await clusterIdentity(cluster.client);
    for (const name of ['a', 'b']) await cluster.create(configMaps, { metadata: { namespace, name } });
    one = new Replica(cluster, redis, setting, clusterId);
    two = new Replica(cluster, redis, setting, clusterId);
    started.add(async () => Promise.all([one.informers.stop(), two.informers.stop()]));
  });

  afterAll(() => started.stop());

  async function change(name: string): Promise<string> {
    await cluster.patch(configMaps, { namespace, name }, { data: { change: uniqueName('change') } });
    return `${namespace}/${name}`;
  }

  const equal = (): Promise<void> => untilCacheEqualsServer(setting, cluster, [{ resource: configMaps, settings }]);
  const writerOf = (informer: Informer): Promise<string | null> =>
    redis.hget(viewKeys(informer.view.location.prefix).view, 'writerId');

  it('a replica that follows finds the view complete when the one that leads has filled it', async () => {
    const following = await two.start();
    expect(following.synced).toBe(false);
    await one.lead();
    await one.start();
    await following.waitForSync(AbortSignal.timeout(20_000));
    await equal();
    await eventually(async () =>
      expect(await following.view.record.lastList()).toEqual({
        atMs: expect.any(Number) as number,
        reason: 'the cache had no list of it',
      }),
    );
  });

  it('only the one that leads hears of changes and relays keys', async () => {
    const key = await change('a');
    await eventually(async () => expect(one.woken).toContain(key));
    await equal();
    expect(two.woken).toEqual([]);
  });

  it('the one that follows learns through the leader how far the view is, without an event of its own', async () => {
    const [following] = two.informers.all();
    if (!following) throw new Error('no informer');
    await cluster.create(secrets, { metadata: { namespace, name: 'other-kind' } });
    const current = (await following.currentVersion()) ?? '0';
    const stopListening = one.requests.listen();
    try {
      await eventually(async () => {
        following.requestProgress();
        const { version = '1' } = await following.view.record.state();
        expect(compareResourceVersions(version, current)).toBeGreaterThanOrEqual(0);
      });
    } finally {
      await stopListening();
    }
    expect(two.woken).toEqual([]);
  });

  it('both take a 404 for a resource that is not served only when it has lasted', async () => {
    const missing = resource('terms.levelhook.test/v1', 'Nothing');
    const [leading] = await one.informers.ensure(missing, USER);
    const [following] = await two.informers.ensure(missing, USER);
    if (!leading || !following) throw new Error('no informer');
    for (const each of [leading, following]) await expect(each.currentVersion()).rejects.toMatchObject({ code: 404 });
    await leading.setHandlers(USER, []);
    await leading.begin();
    await eventually(async () => expect(await leading.currentVersion()).toBeUndefined());
    expect(await following.currentVersion()).toBeUndefined();
    // Nothing will come.
    await following.catchUp(AbortSignal.timeout(60_000));
  });

  it('the next one relays what has changed while none led', async () => {
    await one.follow();
    one.woken.length = 0;
    const key = await change('b');
    await two.lead();
    await eventually(async () => expect(two.woken).toContain(key));
    await equal();
    expect(one.woken).toEqual([]);
  });

  it('one that does not know that another leads is refused, and told', async () => {
    const [informer] = one.informers.all();
    if (!informer) throw new Error('no informer');
    two.woken.length = 0;
    // Two leads, and does not hear of it.
    await one.lead();
    const key = await change('a');
    await eventually(async () => expect(one.woken).toContain(key));
    await eventually(async () => expect(two.replaced).toBeGreaterThan(0));
    expect(two.woken).toEqual([]);
    expect(await writerOf(informer)).toBe(one.writer.term?.writerId);
    await two.follow();
    await equal();
  });

  it('one that takes a view after its time does nothing to it, and the one that leads is told', async () => {
    await one.follow();
    await two.lead();
    two.replaced = 0;
    one.woken.length = 0;
    let isLeading = true;
    const late = one.lead(() => isLeading);
    // As if the process had stood still between its decision and the claim.
    isLeading = false;
    const [informer] = two.informers.all();
    if (!informer) throw new Error('no informer');
    await eventually(async () => expect(await writerOf(informer)).not.toBe(two.writer.term?.writerId));
    await change('b');
    await eventually(async () => expect(two.replaced).toBeGreaterThan(0));
    await one.follow();
    await late;
    expect(one.woken).toEqual([]);
    // As `Leadership.retake` does.
    await two.follow();
    await two.lead();
    await eventually(async () => expect(two.woken).toContain(`${namespace}/b`));
    await equal();
  });

  it('the next one waits a moment for a controller that hears of changes later than the others', async () => {
    const [leading] = two.informers.all();
    await leading?.setHandlers('late', []);
    const known = await change('a');
    await eventually(async () => expect(await leading?.view.record.hearers()).toContain('late'));
    await eventually(async () => expect(two.woken).toContain(known));
    two.refuses = true;
    const left = await change('a');
    const outbox = viewKeys(leading?.view.location.prefix ?? '').outbox;
    await eventually(async () => expect(await redis.xlen(outbox)).toBeGreaterThan(0));
    await two.follow();
    // The moment ends when the test says so, however long the machine stands still.
    let standsAtMs: number | undefined = systemClock.now();
    const clock: Clock = { ...systemClock, now: () => standsAtMs ?? systemClock.now() };
    const next = new Replica(cluster, redis, setting, await clusterIdentity(cluster.client), clock);
    started.add(() => next.informers.stop());
    const informer = await next.start();
    const key = await change('b');
    await next.lead();
    await sleep(300);
    // As each check of recovery does.
    informer.drainOutbox();
    await sleep(100);
    // A wakeup of the controller that is not here yet would be counted as missed.
    expect(next.woken).toEqual([]);
    await informer.setHandlers('late', []);
    await eventually(async () => expect(next.woken).toEqual(expect.arrayContaining([left, key])));
    expect(await informer.view.record.missedBy('late')).toBe('');
    standsAtMs = undefined;
    // Not for ever: it may be gone.
    await next.follow();
    informer.removeUser('late');
    next.woken.length = 0;
    const last = await change('a');
    await next.lead();
    await eventually(async () => expect(next.woken).toContain(last));
    expect(await informer.view.record.missedBy('late')).toBe('1');
  });

  it('a view is taken once when an informer starts in the moment in which its gateway begins to lead', async () => {
    const own = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const leading = new Replica(cluster, redis, own, await clusterIdentity(cluster.client));
    started.add(() => leading.informers.stop());
    const term = leading.writer.begin(new AbortController().signal);
    const informer = await leading.start(roles);
    await informer.waitForSync(AbortSignal.timeout(20_000));
    const streams = vi.spyOn(cluster.client, 'stream');
    await leading.informers.lead(term);
    const key = { namespace, name: uniqueName('taken-once') };
    await cluster.create(roles, { metadata: key });
    await eventually(async () => expect(leading.woken).toContain(`${namespace}/${key.name}`));
    const ofRoles = streams.mock.calls.filter(([{ path }]) => path.endsWith(`/namespaces/${namespace}/roles`));
    streams.mockRestore();
    expect(ofRoles).toEqual([]);
    await cluster.delete(roles, key);
  });

  it('a view that waits for a late user after a change of the leader catches up without a list', async () => {
    const own = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const clusterId = await clusterIdentity(cluster.client);
    const before = new Replica(cluster, redis, own, clusterId);
    // It stands still while the user is missing, and looks for a bookmark for 15 s afterwards, on any machine.
    let standsAtMs: number | undefined = systemClock.now();
    const lengthOf = (ms: number): number => (standsAtMs !== undefined ? 1 : ms === 100 ? 500 : ms);
    const clock: Clock = {
      ...systemClock,
      now: () => standsAtMs ?? systemClock.now(),
      sleep: (ms, signal) => systemClock.sleep(lengthOf(ms), signal),
    };
    const next = new Replica(cluster, redis, own, clusterId, clock);
    started.add(async () => Promise.all([before.informers.stop(), next.informers.stop()]));
    await before.lead();
    const led = await before.start();
    await led.waitForSync(AbortSignal.timeout(20_000));
    await led.setHandlers('late', []);
    await change('a');
    await eventually(async () => expect(await led.view.record.hearers()).toContain('late'));
    const list = await led.view.record.lastList();
    await before.follow();
    const informer = await next.start();
    await change('b');
    await next.lead();
    const caughtUp = informer.catchUp(AbortSignal.timeout(120_000));
    // More looks than it takes without a bookmark.
    await sleep(500);
    standsAtMs = undefined;
    await informer.setHandlers('late', []);
    await caughtUp;
    expect(await informer.view.record.lastList()).toEqual(list);
  });

  it('the users of a view are told of marks at once, and of those that come and go after it half a minute later', async () => {
    const rests: (() => void)[] = [];
    const rest = (signal?: AbortSignal): Promise<void> =>
      new Promise((resolve) => {
        rests.push(resolve);
        signal?.addEventListener('abort', () => resolve());
      });
    const sleepOrRest: Clock['sleep'] = (ms, signal) => (ms === 30_000 ? rest(signal) : systemClock.sleep(ms, signal));
    const own = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const clusterId = await clusterIdentity(cluster.client);
    const leading = new Replica(cluster, redis, own, clusterId, { ...systemClock, sleep: sleepOrRest });
    started.add(() => leading.informers.stop());
    await leading.lead();
    const informer = await leading.start(roles);
    await informer.waitForSync(AbortSignal.timeout(20_000));
    const key = { namespace, name: 'long'.repeat(500) };
    const counted = (count: number): Promise<void> =>
      eventually(async () => expect(await informer.view.indexer.keptOutCount()).toBe(count));
    const come = async (): Promise<void> => {
      await cluster.create(roles, { metadata: key });
      await counted(1);
    };
    const go = async (): Promise<void> => {
      await cluster.delete(roles, key);
      await counted(0);
    };
    await come();
    await eventually(async () => expect(leading.toldOfView).toBe(1));
    for (let round = 0; round < 3; round += 1) {
      await go();
      await come();
    }
    expect([leading.toldOfView, rests.length]).toEqual([1, 1]);
    rests[0]?.();
    await eventually(async () => expect([leading.toldOfView, rests.length]).toEqual([2, 2]));
    // Nothing has changed since: the next mark is told of at once.
    rests[1]?.();
    await go();
    await eventually(async () => expect([leading.toldOfView, rests.length]).toEqual([3, 3]));
  });

  describe('a view that is being removed', () => {
    /** Two replicas on a new key prefix. The first stands still while it removes the view. */
    async function whileRemoving() {
      const own = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
      const stalling = new StallingRedis(inject('redisUrl'));
      started.add(async () => stalling.disconnect());
      const clusterId = await clusterIdentity(cluster.client);
      const removing = new Replica(cluster, stalling, own, clusterId);
      const next = new Replica(cluster, redis, own, clusterId);
      started.add(async () => Promise.all([removing.informers.stop(), next.informers.stop()]));
      await removing.lead();
      const informer = await removing.start();
      await informer.waitForSync(AbortSignal.timeout(20_000));
      const removal = removing.informers.release(USER);
      const { objects } = viewKeys(informer.view.location.prefix);
      await eventually(async () => expect(await redis.exists(objects)).toBe(0));
      const untilTaken = async (): Promise<void> => {
        await next.lead();
        await (await next.start()).waitForSync(AbortSignal.timeout(20_000));
      };
      const isWhole = (): Promise<void> => untilCacheEqualsServer(own, cluster, [{ resource: configMaps, settings }]);
      return { isWhole, removal, stalling, untilTaken };
    }

    it('is listed anew by the next gateway when the removal was broken off', async () => {
      const { isWhole, removal, stalling, untilTaken } = await whileRemoving();
      stalling.disconnect();
      stalling.goOn.resolve();
      await expect(removal).rejects.toThrow('Connection is closed');
      await untilTaken();
      await isWhole();
    });

    it('loses nothing to the removal of a gateway that stood still until another one had taken the view', async () => {
      const { isWhole, removal, stalling, untilTaken } = await whileRemoving();
      await untilTaken();
      stalling.goOn.resolve();
      await removal;
      await isWhole();
    });
  });
});
