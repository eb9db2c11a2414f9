import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { AdmissionDescription } from '../../src/contract/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import { metric } from '../harness/gateway-view.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilReady,
} from '../harness/levelhook.ts';
import { stillDuring } from '../harness/pace.ts';
import { allow, refuse, ReviewFunction } from '../harness/review-function.ts';
import { Started } from '../harness/started.ts';
import {
  type Configured,
  configureWebhook,
  reviewServing,
  type ReviewServing,
  reviewsUrl,
} from '../harness/webhook-configurations.ts';

const started = new Started();
const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };
const webhook: AdmissionDescription = { ...configMap, type: 'validating', name: 'rule', operations: ['CREATE'] };
const onCreate: Pick<Configured, 'type' | 'name' | 'operations' | 'rule'> = {
  type: 'validating',
  name: 'rule',
  operations: ['CREATE'],
  rule: ['', 'v1', 'configmaps'],
};

let cluster: Cluster;
let serving: ReviewServing;
let setting: Setting;
let count = 0;

const strict = uniqueName('strict');
const lenient = uniqueName('lenient');

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), strict);
  await cluster.createNamespace(lenient);
  started.add(() => cluster.deleteNamespace(lenient));
  serving = await reviewServing(started, inject('kubeconfig'));
  setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
});
afterAll(() => started.stop());

/** Refuses what says that it is bad. */
function judge(fn: ReviewFunction, delayMs = 0): void {
  const bad = refuse('it is bad');
  fn.behaviour = (review, response) => {
    const isBad = review.request.object?.data?.['is'] === 'bad';
    setTimeout(() => (isBad ? bad : allow)(review, response), delayMs);
  };
}

interface Write {
  readonly namespace: string;
  readonly name: string;
  readonly isBad: boolean;
  readonly beganMs: number;
  readonly endedMs: number;
  /** Undefined: it was stored. */
  readonly error: string | undefined;
}

async function write(namespace: string, isBad: boolean): Promise<Write> {
  count += 1;
  const name = `w-${count}`;
  const beganMs = Date.now();
  let error: string | undefined;
  try {
    await cluster.create(configMaps, { metadata: { namespace, name }, data: { is: isBad ? 'bad' : 'good' } });
  } catch (thrown) {
    error = String(thrown);
  }
  return { namespace, name, isBad, beganMs, endedMs: Date.now(), error };
}

/** The sum of an apiserver's counter over the series that carry all of `labels`. */
async function apiserverMetric(name: string, labels: Readonly<Record<string, string>>): Promise<number> {
  let text = '';
  for await (const part of await cluster.client.stream({ path: '/metrics', accept: 'text/plain' }))
    text += String(part);
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) && wanted.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

const DENIED = /denied the request: it is bad/;
const NOT_CALLED = /failed calling webhook/;

