import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { CONTRACT_VERSION, LEVELHOOK_HEADER } from '../../src/contract/index.ts';
import { MAX_CALLBACK_SECONDS } from '../../src/contract/outcome-schema.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { metric, runsOnRecord, stackTraces } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import type { Line } from '../harness/process.ts';
import { type Behaviour, done, linesAbout, RawFunction } from '../harness/raw-function.ts';
import { QueueClient } from '../harness/queue-client.ts';
import { Started } from '../harness/started.ts';

const CONTROLLER = 'unruly';
/**
 * An unknown outcome is settled at the deadline: as short as a busy machine allows, which must tell ten megabytes from
 * no answer by then.
 */
const TIMEOUT_SECONDS = 3;
const WARN = 40;
const DEADLINE_PASSED = 'the deadline of a run has passed without an outcome';

const resultsOf = (result: object): string => JSON.stringify({ version: CONTRACT_VERSION, results: [result] });

/** Answers of unknown outcome: the run may still be going on. */
const unruly: readonly { name: string; behaviour: Behaviour; reason: string; error: RegExp }[] = [
  {
    name: 'no-json',
    behaviour: (response) => response.end('<html>hello</html>'),
    reason: 'body',
    error: /is not JSON/,
  },
  { name: 'no-outcome', behaviour: (response) => response.end('{"ok":true}'), reason: 'body', error: /not an outcome/ },
  {
    name: 'no-result',
    behaviour: (response) => response.end('{"version":"v1","results":[]}'),
    reason: 'body',
    error: /results: 0 for one request/,
  },
  {
    name: 'two-results',
    behaviour: (response) => response.end('{"version":"v1","results":[{"status":"done"},{"status":"done"}]}'),
    reason: 'body',
    error: /results: 2 for one request/,
  },
  // The gateway knows neither the writes of such a run nor its end.
  {
    name: 'wrong-write',
    behaviour: (response) => response.end(resultsOf({ status: 'done', writes: [{ kind: 'ConfigMap' }] })),
    reason: 'body',
    error: /results\.0\.writes\.0\./,
  },
  {
    name: 'goes-on-beyond-a-day',
    behaviour: (response) =>
      response
        .writeHead(202, { [LEVELHOOK_HEADER]: CONTRACT_VERSION })
        .end(resultsOf({ status: 'accepted', withinSeconds: MAX_CALLBACK_SECONDS + 1 })),
    reason: 'body',
    error: /results\.0\.withinSeconds/,
  },
  {
    name: 'error-500',
    behaviour: (response) => response.writeHead(500).end('Error: boom\n    at main (app.js:1:1)'),
    reason: 'status',
    error: /answered 500$/,
  },
  // A proxy's, each: it is unknown whether it passed the trigger on.
  {
    name: 'proxy-502',
    behaviour: (response) => response.writeHead(502).end(),
    reason: 'status',
    error: /answered 502/,
  },
  {
    name: 'proxy-429',
    behaviour: (response) => response.writeHead(429, { 'retry-after': '60' }).end(),
    reason: 'status',
    error: /answered 429/,
  },
  {
    name: 'proxy-410',
    behaviour: (response) => response.writeHead(410).end(),
    reason: 'status',
    error: /answered 410/,
  },
  {
    name: 'redirect-301',
    behaviour: (response, request) => response.writeHead(301, { location: request.url ?? '' }).end(),
    reason: 'status',
    error: /answered 301/,
  },
  {
    name: 'reset',
    behaviour: (_, request) => request.socket.resetAndDestroy(),
    reason: 'connection',
    error: /ECONNRESET/,
  },
  { name: 'hang', behaviour: () => {}, reason: 'timeout', error: /no answer before the deadline/ },
  {
    name: 'drip',
    behaviour: (response) => {
      const drip = setInterval(() => response.write(' '), 50);
      response.on('close', () => clearInterval(drip));
    },
    reason: 'timeout',
    error: /no answer before the deadline/,
  },
  {
    name: 'late',
    behaviour: (...to) => void setTimeout(() => done(...to), (TIMEOUT_SECONDS + 1.5) * 1000),
    reason: 'timeout',
    error: /no answer before the deadline/,
  },
  {
    name: 'ten-megabytes',
    behaviour: (response) => response.end(Buffer.alloc(10_000_000, ' ')),
    reason: 'too-large',
    error: /larger than 1 MiB/,
  },
  {
    name: 'long-message',
    behaviour: (response) =>
      response.end(
        JSON.stringify({ version: 'v1', results: [{ status: 'unknown', message: `a\n${'x'.repeat(600_000)}` }] }),
      ),
    reason: 'write',
    error: /^a x{1000,1021}…$/,
  },
  {
    name: 'endless',
    behaviour: (response) =>
      Readable.from(endless())
        .on('error', () => {})
        .pipe(response),
    reason: 'too-large',
    error: /larger than 1 MiB/,
  },
];

