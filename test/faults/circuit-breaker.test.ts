import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { LEVELHOOK_HEADER } from '../../src/contract/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { metric } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilIdle, untilReady } from '../harness/levelhook.ts';
import { type Behaviour, done, linesAbout, RawFunction } from '../harness/raw-function.ts';
import { QueueClient } from '../harness/queue-client.ts';
import { configMapsOf, startObserver } from '../harness/observer.ts';
import { SetClock } from '../harness/set-clock.ts';
import { Started } from '../harness/started.ts';

const NAMES = Array.from({ length: 30 }, (_, at) => `cm-${at}`);
const gone: Behaviour = (response) => response.writeHead(410, { [LEVELHOOK_HEADER]: 'v1' }).end();

describe('a function to which triggers are not sent', () => {
  const namespace = uniqueName('breaker');
  const started = new Started();
  let cluster: Cluster;
  let setting: Setting;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  });

  afterAll(() => started.stop());

  async function start(controller: string) {
    const kind = { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] };
    const fn = new RawFunction({ name: controller, for: kind, concurrency: 5, timeoutSeconds: 1 });
    await fn.open();
    started.add(() => fn.close());
    // Without it the keys of a function that is down would first wait for its start.
    const variables = { LEVELHOOK_START_WINDOW_SECONDS: '0' };
    const own = { ...setting, keyPrefix: uniqueName(controller) };
    const gateway = started.keep(await startGateway(own, [fn.url], variables));
    await untilReady(gateway.url);
    const open = (reason: string) => metric(gateway.url, 'levelhook_circuit_breaker_open', { controller, reason });
    return { fn, gateway, open };
  }

  it('because its connections are refused: its keys spend few attempts, and all run soon after its return', async () => {
    const { fn, gateway, open } = await start('down');
    await fn.close();
    await Promise.all(NAMES.map((name) => cluster.create(configMaps, { metadata: { namespace, name } })));
    await eventually(async () => expect(await open('unreachable')).toBe(1));
    await gateway.process.line(
      ({ msg, reason }) => msg === 'the circuit breaker of a function opened' && reason === 'unreachable',
    );
    // The keys wait for it, and say so.
    const queue = new QueueClient(gateway.url, 'down');
    await eventually(async () => {
      for (const name of NAMES) {
        const { waits, queued } = await queue.status(`${namespace}/${name}`);
        expect({ waits, queued }).toMatchObject({ waits: [{ reason: 'breaker' }], queued: true });
      }
    });
    // Without a breaker 5 ms doubling makes ten attempts in this time, each of them for nothing.
    await sleep(6000);
    const attempts = NAMES.map((name) => linesAbout(gateway.process.lines, { namespace, name }).length);
    expect(attempts.reduce((a, b) => a + b) / NAMES.length).toBeLessThan(6);
    // The oldest key grows old, for an alert and for a person.
    expect(await metric(gateway.url, 'levelhook_queue_oldest_due_seconds', { name: 'down' })).toBeGreaterThan(5);
    const overview = await (await fetch(`${gateway.url}/dashboard`)).text();
    expect(overview).toMatch(/<dt>Longest wait<\/dt>\s*<dd>[\d.]+ (?:s|min)/);
    await fn.open();
    await eventually(async () => {
      for (const name of NAMES)
        expect(linesAbout(gateway.process.lines, { namespace, name }).at(-1)).toMatchObject({ outcome: 'done' });
    });
    expect(await open('unreachable')).toBe(0);
    await gateway.process.line(({ msg }) => msg === 'the circuit breaker of a function closed');
  });

  it('because it says three times in a row that it is gone, and is tried again', async () => {
    const { fn, gateway, open } = await start('gone');
    const names = NAMES.map((name) => `gone-${name}`);
    // The objects that are there have run.
    await untilIdle(gateway.url);
    fn.otherwise = gone;
    const before = fn.arrivals.length;
    await Promise.all(names.map((name) => cluster.create(configMaps, { metadata: { namespace, name } })));
    await eventually(async () => expect(await open('gone')).toBe(1));
    await sleep(3000);
    // Those that were on their way when the third answer came are at most the other four.
    expect(fn.arrivals.length - before).toBeLessThanOrEqual(3 + 4);
    fn.otherwise = done;
    await eventually(async () => {
      for (const name of names)
        expect(linesAbout(gateway.process.lines, { namespace, name }).at(-1)).toMatchObject({ outcome: 'done' });
    });
    expect(await open('gone')).toBe(0);
  });
});

describe.each([3600, -3600])('a function whose clock is %d s off', (clockOffsetSeconds) => {
  const namespace = uniqueName('clock');
  const spec = { ...configMapsOf(namespace), timeoutSeconds: 1 };
  const started = new Started();

  afterAll(() => started.stop());

  it('refuses every trigger, runs nothing, and the log says why', async () => {
    const cluster = await started.cluster(inject('kubeconfig'), namespace);
    const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const right = started.keep(await startObserver(setting, spec));
    const port = Number(new URL(right.url).port);
    const gateway = started.keep(await startGateway(setting, [right.url]));
    await untilReady(gateway.url);
    // It has described itself; from here on its clock is wrong.
    await right.process.kill('SIGTERM');
    const clock = new SetClock();
    started.add(async () => clock.remove());
    await clock.set(clockOffsetSeconds * 1000);
    const wrong = started.keep(await startObserver(setting, spec, { port, variables: clock.variables }));
    await cluster.create(configMaps, { metadata: { namespace, name: 'cm' } });
    const reason = clockOffsetSeconds > 0 ? 'the message is too old' : 'the message has a timestamp in the future';
    // Of whatever key: with many of them failing, the breaker lets few through.
    const line = await gateway.process.line(({ error }) => String(error).includes('401'));
    const error = `the function answered 401: ${reason}`;
    expect(line).toMatchObject({ outcome: 'unknown', reason: 'status', error });
    await wrong.process.line(({ msg, reason: told }) => msg === 'a request was refused' && told === reason);
    expect(wrong.seen()).toEqual([]);
    const labels = { controller: spec.name, reason: 'status' };
    expect(await metric(gateway.url, 'levelhook_unknown_outcomes_total', labels)).toBeGreaterThan(0);
    const queue = new QueueClient(gateway.url, spec.name);
    await eventually(async () => expect((await queue.errors(String(line['key'])))[0]).toBe(error));
    // Its clock is put right: nothing is lost.
    await wrong.process.kill('SIGTERM');
    const mended = started.keep(await startObserver(setting, spec, { port }));
    await eventually(async () => expect(mended.keys()).toContain(`${namespace}/cm`));
  });
});