describe('a function that is killed and started again while objects are written', () => {
  const WINDOW_SECONDS = 3;
  let fn: ReviewFunction;

  beforeAll(async () => {
    fn = await started.open(new ReviewFunction({ name: 'judge', for: configMap, webhooks: [webhook] }, setting.secret));
    judge(fn, 20);
    const gateway = started.keep(
      await startGateway(setting, [fn.url], {
        ...serving.settings,
        LEVELHOOK_START_WINDOW_SECONDS: String(WINDOW_SECONDS),
      }),
    );
    await untilReady(gateway.url);
    const url = `${await reviewsUrl(gateway)}/webhooks/judge`;
    for (const [namespace, failurePolicy] of [
      [strict, 'Fail'],
      [lenient, 'Ignore'],
    ] as const) {
      const options = { cluster, started, ca: serving.ca, namespace, name: namespace };
      // The names differ, so that the apiserver's counters do.
      await configureWebhook(options, url, {
        ...onCreate,
        failurePolicy,
        // Longer than a busy machine delays a review. A gateway answers sooner when the function is down.
        timeoutSeconds: 20,
        label: failurePolicy.toLowerCase(),
      });
      await eventually(async () => expect((await write(namespace, true)).error).toMatch(DENIED));
    }
  });

  it('each failure policy keeps its promise, and nothing else is refused', { timeout: 240_000 }, async () => {
    const rejected = (name: string, error_type: string) =>
      apiserverMetric('apiserver_admission_webhook_rejection_count', {
        name: `${name}.rule.test.levelhook.dev`,
        error_type,
      });
    const failedOpen = () =>
      apiserverMetric('apiserver_admission_webhook_fail_open_count', { name: 'ignore.rule.test.levelhook.dev' });
    const before = {
      strict: await rejected('fail', 'calling_webhook_error'),
      denied: await rejected('fail', 'no_error'),
      lenient: await rejected('ignore', 'calling_webhook_error'),
      open: await failedOpen(),
    };
    const writes: Write[] = [];
    const over = new AbortController();
    const writers = [strict, lenient].flatMap((namespace) =>
      [false, true, false].map(async (isBad) => {
        while (!over.signal.aborted) writes.push(await write(namespace, isBad));
      }),
    );
    const outages: [number, number][] = [];
    // Shorter than the window of a start, and longer.
    for (const downMs of [1500, 1500, (WINDOW_SECONDS + 3) * 1000]) {
      await sleep(2000);
      const fromMs = Date.now();
      await fn.close();
      await sleep(downMs);
      await fn.open();
      outages.push([fromMs, Date.now()]);
    }
    await sleep(2000);
    const of = (namespace: string, isBad: boolean) =>
      writes.filter((each) => each.namespace === namespace && each.isBad === isBad);
    await eventually(async () => {
      for (const namespace of [strict, lenient]) {
        for (const isBad of [false, true]) expect(of(namespace, isBad).length).toBeGreaterThan(50);
      }
    });
    over.abort();
    await Promise.all(writers);
    const isDuring = ({ beganMs, endedMs }: Write) => outages.some(([from, to]) => endedMs >= from && beganMs <= to);
    const stored = ({ error }: Write) => error === undefined;
    const uncalled = ({ error }: Write) => error !== undefined && NOT_CALLED.test(error);
    const denied = ({ error }: Write) => error !== undefined && DENIED.test(error);

    // Fail: nothing bad is stored, and what is good is refused by the policy alone, while the function is down.
    expect(of(strict, true).filter(stored)).toEqual([]);
    expect(of(strict, true).filter((each) => !denied(each) && !uncalled(each))).toEqual([]);
    expect(of(strict, false).filter((each) => !stored(each) && !(uncalled(each) && isDuring(each)))).toEqual([]);
    const strictUncalled = writes.filter((each) => each.namespace === strict && uncalled(each));
    expect(strictUncalled.filter((each) => !isDuring(each))).toEqual([]);
    expect(strictUncalled.length).toBeGreaterThan(0);
    // Ignore: everything good is stored, and what is bad only while the function is down.
    expect(of(lenient, false).filter((each) => !stored(each))).toEqual([]);
    expect(of(lenient, true).filter((each) => !denied(each) && !(stored(each) && isDuring(each)))).toEqual([]);
    // The apiserver has counted the same.
    expect((await rejected('fail', 'calling_webhook_error')) - before.strict).toBe(strictUncalled.length);
    expect((await rejected('fail', 'no_error')) - before.denied).toBe(of(strict, true).filter(denied).length);
    expect((await rejected('ignore', 'calling_webhook_error')) - before.lenient).toBe(0);
    expect((await failedOpen()) - before.open).toBeGreaterThanOrEqual(of(lenient, true).filter(stored).length);
    process.stdout.write(
      `${writes.length} writes; Fail: ${strictUncalled.length} not reviewed and refused; ` +
        `Ignore: ${of(lenient, true).filter(stored).length} bad ones stored without a review\n`,
    );
  });
});

