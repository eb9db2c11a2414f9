import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { systemClock } from '../../src/core/index.ts';
import type { OutcomeBody, RequestResult, Trigger } from '../../src/contract/index.ts';
import { TokenKeys } from '../../src/gateway/controller/access/token-keys.ts';
import { clusterIdentity } from '../../src/ground/apiserver/discovery.ts';
import { CACHE_KEYS, cacheKeyRing } from '../harness/cache-keys.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { RawFunction } from '../harness/raw-function.ts';
import { configMapsOf, startObserver } from '../harness/observer.ts';
import { SetClock } from '../harness/set-clock.ts';
import { Started } from '../harness/started.ts';

const HOUR = 3_600_000;
const CONTROLLER = 'timed';
const TOKEN = 'the-token-of-the-operator';
const TIMEOUT_MS = 8000;
const SHIFTS: [string, number][] = [
  ['back by half an hour', -HOUR / 2],
  ['back by five hours', -5 * HOUR],
  ['ahead by seven hours', 7 * HOUR],
  ['right again', 0],
];

/** A function that trusts its caller: the signatures of a gateway whose clock is wrong are refused by all others. */
class TimedFunction extends RawFunction {
  readonly triggers: { readonly name: string; readonly atMs: number; readonly trigger: Trigger }[] = [];
  readonly #results = new Map<string, RequestResult>();
  readonly #delaysMs = new Map<string, number>();

