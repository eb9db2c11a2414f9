import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { descriptionSchema } from '../../../src/contract/description-schema.ts';
import { generateSecret, importSecret, RESULT_STREAM, sign } from '../../../src/contract/index.ts';
import { decodeResultLine, decodeResults } from '../../../src/contract/outcome-schema.ts';
import { controllerOf, type KubernetesObject, resource, resourcePath } from '../../../src/core/index.ts';
import { ChangeWatch } from '../change-watch.ts';
import { type Cluster, configMaps } from '../cluster.ts';
import { CuttingProxy } from '../cutting-proxy.ts';
import { eventually } from '../eventually.ts';
import { exact } from '../exact-json.ts';
import { createSetting, type Listening, type Setting, startGateway, uniqueName, untilReady } from '../levelhook.ts';
import { QueueClient } from '../queue-client.ts';
import { Started } from '../started.ts';
import type { Account, Platform } from './platforms.ts';
import type { PlatformProject } from './platform-project.ts';

const CONTROLLER = 'copies';
const LABEL = 'example.com/copies';
/** How much later than the function the gateway hears of a copy: longer than a run and its requeue take. */
const LAG_MS = 300;
/** What a write of the function takes at least, so that a run is under way for a while. */
const WRITE_MS = 20;

const TOKEN = 'the-token-with-which-the-test-asks-for-runs';

const METERS = 'platforms.example.com';
/** Three integers that JavaScript's numbers round, and the largest one that they do not. */
const COUNTS = '{"odd":9007199254740993,"max":9223372036854775807,"min":-9223372036854775808,"last":9007199254740991}';
const meter = (version: string, field: string): string =>
  `{"apiVersion":"${METERS}/${version}","kind":"Meter","metadata":{"name":"m","namespace":"n"},"spec":{"${field}":${COUNTS}}}`;
const METER = meter('v2', 'counts');
const OLD_METER = meter('v1', 'readings');
/** The reviews of an apiserver, as text, so that no codec of ours has written them. */
const ADMISSION =
  '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","name":"m","namespace":"n",' +
  `"kind":{"group":"${METERS}","version":"v2","kind":"Meter"},"operation":"CREATE","userInfo":{"username":"user"},` +
  `"resource":{"group":"${METERS}","version":"v2","resource":"meters"},"object":${METER}}}`;
const conversion = (to: string, object: string): string =>
  '{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview",' +
  `"request":{"uid":"u","desiredAPIVersion":"${METERS}/${to}","objects":[${object}]}}`;

/** The body with which the gateway asks for a review. */
function reviewRequest(webhook: string, review: string): string {
  const deadline = new Date(Date.now() + 10_000).toISOString();
  const request = { version: 'v1', controller: 'reviews', webhook, deadline, remainingSeconds: 10 };
  const text = JSON.stringify({ ...request, authenticated: false, cache: { views: {} }, cacheAgeSeconds: {} });
  return `${text.slice(0, -1)},"review":${review}}`;
}

interface PodTemplate extends KubernetesObject {
  template: object;
}
const podTemplates = resource<PodTemplate>('v1', 'PodTemplate');

export interface PlatformScene {
  readonly project: PlatformProject;
  /** The same with the controller of `templates.ts`. */
  readonly templates: PlatformProject;
  /** The same with the webhooks of `reviews.ts`. */
  readonly reviews: PlatformProject;
  readonly account: Account;
  readonly secret: string;
}

/** Copies by the name of their source, as the apiserver's watch tells of them. */
class CopiesWatch {
  readonly made = new Map<string, number>();
  readonly there = new Map<string, Set<string>>();
  onMade: (source: string, made: number) => void = () => {};

  tell(type: 'ADDED' | 'MODIFIED' | 'DELETED', name: string, source: string): void {
    const names = this.there.get(source) ?? new Set();
    this.there.set(source, names);
    if (type === 'DELETED') names.delete(name);
    else names.add(name);
    if (type !== 'ADDED') return;
    const made = (this.made.get(source) ?? 0) + 1;
    this.made.set(source, made);
    this.onMade(source, made);
  }

  /** How many have been made, and how many there are. */
  of(source: string): { made: number; there: number } {
    return { made: this.made.get(source) ?? 0, there: this.there.get(source)?.size ?? 0 };
  }
}