describe('two gateways, and a webhook that bounds the age of its cache', () => {
  const choices = ['review', 'fail', 'allow'] as const;
  const LIMIT_SECONDS = 10;
  const LEAST_REVIEWS = 20;
  const spaces = choices.map((choice) => ({ choice, namespace: uniqueName(`age-${choice}`) }));
  /** Of a kind that nobody changes. */
  const quiet = { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass' };
  let fn: ReviewFunction;
  let own: Setting;
  let proxy: CuttingProxy;
  const gateways: Listening[] = [];
  const urls: string[] = [];

  beforeAll(async () => {
    own = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const webhooks = choices.map((otherwise): AdmissionDescription => {
      return { ...webhook, name: otherwise, cache: { maxAgeSeconds: LIMIT_SECONDS, otherwise } };
    });
    fn = await started.open(new ReviewFunction({ name: 'aged', for: quiet, webhooks }, own.secret));
    judge(fn);
    proxy = await CuttingProxy.start(cluster.client.server);
    started.add(() => proxy.stop());
    const kubeconfig = await proxy.kubeconfig(inject('kubeconfig'), join(await started.directory(), 'kubeconfig'));
    for (let at = 0; at < 2; at += 1) {
      const gateway = started.keep(
        await startGateway({ ...own, kubeconfig }, [fn.url], {
          ...serving.settings,
          LEVELHOOK_LEASE: `${strict}/levelhook`,
          LEVELHOOK_LEASE_SECONDS: '60',
          LEVELHOOK_LEASE_RENEW_SECONDS: '50',
          LEVELHOOK_LEASE_RETRY_SECONDS: '1',
        }),
      );
      gateways.push(gateway);
      urls.push(`${await reviewsUrl(gateway)}/webhooks/aged`);
      await untilReady(gateway.url);
    }
    for (const [at, { choice, namespace }] of spaces.entries()) {
      await cluster.createNamespace(namespace);
      started.add(() => cluster.deleteNamespace(namespace));
      // The first gateway leads, and the second follows.
      const options = { cluster, started, ca: serving.ca, namespace, name: namespace };
      await configureWebhook(options, urls[at % 2] ?? '', { ...onCreate, name: choice });
      await eventually(async () => expect((await write(namespace, true)).error).toMatch(DENIED));
    }
  });

  it('a quiet kind stays younger than the limit, at the leader and at the follower', async () => {
    fn.reviews.length = 0;
    const untilMs = Date.now() + 20_000;
    const looks = async (): Promise<void> => {
      for (let look = 0; look <= LEAST_REVIEWS / 2 || Date.now() < untilMs; look += 1) {
        for (const { namespace } of spaces) {
          expect((await write(namespace, true)).error).toMatch(DENIED);
          expect((await write(namespace, false)).error).toBeUndefined();
        }
        await sleep(200);
      }
    };
    const stillMs = await stillDuring(looks());
    const ages = fn.reviews.map(
      ({ cacheAgeSeconds }) => cacheAgeSeconds['scheduling.k8s.io/v1/PriorityClass'] ?? Infinity,
    );
    expect(Math.max(...ages) - stillMs / 1000).toBeLessThanOrEqual(LIMIT_SECONDS);
    for (const gateway of gateways) {
      expect(await metric(gateway.url, 'controller_runtime_webhook_requests_total', { code: '200' })).toBeGreaterThan(
        LEAST_REVIEWS,
      );
    }
  });

  it('beyond the limit happens what the author has chosen', async () => {
    proxy.sever();
    await sleep((LIMIT_SECONDS + 1) * 1000);
    const [reviewed, failed, allowed] = spaces;
    fn.reviews.length = 0;
    expect((await write(reviewed?.namespace ?? '', true)).error).toMatch(DENIED);
    expect(fn.reviews[0]?.cacheAgeSeconds['scheduling.k8s.io/v1/PriorityClass']).toBeGreaterThan(LIMIT_SECONDS);
    fn.reviews.length = 0;
    expect((await write(failed?.namespace ?? '', false)).error).toMatch(
      /the cache of scheduling.k8s.io\/v1\/PriorityClass is [0-9]+ s old, and the webhook fail allows 10 s/,
    );
    expect((await write(allowed?.namespace ?? '', true)).error).toBeUndefined();
    expect(fn.reviews).toEqual([]);
    proxy.mend();
    await eventually(async () => {
      expect((await write(failed?.namespace ?? '', false)).error).toBeUndefined();
      expect((await write(allowed?.namespace ?? '', true)).error).toMatch(DENIED);
    });
  });
});

/** Passes new connections on to its targets in turn, as a Service does; open ones stay where they are. */
class Balancer {
  targets: readonly URL[] = [];
  #turn = 0;
  readonly #server = createServer((incoming) => {
    this.#turn += 1;
    const target = this.targets[this.#turn % this.targets.length];
    const outgoing = connect(Number(target?.port), '127.0.0.1');
    for (const [from, to] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => to.destroy());
    }
  });

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    this.#server.close();
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }
}

