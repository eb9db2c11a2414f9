import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { BATCHER, batcher, batchesOf } from '../../harness/batching.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import { createSetting, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { QueueClient } from '../../harness/queue-client.ts';
import { ServedFunction } from '../../harness/served-function.ts';
import { Started } from '../../harness/started.ts';

describe('a function that takes keys in batches', () => {
  const namespace = uniqueName('batches');
  const started = new Started();
  let cluster: Cluster;
  let fn: ServedFunction;
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let queue: QueueClient;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    fn = await started.open(new ServedFunction(batcher(namespace), setting));
    gateway = started.keep(await openGateway(setting, [fn.url]));
    await untilReady(gateway.url);
    queue = new QueueClient(gateway.url, BATCHER);
  });

  afterAll(() => started.stop());

  /** All at once: they wait together until the last is there. */
  async function createTogether(asked: Readonly<Record<string, string>>): Promise<void> {
    await queue.pause();
    for (const [name, what] of Object.entries(asked)) {
      await cluster.create(configMaps, { metadata: { namespace, name }, data: { do: what } });
    }
    await eventually(async () => {
      for (const name of Object.keys(asked)) {
        expect((await queue.status(`${namespace}/${name}`)).waits).toMatchObject([{ reason: 'paused' }]);
      }
    });
    await queue.resume();
  }
  const numbered = (stem: string, count: number, what: string): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`${stem}-${at}`, what]));
  const childrenOf = async (name: string): Promise<number> => {
    const { items } = await cluster.list(configMaps, namespace);
    return items.filter(({ metadata }) => metadata.ownerReferences?.some((owner) => owner.name === name)).length;
  };

  it('answers for each key by itself: what fails or hangs touches no other, and comes back alone', async () => {
    const fine = numbered('fine', 40, 'nothing');
    const asked = { ...numbered('fail', 3, 'fail-once'), ...numbered('hang', 2, 'hang'), ...fine };
    await createTogether(asked);
    await eventually(async () => {
      for (const name of Object.keys(asked)) expect(batchesOf(fn.triggers, name)).not.toEqual([]);
      for (const name of ['hang-0', 'hang-1']) expect(batchesOf(fn.triggers, name).length).toBeGreaterThan(1);
    });
    const sizes = fn.triggers.map(({ requests }) => requests.length);
    expect(Math.max(...sizes)).toBeGreaterThan(1);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(10);
    for (const name of Object.keys(fine)) {
      expect(batchesOf(fn.triggers, name).every(({ attempt }) => attempt === 1)).toBe(true);
      const { failures, history } = await queue.status(`${namespace}/${name}`);
      // A run that waits too long for the function is not sent, and queued again.
      const ended = history.map(({ outcome }) => outcome).filter((each) => each !== 'not-sent');
      expect([failures, ...ended], name).toEqual([0, ...ended.map(() => 'done')]);
    }
    for (const name of ['fail-0', 'fail-1', 'fail-2']) {
      await eventually(async () => {
        expect(batchesOf(fn.triggers, name)).toMatchObject([{}, { size: 1, attempt: 2 }]);
        expect(await queue.errors(`${namespace}/${name}`)).toEqual([undefined, `no ${name}`]);
      });
    }
    for (const name of ['hang-0', 'hang-1']) {
      expect(batchesOf(fn.triggers, name)[1]).toEqual({ size: 1, attempt: 2 });
    }
    expect(await metric(gateway.url, 'levelhook_unknown_outcomes_total', { reason: 'write' })).toBeGreaterThan(0);
  });

  it('sees in each run of a key what the one before has written', async () => {
    const names = Object.keys(numbered('parent', 30, '6'));
    const before = fn.triggers.length;
    await createTogether(numbered('parent', 30, '6'));
    await eventually(async () => {
      for (const name of names) expect(batchesOf(fn.triggers, name).length).toBeGreaterThanOrEqual(7);
    }, 120_000);
    await eventually(async () => {
      for (const name of names) expect(await childrenOf(name)).toBe(6);
    });
    const sizes = fn.triggers.slice(before).map(({ requests }) => requests.length);
    expect(Math.max(...sizes)).toBeGreaterThan(1);
  });
});