  constructor(namespace: string) {
    super({
      name: CONTROLLER,
      // Others' keys would take tokens.
      for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] },
      concurrency: 20,
      timeoutSeconds: TIMEOUT_MS / 1000,
      queue: { rateLimit: { perSecond: 5, burst: 5 } },
    });
    this.onTrigger = (trigger, response) => {
      const { name } = trigger.requests[0] ?? { name: '' };
      this.triggers.push({ name, atMs: machineMs(), trigger });
      const body: OutcomeBody = { version: 'v1', results: [this.#results.get(name) ?? { status: 'done' }] };
      setTimeout(() => response.end(JSON.stringify(body)), this.#delaysMs.get(name) ?? 0);
    };
  }

  answers(name: string, result: RequestResult, delayMs = 0): void {
    this.#results.set(name, result);
    this.#delaysMs.set(name, delayMs);
  }

  /** When triggers for this object came, from `fromMs` on. */
  timesOf(name: string, fromMs = 0): number[] {
    return this.triggers.filter((each) => each.name === name && each.atMs >= fromMs).map(({ atMs }) => atMs);
  }
}

describe("while a gateway's clock is set back and forth", () => {
  const namespace = uniqueName('clocks');
  const started = new Started();
  const fn = new TimedFunction(namespace);
  const clock = new SetClock();
  let cluster: Cluster;
  let setting: Setting;
  let tokenKeys: TokenKeys;
  let gateway: Awaited<ReturnType<typeof startGateway>>;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    started.add(async () => clock.remove());
    await fn.open();
    started.add(() => fn.close());
    const clusterId = await clusterIdentity(cluster.client);
    const place = { keyPrefix: setting.keyPrefix, clusterId };
    tokenKeys = new TokenKeys({ ring: cacheKeyRing(), cluster: place, clock: systemClock });
    gateway = await start();
    fn.answers('again', { status: 'done', requeueAfterSeconds: 2 });
    fn.answers('later', { status: 'done', requeueAfterSeconds: 3600 });
    for (const name of ['again', 'later', 'other']) {
      await cluster.create(configMaps, { metadata: { namespace, name } });
      await eventually(async () => expect(fn.timesOf(name)).not.toEqual([]));
    }
  });

  afterAll(() => started.stop());

  async function start(): Promise<Awaited<ReturnType<typeof startGateway>>> {
    const variables = {
      ...clock.variables,
      LEVELHOOK_CACHE_KEYS: CACHE_KEYS,
      LEVELHOOK_API_TOKENS: TOKEN,
      LEVELHOOK_CACHE_REQUESTS_PER_SECOND: '5',
    };
    const next = started.keep(await startGateway(setting, [fn.url], variables));
    await untilReady(next.url);
    return next;
  }

  async function reconcile(name: string): Promise<Response> {
    const body = JSON.stringify({ controller: CONTROLLER, keys: [{ namespace, name }] });
    const headers = { authorization: `Bearer ${TOKEN}` };
    return fetch(`${gateway.url}/reconcile`, { method: 'POST', headers, body });
  }

  describe.each(SHIFTS)('%s', (_what, offsetMs) => {
    beforeEach(() => clock.set(offsetMs));

    it('requeues come when they were asked for', async () => {
      const from = machineMs();
      await eventually(async () => expect(fn.timesOf('again', from).length).toBeGreaterThanOrEqual(3));
      const times = fn.timesOf('again', from);
      for (let at = 1; at < times.length; at += 1) {
        expect((times[at] ?? 0) - (times[at - 1] ?? 0)).toBeGreaterThan(1900);
      }
      expect(fn.timesOf('later')).toHaveLength(1);
    });

    it('POST /reconcile and the rate limit of the queue let as many through as before', async () => {
      const from = machineMs();
      const statuses: number[] = [];
      // A slow machine does not ask too often at the first try.
      await eventually(async () => {
        const burst = uniqueName('wanted');
        const answers = await Promise.all(Array.from({ length: 30 }, (_, at) => reconcile(`${burst}-${at}`)));
        statuses.push(...answers.map(({ status }) => status));
        expect(new Set(statuses)).toEqual(new Set([202, 429]));
      });
      const taken = statuses.filter((status) => status === 202).length;
      // Five at once, and five a second: twenty or so in four seconds.
      await eventually(async () => {
        const ran = fn.triggers.filter(({ name, atMs }) => name.startsWith('wanted') && atMs >= from);
        expect(ran.length).toBe(taken);
      });
      await eventually(async () => expect((await reconcile('other')).status).toBe(202));
    });

    it('a token of the cache API is good for as long as it was made for, and its limit is what it was', async () => {
      // Made by a right clock, and good for less than the clock was set.
      const scope = { 'v1/ConfigMap': '*' } as const;
      const claims = { controller: `reader${offsetMs}`, scope };
      const token = tokenKeys.sign('levelhook-cache', claims, Date.now() + 600_000);
      const read = async (): Promise<number> => {
        const headers = { authorization: `Bearer ${token}` };
        const path = `/cache/api/v1/namespaces/${namespace}/configmaps/again`;
        return (await fetch(gateway.url + path, { headers })).status;
      };
      await eventually(async () => expect(await read()).toBe(200));
      expect(await Promise.all(Array.from({ length: 20 }, read))).toContain(429);
      await eventually(async () => expect(await read()).toBe(200));
    });

    it('deadlines are those of its wall clock, and as long as ever', async () => {
      const { trigger } = fn.triggers.at(-1) ?? {};
      const left = Date.parse(trigger?.deadline ?? '') - (Date.now() + offsetMs);
      expect(trigger?.remainingSeconds).toBeLessThanOrEqual(TIMEOUT_MS / 1000);
      // Some seconds ago at most.
      expect(left).toBeGreaterThan(-60_000);
      expect(left).toBeLessThanOrEqual(TIMEOUT_MS);
    });
  });

  it.each<[string, number]>([
    ['back', -5 * HOUR],
    ['ahead', 7 * HOUR],
    ['right', 0],
  ])('a gateway that starts with a clock set %s goes on with the time of the one before', async (_what, offsetMs) => {
    const name = `slow-${offsetMs}`;
    fn.answers(name, { status: 'done' }, TIMEOUT_MS + 500);
    await eventually(async () => expect((await reconcile(name)).status).toBe(202));
    await eventually(async () => expect(fn.timesOf(name)).toHaveLength(1));
    // The record of time is a second old at most.
    await sleep(1100);
    await gateway.process.kill('SIGKILL');
    await clock.set(offsetMs);
    gateway = await start();
    const from = machineMs();
    await eventually(async () => expect(fn.timesOf('again', from).length).toBeGreaterThanOrEqual(2));
    // Nothing is due that was not: neither an hour's requeue, nor the deadline of the run that was in flight.
    await eventually(async () => expect(fn.timesOf(name)).toHaveLength(2));
    const [first = 0, second = 0] = fn.timesOf(name);
    expect(second - first).toBeGreaterThanOrEqual(TIMEOUT_MS);
    fn.answers(name, { status: 'done' });
  });

  it('an hour has not passed in all that', () => {
    // Each gateway may have queued all keys once, for nothing that has to do with time; none did.
    expect(fn.timesOf('later')).toHaveLength(1);
  });
});

describe('while the clocks of gateway and function are set back and forth together', () => {
  const namespace = uniqueName('clocks');
  const started = new Started();
  const clock = new SetClock();

  afterAll(() => started.stop());

  it('every change is reconciled', async () => {
    const cluster = await started.cluster(inject('kubeconfig'), namespace);
    const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    started.add(async () => clock.remove());
    const { variables } = clock;
    const observer = started.keep(await startObserver(setting, configMapsOf(namespace), { variables }));
    const gateway = started.keep(await startGateway(setting, [observer.url], variables));
    await untilReady(gateway.url);
    for (const [what, offsetMs] of SHIFTS) {
      await clock.set(offsetMs);
      const name = what.replaceAll(' ', '-');
      const { metadata } = await cluster.create(configMaps, { metadata: { namespace, name } });
      await eventually(async () => {
        const seen = observer.seen({ key: `${namespace}/${name}` });
        expect(seen.at(-1)?.resourceVersion, what).toBe(metadata.resourceVersion);
      });
    }
  });
});
