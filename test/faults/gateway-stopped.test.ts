import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { metric, runsOnRecord } from '../harness/gateway-view.ts';
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
import type { Line } from '../harness/process.ts';
import { Started } from '../harness/started.ts';

/** The observer's: so many keys are in flight when the gateway is stopped, and as many wait. */
const CONCURRENCY = 10;
const RUN_MS = 2000;
const TOKEN = 'the-token-of-the-operator';
const WARNING = 40;

const isTrigger = ({ msg }: Line): boolean => msg === 'trigger';

describe.for([
  { which: 'the only gateway', count: 1, leads: true },
  { which: 'the leader of three gateways', count: 3, leads: true },
  { which: 'a follower of three gateways', count: 3, leads: false },
])('$which, stopped with SIGTERM during runs', ({ count, leads }) => {
  const namespace = uniqueName('stopped');
  const names = Array.from({ length: 2 * CONCURRENCY }, (_, at) => `cm-${at}`);
  const keys = names.map((name) => `${namespace}/${name}`).toSorted();
  const late = ['late-0', 'late-1', 'late-2'];
  const started = new Started();
  let cluster: Cluster;
  let setting: Setting;
  let observer: Observer;
  let gateways: Listening[] = [];

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const spec = {
      ...configMapsOf(namespace),
      concurrency: CONCURRENCY,
      delayMs: RUN_MS,
      timeoutSeconds: 15,
      maxBatch: 3,
    };
    // Reads through the gateway that has sent the trigger, at the end of the run as well.
    const variables = { REDIS_URL: '' };
    observer = started.keep(await startObserver(setting, { ...spec, readsAgain: true }, { variables }));
    await create(names);
    for (let at = 0; at < count; at += 1) gateways.push(await start());
    await eventually(async () => expect(observer.keys()).toEqual(keys));
    for (const { url } of gateways) await untilIdle(url);
  });

  afterAll(() => started.stop());

  async function start(): Promise<Listening> {
    const election = count > 1 ? { LEVELHOOK_LEASE: `${namespace}/levelhook` } : {};
    const gateway = started.keep(
      await startGateway(setting, [observer.url], { LEVELHOOK_API_TOKENS: TOKEN, ...election }),
    );
    await untilReady(gateway.url);
    return gateway;
  }

  function create(which: readonly string[]): Promise<unknown> {
    return Promise.all(which.map((name) => cluster.create(configMaps, { metadata: { namespace, name }, data: {} })));
  }

  const isLeading = async ({ url }: Listening): Promise<boolean> =>
    count === 1 || (await metric(url, 'leader_election_master_status')) === 1;

  /** The gateway that leads, or one that follows. */
  function choose(): Promise<Listening> {
    return eventually(async () => {
      for (const gateway of gateways) if ((await isLeading(gateway)) === leads) return gateway;
      throw new Error(`no gateway ${leads ? 'leads' : 'follows'}`);
    });
  }

  /** Asks this gateway to run all keys: as many as have a slot start here. */
  async function runAll({ url }: Listening): Promise<void> {
    const body = { controller: observer.name, keys: names.map((name) => ({ namespace, name })) };
    const headers = { authorization: `Bearer ${TOKEN}` };
    const answer = await fetch(`${url}/reconcile`, { method: 'POST', headers, body: JSON.stringify(body) });
    expect(answer.status).toBe(202);
  }

  it('sees its triggers through, and others do the rest, each key once', { timeout: 120_000 }, async () => {
    const stopped = await choose();
    const [from, fromLine] = [observer.count, stopped.process.lines.length];
    await runAll(stopped);
    await eventually(async () => expect(observer.keys(from)).toHaveLength(CONCURRENCY));
    const inFlight = observer.keys(from);

    stopped.process.send('SIGTERM');
    await create(late);
    expect(await stopped.process.exited).toBe(0);

    const lines = stopped.process.lines.slice(fromLine);
    const stoppingAt = lines.findIndex(({ msg }) => msg === 'stopping');
    const ended = lines.slice(stoppingAt).filter(isTrigger);
    const own = ended.map(({ key }) => String(key)).toSorted();
    // The other gateways may have taken some of the slots.
    if (count === 1) expect(own).toEqual(inFlight);
    expect(own).not.toEqual([]);
    expect(inFlight).toEqual(expect.arrayContaining(own));
    expect(lines.filter(({ level }) => Number(level) >= WARNING)).toEqual([]);

    gateways = gateways.filter((gateway) => gateway !== stopped);
    if (count === 1) {
      expect(await runsOnRecord(setting, cluster, observer.name)).toEqual([]);
      expect(observer.keys(from)).toEqual(inFlight);
      gateways.push(await start());
    }
    if (count > 1 && leads) {
      // Before the runs of the gateway that stops have ended.
      const led = gateways.flatMap(({ process }) => process.lines.filter(({ msg }) => msg === 'leading'));
      expect(led).toHaveLength(1);
      expect(String(led[0]?.['time']) < String(ended[0]?.['time'])).toBe(true);
    }
    const all = [...keys, ...late.map((name) => `${namespace}/${name}`)].toSorted();
    await eventually(async () => expect(observer.keys(from)).toEqual(all));
    await eventually(async () => expect(await runsOnRecord(setting, cluster, observer.name)).toEqual([]));

    // No key was run twice: no outcome was forgotten.
    expect(
      observer
        .seen({ from })
        .map(({ key }) => key)
        .toSorted(),
    ).toEqual(all);
    expect(observer.brokenOff).toEqual([]);
    const triggers = [stopped, ...gateways].flatMap(({ process }) => process.lines.filter(isTrigger));
    expect(triggers.filter(({ outcome }) => outcome !== 'done')).toEqual([]);
    for (const { url } of gateways) expect(await metric(url, 'levelhook_lost_outcomes_total')).toBe(0);
    for (const { process } of gateways) expect(await process.kill('SIGTERM')).toBe(0);
  });
});
