import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { metric, runsOnRecord, stackTraces } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import type { Line } from '../harness/process.ts';
import { type Behaviour, done, linesAbout, RawFunction } from '../harness/raw-function.ts';
import { Started } from '../harness/started.ts';

const CONTROLLER = 'unruly';
const WARN = 40;
const DEADLINE_PASSED = 'the deadline of a run has passed without an outcome';

/** What nobody can tell the end of: the run may still be going on. */
const unruly: readonly { name: string; behaviour: Behaviour; error: RegExp }[] = [
  { name: 'no-json', behaviour: (response) => response.end('<html>hello</html>'), error: /is not JSON/ },
  { name: 'no-outcome', behaviour: (response) => response.end('{"ok":true}'), error: /is not an outcome/ },
  {
    name: 'no-result',
    behaviour: (response) => response.end('{"version":"v1","results":[]}'),
    error: /0 results for one request/,
  },
  {
    name: 'error-500',
    behaviour: (response) => response.writeHead(500).end('Error: boom\n    at main (app.js:1:1)'),
    error: /answered 500/,
  },
  { name: 'reset', behaviour: (_, request) => request.socket.resetAndDestroy(), error: /ECONNRESET/ },
  { name: 'hang', behaviour: () => {}, error: /no answer before the deadline/ },
];

describe('a function that does not answer as it should', () => {
  const namespace = uniqueName('unruly');
  const started = new Started();
  const fn = new RawFunction({
    name: CONTROLLER,
    for: { apiVersion: 'v1', kind: 'ConfigMap' },
    concurrency: 20,
    // An unknown outcome is settled at the deadline: the shortest there is.
    timeoutSeconds: 1,
  });
  let cluster: Cluster;
  let setting: Setting;
  let gateway: Awaited<ReturnType<typeof startGateway>>;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    await fn.open();
    started.add(() => fn.close());
    gateway = started.keep(await startGateway(setting, [fn.url]));
    await untilReady(gateway.url);
  });

  afterAll(() => started.stop());

  const triggers = (name: string): Line[] => linesAbout(gateway.process.lines, name).filter(isTrigger);

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

  it('is tried again with growing waits, is shown, and is forgiven', { timeout: 90_000 }, async () => {
    const [errors, unknown] = await countFailures();
    for (const { name, behaviour } of unruly) {
      fn.behave(name, behaviour);
      await cluster.create(configMaps, { metadata: { namespace, name } });
    }
    await eventually(async () => {
      for (const { name } of unruly) expect(triggers(name).length).toBeGreaterThanOrEqual(4);
    });
    for (const { name, error } of unruly) {
      const lines = linesAbout(gateway.process.lines, name);
      const failed = lines.filter(isTrigger).slice(0, 4);
      // Shown: a warning for each, with what came back, and the attempts count.
      for (const [at, line] of failed.entries()) {
        expect(line).toMatchObject({ level: WARN, outcome: 'unknown', error: expect.stringMatching(error) });
        expect(line).toMatchObject({ controller: CONTROLLER, attempt: at + 1 });
      }
      // Each waits for its deadline, since it may still be going on, and then for the backoff.
      const settled = lines.filter(({ msg }) => msg === DEADLINE_PASSED).slice(0, 3);
      expect(settled.map(({ againAfterMs }) => againAfterMs)).toEqual([5, 10, 20]);
      const startedAt = failed.map((line) => Date.parse(String(line['time'])) - Number(line['durationMs']));
      for (const [at, time] of startedAt.entries()) {
        // One second to the deadline, and one more after it. The log's times are whole milliseconds.
        if (at > 0) expect(time - (startedAt[at - 1] ?? 0)).toBeGreaterThanOrEqual(2000 + 5 * 2 ** (at - 1) - 5);
      }
    }
    const [errorsNow, unknownNow] = await countFailures();
    expect(errorsNow - errors).toBeGreaterThanOrEqual(4 * unruly.length);
    expect(unknownNow - unknown).toBeGreaterThanOrEqual(4 * unruly.length);

    for (const { name } of unruly) fn.behave(name, done);
    for (const { name } of unruly) await untilDone(name);
    for (const { name } of unruly) await expectForgotten(name);
    expect(stackTraces(gateway.process.output)).toEqual([]);
  });

  it('is tried again after 5 ms doubling when nobody listens', { timeout: 60_000 }, async () => {
    const name = 'refused';
    await fn.close();
    await cluster.create(configMaps, { metadata: { namespace, name } });
    await eventually(async () => expect(triggers(name).length).toBeGreaterThanOrEqual(9));
    for (const [at, line] of triggers(name).entries()) {
      expect(line).toMatchObject({ level: WARN, outcome: 'refused', attempt: at + 1, againAfterMs: 5 * 2 ** at });
      expect(line['error']).toMatch(/nobody listens at http:\/\/127\.0\.0\.1:/);
    }
    await fn.open();
    await untilDone(name);
    await expectForgotten(name);
    expect(stackTraces(gateway.process.output)).toEqual([]);
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