/** The contract of a platform, with a real gateway that lags behind the apiserver, which the function writes to. */
export function describePlatform(platform: Platform, sceneOf: () => PlatformScene): void {
  const started = new Started();
  const namespace = uniqueName('platform');
  const watch = new CopiesWatch();
  let scene: PlatformScene;
  let account: Account;
  let cluster: Cluster;
  let fn: Listening;
  let templates: Listening;
  let setting: Setting;
  let gateway: Listening;

  const openGateway = async (): Promise<Listening> => {
    const opened = started.keep(await startGateway(setting, [fn.url, templates.url], { LEVELHOOK_API_TOKENS: TOKEN }));
    await untilReady(opened.url);
    return opened;
  };

  const startFunction = async (port: number, project = scene.project): Promise<Listening> => {
    const { secret } = scene;
    const secrets = `${generateSecret()} ${secret}`;
    return started.keep(await platform.start({ project, account, secrets, port }));
  };

  const create = (name: string, copies: number, text = 'one') =>
    cluster.create(configMaps, { metadata: { namespace, name, labels: { [LABEL]: String(copies) } }, data: { text } });

  const untilCopies = (source: string, there: number, limitMs = 30_000) =>
    eventually(async () => expect(watch.of(source).there).toBe(there), limitMs);

  const post = async (
    body: string,
    by: { secret?: string; nowMs?: number; id?: string; accept?: string; url?: string } = {},
  ) => {
    const { secret = scene.secret, nowMs = Date.now(), id = crypto.randomUUID(), accept = 'application/json' } = by;
    const signed = await sign([await importSecret(secret)], { id, nowMs, body });
    return fetch(by.url ?? fn.url, {
      method: 'POST',
      body,
      headers: { ...signed, accept, 'content-type': 'application/json' },
    });
  };

  const trigger = (controller: string, names: readonly string[]): string =>
    JSON.stringify({
      version: 'v1',
      controller,
      deadline: new Date(Date.now() + 10_000).toISOString(),
      remainingSeconds: 10,
      cache: { views: {} },
      requests: names.map((name, at) => ({ namespace, name, attempt: 1, run: at + 1, reasons: [] })),
    });

  beforeAll(async () => {
    scene = sceneOf();
    cluster = await started.cluster(scene.account.kubeconfig, namespace);
    const changes = await ChangeWatch.start(cluster, configMaps, namespace, (type, object) => {
      const source = controllerOf(object)?.name;
      if (source !== undefined) watch.tell(type, object.metadata.name, source);
    });
    started.add(() => changes.stop());
    const { server, kubeconfig: original } = scene.account;
    const directory = await started.directory();
    const far = await CuttingProxy.start(server, WRITE_MS);
    started.add(() => far.stop());
    account = { ...scene.account, server: far.url, kubeconfig: await far.kubeconfig(original, join(directory, 'far')) };
    fn = await startFunction(0);
    templates = await startFunction(0, scene.templates);
    const lag = await CuttingProxy.start(server, LAG_MS);
    started.add(() => lag.stop());
    const kubeconfig = await lag.kubeconfig(original, join(directory, 'lagging'));
    setting = { ...createSetting({ kubeconfig, redisUrl: inject('redisUrl') }), secret: scene.secret };
    gateway = await openGateway();
  });

  afterAll(() => started.stop());

  it('describes its controller', async () => {
    const signed = await sign([await importSecret(scene.secret)], { id: 'id', nowMs: Date.now(), body: '' });
    const answer = await fetch(fn.url, { headers: { ...signed } });
    expect(answer.headers.get('levelhook-contract')).toBe('v1');
    expect(descriptionSchema.parse(await answer.json())).toMatchObject({ name: CONTROLLER, maxBatch: 10 });
  });

  it('makes copies, changes them, makes a deleted one again, and deletes those that are too many', async () => {
    await create('life', 3);
    await untilCopies('life', 3);
    await cluster.patch(configMaps, { namespace, name: 'life' }, { data: { text: 'two' } });
    const names = [...(watch.there.get('life') ?? [])];
    await eventually(async () => {
      const copies = await Promise.all(names.map((name) => cluster.get(configMaps, { namespace, name })));
      expect(copies.map((copy) => copy?.data)).toEqual(names.map(() => ({ text: 'two' })));
    });
    await cluster.delete(configMaps, { namespace, name: names[0] ?? '' });
    await eventually(async () => expect(watch.of('life')).toEqual({ made: 4, there: 3 }));
    await cluster.patch(configMaps, { namespace, name: 'life' }, { metadata: { labels: { [LABEL]: '1' } } });
    await untilCopies('life', 1);
  });

  it('takes a batch, and no run misses what the run before it has made', async () => {
    const queue = new QueueClient(gateway.url, CONTROLLER);
    const names = Array.from({ length: 10 }, (_, at) => `batch-${at}`);
    await queue.pause();
    for (const name of names) await create(name, 4);
    await eventually(async () => {
      const last = await queue.status(`${namespace}/${names.at(-1)}`);
      expect(last.waits).toMatchObject([{ reason: 'paused' }]);
    });
    // Asked for while it runs, so that the next run is due at its end, before the gateway has heard of any copy.
    const asked = Promise.withResolvers<void>();
    watch.onMade = () => {
      watch.onMade = () => {};
      asked.resolve(askFor(names));
    };
    await queue.resume();
    await asked.promise;
    for (const name of names) await untilCopies(name, 4);
    await untilIdleFor(queue, names);
    expect(names.map((name) => watch.of(name))).toEqual(names.map(() => ({ made: 4, there: 4 })));
    const triggers = gateway.process.lines.filter(
      ({ msg, key }) => msg === 'trigger' && String(key).includes('/batch-'),
    );
    const ids = triggers.map(({ reconcileID }) => reconcileID);
    expect(new Set(ids).size).toBeLessThan(ids.length);
  });

  async function askFor(names: readonly string[]): Promise<void> {
    const body = JSON.stringify({ controller: CONTROLLER, keys: names.map((name) => ({ namespace, name })) });
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    const answer = await fetch(`${gateway.url}/reconcile`, { method: 'POST', headers, body });
    expect(answer.ok, await answer.text()).toBe(true);
  }

  async function untilIdleFor(queue: QueueClient, names: readonly string[]): Promise<void> {
    await eventually(async () => {
      for (const name of names) {
        const { running, timerMs, queued } = await queue.status(`${namespace}/${name}`);
        expect({ running, timerMs, queued }).toEqual({ running: undefined, timerMs: undefined, queued: false });
      }
    });
  }

  it('reads and writes integers beyond 2^53 digit by digit, and lets no code take them for numbers', async () => {
    const seconds = [2n ** 53n + 1n, 2n ** 63n - 1n, 1n - 2n ** 63n];
    const tolerations = seconds.map((tolerationSeconds, at) => ({
      key: `key-${at}`,
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds,
    }));
    const template = {
      metadata: { labels: {} },
      spec: { containers: [{ name: 'main', image: 'pause' }], tolerations },
    };
    for (const name of ['numbers-replaced', 'numbers-patched']) {
      await cluster.create(podTemplates, { metadata: { namespace, name }, template });
    }
    const labels = { 'example.com/templates': 'source' };
    await cluster.create(podTemplates, { metadata: { namespace, name: 'numbers', labels }, template });
    const digits = ['9007199254740993', '9223372036854775807', '-9223372036854775807'];
    const lessOne = ['9007199254740992', '9223372036854775806', '-9223372036854775808'];
    for (const [name, expected, rest] of [
      ['numbers', digits, ''],
      ['numbers-created', digits, ''],
      ['numbers-applied', digits, ''],
      ['numbers-replaced', digits, '"labels":{"replaced":"true"}'],
      ['numbers-patched', lessOne, '"annotations":{"added":"TypeError","stringified":"TypeError"}'],
    ] as const) {
      await eventually(async () => {
        // The text of the apiserver, past our codec.
        const sent = await text(await cluster.client.stream({ path: resourcePath(podTemplates, { namespace, name }) }));
        const found = [...sent.matchAll(/"tolerationSeconds":(-?\d+)/g)].map(([, each]) => each);
        expect(found, name).toEqual(expected);
        expect(sent).toContain(rest);
      });
    }
  });

  it('reviews and converts integers beyond 2^53 digit by digit', async () => {
    const { url } = await startFunction(0, scene.reviews);
    const answerOf = async (webhook: string, review: string): Promise<unknown> => {
      const answer = await post(reviewRequest(webhook, review), { url });
      const sent = await answer.text();
      expect(answer.status, sent).toBe(200);
      return (exact(sent) as { response: unknown }).response;
    };
    const patchOf = async (webhook: string): Promise<unknown> => {
      const { patch } = (await answerOf(webhook, ADMISSION)) as { patch: string };
      return exact(Buffer.from(patch, 'base64').toString());
    };
    const message =
      'odd: bigint 9007199254740993, max: bigint 9223372036854775807, min: bigint -9223372036854775808, ' +
      'last: number 9007199254740991';
    expect(await answerOf('limits', ADMISSION)).toMatchObject({ allowed: false, status: { message } });
    expect(await patchOf('titles')).toEqual([{ op: 'add', path: '/spec/title', value: 'changed' }]);
    const value = exact(COUNTS);
    expect(await patchOf('copies')).toEqual([{ op: 'add', path: '/spec/copied', value }]);
    expect(await answerOf('versions', conversion('v1', METER))).toMatchObject({
      convertedObjects: [{ apiVersion: `${METERS}/v1`, spec: { readings: value } }],
    });
    expect(await answerOf('versions', conversion('v2', OLD_METER))).toMatchObject({
      convertedObjects: [{ apiVersion: `${METERS}/v2`, spec: { counts: value } }],
    });
  });

  it('answers a batch line by line if it can, and as a whole if it is not asked for lines', async () => {
    const names = ['none', 'nothing'];
    const text = expect.any(String) as string;
    const failed = { status: 'error', message: text, writes: [], stack: text };
    const whole = await post(trigger(CONTROLLER, names));
    expect([whole.status, decodeResults(await whole.json(), 2)]).toEqual([200, [failed, failed]]);
    const asked = await post(trigger(CONTROLLER, names), { accept: `${RESULT_STREAM}, application/json` });
    expect(asked.headers.get('content-type')).toContain(platform.streams ? RESULT_STREAM : 'application/json');
    const answer = await asked.text();
    if (!platform.streams) expect(decodeResults(JSON.parse(answer), 2)).toEqual([failed, failed]);
    else {
      const lines = answer.trim().split('\n').map(decodeResultLine);
      expect(lines.toSorted((a, b) => (a?.run ?? 0) - (b?.run ?? 0))).toEqual(
        [1, 2].map((run) => ({ run, result: failed })),
      );
    }
  });

  it('refuses what is not signed, signed by another, old, sent again, late, or meant for another', async () => {
    const statusOf = async (...given: Parameters<typeof post>): Promise<number> => (await post(...given)).status;
    const body = trigger(CONTROLLER, ['none']);
    expect((await fetch(fn.url)).status).toBe(401);
    expect(await statusOf(body, { secret: generateSecret() })).toBe(401);
    expect(await statusOf(body, { nowMs: Date.now() - 600_000 })).toBe(401);
    expect(await statusOf('{')).toBe(400);
    expect(await statusOf(trigger('another', ['none']))).toBe(400);
    expect(await statusOf(body, { id: 'same' })).toBe(200);
    expect(await statusOf(body, { id: 'same' })).toBe(409);
    expect(await statusOf(body.replace(/"deadline":"[^"]*"/, '"deadline":"2020-01-01T00:00:00Z"'))).toBe(409);
  });

  it('makes no copy twice when its process is killed during a run', async () => {
    const killed = Promise.withResolvers<number>();
    watch.onMade = (source, made) => {
      if (source !== 'killed' || made < 5) return;
      watch.onMade = () => {};
      fn.process.kill('SIGKILL').then(() => killed.resolve(watch.of('killed').made), killed.reject);
    };
    await create('killed', 60);
    await killed.promise;
    const port = Number(new URL(fn.url).port);
    const before = watch.of('killed').made;
    expect(before).toBeLessThan(60);
    fn = await startFunction(port);
    await untilCopies('killed', 60, 60_000);
    await untilIdleFor(new QueueClient(gateway.url, CONTROLLER), ['killed']);
    expect(watch.of('killed')).toEqual({ made: 60, there: 60 });
  });

  if (platform.losesAnswers) {
    it('makes no copy twice when the answer of a run is lost', async () => {
      fn.process.send('SIGUSR2');
      await create('lost', 5);
      await fn.process.line(({ msg }) => msg === 'answer lost');
      await eventually(async () => {
        const unknown = gateway.process.lines.filter(
          ({ key, outcome }) => key === `${namespace}/lost` && outcome === 'unknown',
        );
        expect(unknown.length).toBeGreaterThan(0);
      });
      await untilIdleFor(new QueueClient(gateway.url, CONTROLLER), ['lost']);
      expect(watch.of('lost')).toEqual({ made: 5, there: 5 });
    });
  }

  if (platform.noticesHangUp) {
    it('stops writing when the gateway is gone, and makes no copy twice when another one comes', async () => {
      const gone = Promise.withResolvers<unknown>();
      watch.onMade = (source, made) => {
        if (source !== 'gone' || made < 5) return;
        watch.onMade = () => {};
        gone.resolve(gateway.process.kill('SIGKILL'));
      };
      await create('gone', 60);
      await gone.promise;
      // The time of a run, in which it would make all of them.
      await sleep(5000);
      expect(watch.of('gone').made).toBeLessThan(60);
      gateway = await openGateway();
      await untilCopies('gone', 60, 60_000);
      await untilIdleFor(new QueueClient(gateway.url, CONTROLLER), ['gone']);
      expect(watch.of('gone')).toEqual({ made: 60, there: 60 });
    });
  }

  if (platform.stopsAtSignal) {
    it('ends its runs, and then itself, at SIGTERM', async () => {
      const stopped = Promise.withResolvers<number | string>();
      watch.onMade = (source, made) => {
        if (source !== 'stopped' || made < 5) return;
        watch.onMade = () => {};
        fn.process.kill('SIGTERM').then(stopped.resolve, stopped.reject);
      };
      await create('stopped', 20);
      expect(await stopped.promise).toBe(0);
      const outcome = await gateway.process.line(({ msg, key }) => msg === 'trigger' && key === `${namespace}/stopped`);
      expect(outcome).toMatchObject({ outcome: 'done', writes: 20 });
    });
  }
}