function* endless(): Generator<Buffer> {
  for (;;) yield Buffer.alloc(65_536, ' ');
}

describe('a function that does not answer as it should', () => {
  const namespace = uniqueName('unruly');
  const started = new Started();
  const fn = new RawFunction({
    name: CONTROLLER,
    // ConfigMaps of other tests would fail here too, and open the circuit breaker sooner.
    for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] },
    concurrency: 20,
    timeoutSeconds: TIMEOUT_SECONDS,
  });
  let cluster: Cluster;
  let setting: Setting;
  let gateway: Awaited<ReturnType<typeof startGateway>>;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    await fn.open();
    started.add(() => fn.close());
    const variables = { LEVELHOOK_START_WINDOW_SECONDS: '1' };
    gateway = started.keep(await startGateway(setting, [fn.url], variables));
    await untilReady(gateway.url);
  });

  afterAll(() => started.stop());

  const triggers = (name: string): Line[] => linesAbout(gateway.process.lines, { namespace, name }).filter(isTrigger);

  async function untilDone(name: string): Promise<void> {
    await eventually(async () => {
      expect(triggers(name).at(-1)).toMatchObject({ outcome: 'done' });
      expect(await runsOnRecord(setting, cluster, CONTROLLER)).not.toContain(`${namespace}/${name}`);
    });
  }

  /** Changes the object once more: its run is a first attempt, so the failures are forgotten. */
  async function expectForgotten(name: string): Promise<void> {
    const before = triggers(name).length;
    await cluster.patch(configMaps, { namespace, name }, { data: { changed: 'again' } });
    await eventually(async () => expect(triggers(name).length).toBeGreaterThan(before));
    expect(triggers(name).at(-1)).toMatchObject({ outcome: 'done', attempt: 1 });
  }

  /** Other keys, that do well: their function is not taken for one that is down. */
  async function amongOthers(during: () => Promise<void>): Promise<void> {
    const names = ['fine-1', 'fine-2', 'fine-3'];
    for (const name of names) await cluster.create(configMaps, { metadata: { namespace, name } });
    const over = new AbortController();
    const changing = (async () => {
      for (let at = 0; !over.signal.aborted; at += 1) {
        const data = { count: String(at) };
        await Promise.all(names.map((name) => cluster.patch(configMaps, { namespace, name }, { data })));
        await sleep(40);
      }
    })();
    try {
      // More than fail at once.
      await eventually(async () => expect(names.flatMap((name) => triggers(name)).length).toBeGreaterThan(40));
      await during();
    } finally {
      over.abort();
      await changing;
    }
  }

  it('is tried again with growing waits, is shown, and is forgiven', async () => {
    await amongOthers(isTriedAgain);
    expect(await metric(gateway.url, 'levelhook_triggers_not_sent_total', { reason: 'unreachable' })).toBe(0);
  });

  async function isTriedAgain(): Promise<void> {
    const [errors, unknown] = await countFailures();
    for (const { name, behaviour } of unruly) {
      fn.behave(name, behaviour);
      await cluster.create(configMaps, { metadata: { namespace, name } });
    }
    await eventually(async () => {
      for (const { name } of unruly) expect(triggers(name).length).toBeGreaterThanOrEqual(4);
    });
    for (const { name, reason, error } of unruly) {
      const lines = linesAbout(gateway.process.lines, { namespace, name });
      const failed = lines.filter(isTrigger).slice(0, 4);
      // Shown: a warning for each, with what came back, and the attempts count.
      for (const [at, line] of failed.entries()) {
        expect(line).toMatchObject({ level: WARN, outcome: 'unknown', reason, error: expect.stringMatching(error) });
        expect(line).toMatchObject({ controller: CONTROLLER, attempt: at + 1 });
      }
      // Each waits for its deadline, since it may still be going on, and then for the backoff.
      const settled = lines.filter(({ msg }) => msg === DEADLINE_PASSED).slice(0, 3);
      expect(settled.map(({ againAfterMs }) => againAfterMs)).toEqual([5, 10, 20]);
      const startedAt = failed.map((line) => Date.parse(String(line['time'])) - Number(line['durationMs']));
      for (const [at, line] of settled.entries()) {
        const settledAt = Date.parse(String(line['time']));
        // Until the deadline, and one second after it; the deadline counts from shortly before the trigger.
        expect(settledAt - (startedAt[at] ?? 0)).toBeGreaterThanOrEqual(TIMEOUT_SECONDS * 1000 + 800);
        // The log's times are whole milliseconds.
        expect((startedAt[at + 1] ?? 0) - settledAt).toBeGreaterThanOrEqual(5 * 2 ** at - 2);
      }
    }
    // The key's history says the same as the log, for each run that was settled.
    const queue = new QueueClient(gateway.url, CONTROLLER);
    for (const { name, error } of unruly) {
      const errors = await queue.errors(`${namespace}/${name}`);
      expect(errors.length, name).toBeGreaterThanOrEqual(3);
      for (const each of errors) expect(each, name).toMatch(error);
    }
    const [errorsNow, unknownNow] = await countFailures();
    expect(errorsNow - errors).toBeGreaterThanOrEqual(4 * unruly.length);
    expect(unknownNow - unknown).toBeGreaterThanOrEqual(4 * unruly.length);
    for (const [reason, each] of Map.groupBy(unruly, (one) => one.reason)) {
      const counted = await metric(gateway.url, 'levelhook_unknown_outcomes_total', { controller: CONTROLLER, reason });
      expect(counted, reason).toBeGreaterThanOrEqual(4 * each.length);
    }

    // However much a function says, a line of the log stays one.
    for (const line of gateway.process.lines) expect(JSON.stringify(line).length).toBeLessThan(8192);
    for (const { name } of unruly) fn.behave(name, done);
    for (const { name } of unruly) await untilDone(name);
    for (const { name } of unruly) await expectForgotten(name);
    expect(stackTraces(gateway.process.output)).toEqual([]);
  }

  it('is tried again after 5 ms doubling when its connections are refused', async () => {
    const name = 'refused';
    await fn.close();
    await cluster.create(configMaps, { metadata: { namespace, name } });
    try {
      await eventually(async () => expect(triggers(name).length).toBeGreaterThanOrEqual(5));
    } finally {
      await fn.open();
    }
    for (const [at, line] of triggers(name).slice(0, 5).entries()) {
      expect(line).toMatchObject({ level: WARN, outcome: 'refused', attempt: at + 1, againAfterMs: 5 * 2 ** at });
      expect(line['error']).toMatch(/connection refused by http:\/\/127\.0\.0\.1:/);
    }
    await eventually(async () => {
      const [latest] = await new QueueClient(gateway.url, CONTROLLER).errors(`${namespace}/${name}`);
      expect(latest).toMatch(/connection refused/);
    });
    await untilDone(name);
    await expectForgotten(name);
    expect(stackTraces(gateway.process.output)).toEqual([]);
  });

  it('that reports writes which never were delays nothing but its own key, for a moment', async () => {
    const name = 'liar';
    const write = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      namespace,
      name,
      uid: 'no-such',
      resourceVersion: '9'.repeat(30),
    };
    fn.behave(name, (response) =>
      response.end(JSON.stringify({ version: 'v1', results: [{ status: 'done', writes: [write] }] })),
    );
    const reopened = (): Promise<number> => metric(gateway.url, 'levelhook_reflector_watch_ends_total');
    const before = await reopened();
    for (const at of [1, 2, 3]) {
      const seen = triggers(name).length;
      const data = { count: String(at) };
      if (at === 1) await cluster.create(configMaps, { metadata: { namespace, name }, data });
      else await cluster.patch(configMaps, { namespace, name }, { data });
      await eventually(async () => expect(triggers(name).length).toBeGreaterThan(seen));
    }
    await gateway.process.line(({ msg }) => msg === 'a barrier waits for a version that the server does not have');
    const counted = await metric(gateway.url, 'levelhook_impossible_writes_total', { controller: CONTROLLER });
    expect(counted).toBeGreaterThan(0);
    // The watch is reopened once for each lie at most, and not for as long as it is not true.
    expect((await reopened()) - before).toBeLessThanOrEqual(4);
  });

  it('that reports thousands of deletions leaves a short record, and its key runs again', async () => {
    const name = 'talker';
    const writes = Array.from({ length: 5000 }, (_, at) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      namespace,
      name: `never-${at}`,
      uid: `no-such-${at}`,
      deleted: true,
    }));
    fn.behave(name, (response) =>
      response.end(JSON.stringify({ version: 'v1', results: [{ status: 'done', writes }] })),
    );
    const redis = new Redis(setting.redisUrl);
    try {
      await cluster.create(configMaps, { metadata: { namespace, name } });
      const lengths: number[] = [];
      await eventually(async () => {
        for (const key of await redis.keys(`*${setting.keyPrefix}*${namespace}/${name}`)) {
          if ((await redis.type(key)) === 'hash') lengths.push(await redis.hstrlen(key, 'barrier'));
        }
        expect(Math.max(0, ...lengths)).toBeGreaterThan(0);
      });
      expect(Math.max(...lengths)).toBeLessThan(1000);
      const seen = triggers(name).length;
      await cluster.patch(configMaps, { namespace, name }, { data: { changed: 'again' } });
      await eventually(async () => expect(triggers(name).length).toBeGreaterThan(seen));
    } finally {
      redis.disconnect();
    }
  });

  function countFailures(): Promise<[number, number]> {
    return Promise.all([
      metric(gateway.url, 'controller_runtime_reconcile_errors_total', { controller: CONTROLLER }),
      metric(gateway.url, 'levelhook_triggers_total', { controller: CONTROLLER, outcome: 'unknown' }),
    ]);
  }
});

function isTrigger({ msg }: Line): boolean {
  return msg === 'trigger';
}