describe('two gateways behind one address, which are stopped one after the other', () => {
  const WRITERS = 6;
  const namespace = uniqueName('stopped');

  it('no review fails, and the writes go on without a pause', async () => {
    await cluster.createNamespace(namespace);
    started.add(() => cluster.deleteNamespace(namespace));
    const own = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const fn = new ReviewFunction({ name: 'kept', for: configMap, webhooks: [webhook] }, own.secret);
    await started.open(fn);
    judge(fn, 20);
    const startOne = async (): Promise<{ gateway: Listening; target: URL }> => {
      const settings = { ...serving.settings, LEVELHOOK_LEASE: `${namespace}/levelhook` };
      const gateway = started.keep(await startGateway(own, [fn.url], settings));
      await untilReady(gateway.url);
      return { gateway, target: new URL(await reviewsUrl(gateway)) };
    };
    const balancer = await started.open(new Balancer());
    const gateways = [await startOne(), await startOne()];
    balancer.targets = gateways.map(({ target }) => target);
    const options = { cluster, started, ca: serving.ca, namespace, name: namespace };
    await configureWebhook(options, `${balancer.url}/webhooks/kept`, onCreate);
    await eventually(async () => expect((await write(namespace, true)).error).toMatch(DENIED));

    const writes: Write[] = [];
    const over = new AbortController();
    const writers = Array.from({ length: WRITERS }, async (_, at) => {
      while (!over.signal.aborted) writes.push(await write(namespace, at % 2 === 0));
    });
    try {
      for (const { gateway, target } of gateways) {
        await sleep(1500);
        await eventually(async () => {
          const reviewed = await metric(gateway.url, 'controller_runtime_webhook_requests_total', { code: '200' });
          expect(reviewed).toBeGreaterThan(20);
        });
        const next = await startOne();
        // As the pod of the chart: it is no endpoint of the Service any more before it is told to stop.
        balancer.targets = [...balancer.targets.filter((each) => each !== target), next.target];
        expect(await gateway.process.kill('SIGTERM')).toBe(0);
      }
      await sleep(1500);
    } finally {
      over.abort();
      await Promise.all(writers);
    }
    expect(writes.filter(({ isBad, error }) => !isBad && error !== undefined)).toEqual([]);
    expect(writes.filter(({ isBad, error }) => isBad && !DENIED.test(error ?? ''))).toEqual([]);
    expect(writes.length).toBeGreaterThan(100);
    const longest = Math.max(...writes.map(({ beganMs, endedMs }) => endedMs - beganMs));
    process.stdout.write(`${writes.length} writes while both gateways were replaced, ${longest} ms at most\n`);
  });
});
