import { join } from 'node:path';
import { afterEach, describe, expect, inject, it } from 'vitest';
import type { OutcomeBody } from '../../src/contract/index.ts';
import { BATCHER, batcher, batchesOf } from '../harness/batching.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { QueueClient } from '../harness/queue-client.ts';
import { type OnAnswer, ServedFunction } from '../harness/served-function.ts';
import { Started } from '../harness/started.ts';

const CHILDREN = 4;
const NAMES = Array.from({ length: 30 }, (_, at) => `parent-${at}`);

/** Keys that make children, one in each run, by batches; the function has written when the fault comes. */
class Scene {
  readonly started = new Started();
  readonly namespace = uniqueName('lost-batch');
  readonly #setting: Setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  readonly fn = new ServedFunction(batcher(this.namespace), this.#setting);
  #gatewayKubeconfig = this.#setting.kubeconfig;
  #cluster!: Cluster;
  #gateway!: Awaited<ReturnType<typeof startGateway>>;

  /** @param lagMs how far the gateway's watches are behind. */
  async start(onAnswer: OnAnswer, lagMs = 0): Promise<void> {
    if (lagMs > 0) await this.#lag(lagMs);
    this.#cluster = await this.started.cluster(inject('kubeconfig'), this.namespace);
    await this.fn.open();
    this.started.add(() => this.fn.close());
    this.#gateway = await this.#startGateway();
    const queue = new QueueClient(this.#gateway.url, BATCHER);
    await queue.pause();
    for (const name of NAMES) {
      const metadata = { namespace: this.namespace, name };
      await this.#cluster.create(configMaps, { metadata, data: { do: String(CHILDREN) } });
    }
    await eventually(async () => {
      const last = await queue.status(`${this.namespace}/${NAMES.at(-1)}`);
      expect(last.waits).toMatchObject([{ reason: 'paused' }]);
    });
    this.fn.onAnswer = onAnswer;
    await queue.resume();
  }

  async #lag(lagMs: number): Promise<void> {
    const { kubeconfig } = this.#setting;
    const directory = await this.started.directory();
    const lag = await CuttingProxy.beforeApiserver(kubeconfig, lagMs);
    this.started.add(() => lag.stop());
    this.#gatewayKubeconfig = await lag.kubeconfig(kubeconfig, join(directory, 'lagging'));
  }

  async replaceGateway(): Promise<void> {
    await this.#gateway.process.kill('SIGKILL');
    this.#gateway = await this.#startGateway();
  }

  async #startGateway() {
    const setting = { ...this.#setting, kubeconfig: this.#gatewayKubeconfig };
    const gateway = this.started.keep(await startGateway(setting, [this.fn.url]));
    await untilReady(gateway.url);
    return gateway;
  }

  /** How many children each has, once the function has seen of each that it has enough. */
  async settled(): Promise<number[]> {
    const queue = (): QueueClient => new QueueClient(this.#gateway.url, BATCHER);
    let counts: number[] = [];
    await eventually(async () => {
      const { items } = await this.#cluster.list(configMaps, this.namespace);
      const owners = items.flatMap(({ metadata }) => metadata.ownerReferences?.map(({ name }) => name) ?? []);
      counts = NAMES.map((name) => owners.filter((owner) => owner === name).length);
      expect(Math.min(...counts)).toBeGreaterThanOrEqual(CHILDREN);
      for (const name of NAMES) {
        const { running, timerMs, queued } = await queue().status(`${this.namespace}/${name}`);
        expect({ running, timerMs, queued }).toEqual({ running: undefined, timerMs: undefined, queued: false });
      }
    });
    return counts;
  }
}

describe('of a batch that has written', () => {
  let scene: Scene;

  afterEach(() => scene.started.stop());

  /** Calls `then` with the first answer to a batch in which something was written. */
  function atFirstBatch(then: (outcome: OutcomeBody) => OutcomeBody | Promise<OutcomeBody>): OnAnswer {
    let met = false;
    return (outcome) => {
      const wrote = outcome.results.filter((result) => 'writes' in result && result.writes?.length);
      if (met || wrote.length < 2) return outcome;
      met = true;
      return then(outcome);
    };
  }
  const exactly = NAMES.map(() => CHILDREN);

  it('nothing is made twice when the gateway is killed before its answer', async () => {
    scene = new Scene();
    const killed = Promise.withResolvers<void>();
    await scene.start(
      atFirstBatch(async (outcome) => {
        killed.resolve(scene.replaceGateway());
        await killed.promise;
        return outcome;
      }),
    );
    await killed.promise;
    expect(await scene.settled()).toEqual(exactly);
  });

  it.each<[string, (outcome: OutcomeBody) => OutcomeBody]>([
    ['one result is missing', (outcome) => ({ ...outcome, results: outcome.results.slice(1) })],
    ['one result is too many', (outcome) => ({ ...outcome, results: [...outcome.results, { status: 'done' }] })],
    ['there is no result', (outcome) => ({ ...outcome, results: [] })],
  ])('nothing is made twice when %s, and all of it comes back alone', async (_what, damage) => {
    scene = new Scene();
    let damaged: string[] = [];
    const onAnswer = atFirstBatch(damage);
    await scene.start((outcome, trigger) => {
      const answered = onAnswer(outcome, trigger);
      if (answered !== outcome) damaged = trigger.requests.map(({ name }) => name);
      return answered;
    });
    expect(await scene.settled()).toEqual(exactly);
    expect(damaged.length).toBeGreaterThan(1);
    for (const name of damaged) {
      const retries = batchesOf(scene.fn.triggers, name).filter(({ attempt }) => attempt === 2);
      // On a slow machine a later run may need a second attempt, too.
      expect(retries.length).toBeGreaterThan(0);
      expect(retries).toEqual(retries.map(() => ({ size: 1, attempt: 2 })));
    }
  });

  it('much is made twice when the answers do not say what was written', async () => {
    scene = new Scene();
    const forget = (outcome: OutcomeBody): OutcomeBody => ({
      ...outcome,
      results: outcome.results.map((result) => ('writes' in result ? { ...result, writes: [] } : result)),
    });
    await scene.start(forget, 2000);
    expect(Math.max(...(await scene.settled()))).toBeGreaterThan(CHILDREN);
  });
});
