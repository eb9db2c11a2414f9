import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, startGateway, uniqueName, untilIdle, untilReady } from '../harness/levelhook.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';

/** Longer than Node's own server keeps an idle connection (5 s, and one more from Node 24.6 on). */
const LONGER_THAN_NODES_DEFAULT_MS = 7000;
const NAMES = Array.from({ length: 10 }, (_, at) => `cm-${at}`);

describe('connections between gateway and function', () => {
  const namespace = uniqueName('frozen');
  const ours = NAMES.map((name) => `${namespace}/${name}`);
  const started = new Started();
  let cluster: Cluster;
  let observer: Observer;
  let gateway: Awaited<ReturnType<typeof startGateway>>;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    observer = started.keep(await startObserver(setting, configMapsOf(namespace)));
    gateway = started.keep(await startGateway(setting, [observer.url]));
    await untilReady(gateway.url);
    for (const name of NAMES) await cluster.create(configMaps, { metadata: { namespace, name } });
    await eventually(async () => expect(observer.seen()).toHaveLength(NAMES.length));
  });

  afterAll(() => started.stop());

  /** Writes to all objects at once, so that as many connections as there may be are in use. */
  async function changeAll(count: string): Promise<() => Promise<void>> {
    const changed = await Promise.all(
      NAMES.map((name) => cluster.patch(configMaps, { namespace, name }, { data: { count } })),
    );
    const versions = changed.map(({ metadata }) => metadata.resourceVersion);
    return () =>
      eventually(async () => {
        const seen = observer.seen().map(({ resourceVersion }) => resourceVersion);
        expect(seen).toEqual(expect.arrayContaining(versions));
        await untilIdle(gateway.url);
      });
  }

  /** Of our objects only: other tests share the cluster, and a run for one of theirs may be in flight at the freeze. */
  function expectNoFailure(): void {
    const triggers = gateway.process.lines.filter(({ msg, key }) => msg === 'trigger' && ours.includes(String(key)));
    expect(triggers.length).toBeGreaterThanOrEqual(NAMES.length);
    expect(triggers.filter(({ outcome }) => outcome !== 'done')).toEqual([]);
  }

  it('are kept by the function for longer than any gateway uses them', async () => {
    const socket = connect(Number(new URL(observer.url).port), '127.0.0.1');
    started.add(async () => socket.destroy());
    const ask = async (): Promise<string> => {
      socket.write('GET / HTTP/1.1\r\nhost: function\r\n\r\n');
      return String((await once(socket, 'data'))[0]);
    };
    expect(await ask()).toMatch(/\r\nkeep-alive: timeout=75\r\n/i);
    await sleep(LONGER_THAN_NODES_DEFAULT_MS);
    expect(await ask()).toMatch(/^HTTP\/1\.1 401 /);
  });

  it('carry triggers after they were idle', async () => {
    await (
      await changeAll('before')
    )();
    await sleep(LONGER_THAN_NODES_DEFAULT_MS);
    await (
      await changeAll('after')
    )();
    expectNoFailure();
  });

  it('carry triggers after the gateway stood still', async () => {
    await (
      await changeAll('before it')
    )();
    process.kill(gateway.process.pid, 'SIGSTOP');
    const untilSeen = await changeAll('after it');
    await sleep(LONGER_THAN_NODES_DEFAULT_MS);
    process.kill(gateway.process.pid, 'SIGCONT');
    await untilSeen();
    expectNoFailure();
  });
});
