import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { kubeConfigTransport } from 'levelhook/function/node';
import { complete, heartbeat, type RunToken, RunOverError } from 'levelhook/function/callback';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type CallbackBody, generateSecret, importSecret, sign } from '../../src/contract/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { forgetQueue, metric } from '../harness/gateway-view.ts';
import {
  createSetting,
  QUEUED_WAKEUPS_MS,
  type Setting,
  startGateway,
  uniqueName,
  untilReady,
} from '../harness/levelhook.ts';
import { CALLBACK_SECONDS, childOf, LONG_RUNNER, type LongRun, longRunner } from '../harness/long-runner.ts';
import { QueueClient } from '../harness/queue-client.ts';
import { ServedFunction } from '../harness/served-function.ts';
import { Started } from '../harness/started.ts';

describe('a run that goes on after its 202', () => {
  const namespace = uniqueName('long');
  const started = new Started();
  const runs = new Map<string, LongRun[]>();
  let cluster: Cluster;
  let setting: Setting;
  let fn: ServedFunction;
  let gateway: Awaited<ReturnType<typeof startGateway>>;
  let queue: QueueClient;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const onRun = (name: string, run: LongRun): void => void runs.set(name, [...(runs.get(name) ?? []), run]);
    fn = await started.open(new ServedFunction(longRunner(namespace, onRun), setting));
    await openGateway();
  });

  afterAll(() => started.stop());

  async function openGateway(): Promise<void> {
    gateway = started.keep(await startGateway(setting, [fn.url]));
    await untilReady(gateway.url);
    queue = new QueueClient(gateway.url, LONG_RUNNER);
  }

  /** As a job would be found by the gateway's name, whichever of them is behind it. */
  const reachable = (token: RunToken): RunToken => ({
    ...token,
    url: gateway.url + new URL(token.url).pathname,
  });

  /** Creates an object, whose first run is left to its callback. */
  async function longRun(name: string, seconds = CALLBACK_SECONDS): Promise<RunToken> {
    await cluster.create(configMaps, { metadata: { namespace, name }, data: { seconds: String(seconds) } });
    await eventually(async () => {
      const { waits, running } = await queue.status(`${namespace}/${name}`);
      expect(waits).toMatchObject([{ reason: 'busy' }]);
      expect(running?.deadlineMs).toBeGreaterThan(Date.now());
    });
    return tokenOf(name);
  }
  function tokenOf(name: string, at = 0): RunToken {
    const token = runs.get(name)?.[at]?.runToken;
    if (!token) throw new Error(`run ${at} of ${name} has no token`);
    return JSON.parse(JSON.stringify(token)) as RunToken;
  }
  const options = () => ({ secrets: [setting.secret] });
  const api = () => kubeConfigTransport(setting.kubeconfig);

  /** What the gateway says to a callback, of which something may be wrong. */
  async function post(
    token: RunToken,
    change: { body?: Partial<CallbackBody>; secret?: string; text?: string; nowMs?: number } = {},
  ): Promise<{ status: number; error: unknown; again: () => Promise<number> }> {
    const { url, maxSeconds: _, ...run } = token;
    const result = { status: 'done' } as const;
    const body = change.text ?? JSON.stringify({ version: 'v1', ...run, result, ...change.body });
    const keys = [await importSecret(change.secret ?? setting.secret)];
    const headers = { ...(await sign(keys, { id: randomUUID(), nowMs: change.nowMs ?? Date.now(), body })) };
    const send = () => fetch(url, { method: 'POST', headers, body });
    const answer = await send();
    const { error } = (await answer.json()) as { error?: unknown };
    return { status: answer.status, error, again: async () => (await send()).status };
  }

  it('occupies its key and no slot, and its next run sees what it wrote though it never said so', async () => {
    const name = 'seen';
    const token = await longRun(name);
    expect(token).toMatchObject({ controller: LONG_RUNNER, namespace, name, maxSeconds: CALLBACK_SECONDS });
    const parent = await cluster.get(configMaps, { namespace, name });
    if (!parent) throw new Error('the object is gone');
    const run = await heartbeat(token, { ...options(), withinSeconds: 30, api: api() });
    for (let at = 0; at < 5; at += 1) await run.api.create(configMaps, childOf(parent));
    // The children's events have woken the key: it waits.
    await eventually(async () => expect((await queue.status(`${namespace}/${name}`)).dirty).toBe(true));
    expect(runs.get(name)).toHaveLength(1);
    await run.complete({ status: 'done' });
    await eventually(async () => expect(runs.get(name)).toHaveLength(2));
    expect(runs.get(name)?.[1]).toMatchObject({ attempt: 1, children: 5 });
    await complete(tokenOf(name, 1), { status: 'done' }, options());
    expect(await metric(gateway.url, 'levelhook_unknown_outcomes_total')).toBe(0);
  });

  it('may fail: that is counted, kept in the history, and tried again after the backoff', async () => {
    const name = 'fails';
    await complete(await longRun(name), { status: 'error', message: 'the job was evicted' }, options());
    await eventually(async () => expect(runs.get(name)).toHaveLength(2));
    expect(runs.get(name)?.[1]).toMatchObject({ attempt: 2 });
    expect(await queue.errors(`${namespace}/${name}`)).toEqual(['the job was evicted']);
    await complete(tokenOf(name, 1), { status: 'terminal', message: 'no use' }, options());
    await eventually(async () => expect((await queue.status(`${namespace}/${name}`)).deadSinceMs).toBeDefined());
  });

  it('survives the gateway: another one takes its outcome', async () => {
    const name = 'survivor';
    const token = await longRun(name);
    await sleep(QUEUED_WAKEUPS_MS);
    await gateway.process.kill('SIGKILL');
    await openGateway();
    expect((await queue.status(`${namespace}/${name}`)).waits).toMatchObject([{ reason: 'busy' }]);
    await complete(reachable(token), { status: 'done', requeueAfterSeconds: 3600 }, options());
    const { running, timerMs, failures } = await queue.status(`${namespace}/${name}`);
    expect({ running, failures }).toEqual({ running: undefined, failures: 0 });
    expect(timerMs).toBeGreaterThan(Date.now() + 3_500_000);
  });

  it('ends once: the same callback again, and any other, is told so and changes nothing', async () => {
    const name = 'twice';
    const token = await longRun(name);
    const first = await post(token);
    expect(first.status).toBe(200);
    expect(await first.again()).toBe(410);
    expect(await first.again()).toBe(410);
    expect(await post(token, { body: { result: { status: 'error', message: 'late' } } })).toMatchObject({
      status: 410,
      error: expect.stringContaining('is no longer in flight'),
    });
    await expect(heartbeat(token, { ...options(), withinSeconds: 30, api: api() })).rejects.toThrow(RunOverError);
    expect(await queue.status(`${namespace}/${name}`)).toMatchObject({
      failures: 0,
      history: [{ outcome: 'done' }, { outcome: 'accepted' }],
      waits: [],
    });
  });

  it('is lost when it says nothing in time; what it says later is refused', async () => {
    const name = 'late';
    // From its deadline on it is a lost outcome like another.
    const token = await longRun(name, 5);
    await eventually(async () => expect(runs.get(name)).toHaveLength(2));
    expect(runs.get(name)?.[1]).toMatchObject({ attempt: 2 });
    expect(await queue.errors(`${namespace}/${name}`)).toEqual(['no outcome before the deadline']);
    expect(await post(token)).toMatchObject({ status: 409, error: expect.stringContaining('is under way') });
    // Of the run that is under way nothing was touched.
    expect((await queue.status(`${namespace}/${name}`)).running?.run).toBe(tokenOf(name, 1).run);
    await complete(tokenOf(name, 1), { status: 'done' }, options());
  });

  it('can be given more time, and its writer refuses to write when that is over', async () => {
    const name = 'longer';
    const token = await longRun(name, 6);
    // For longer than the first six seconds and the margin.
    for (let at = 0; at < 5; at += 1) {
      const run = await heartbeat(token, { ...options(), withinSeconds: 6, api: api() });
      expect(run.deadlineMs).toBeLessThanOrEqual(Date.now() + 6000);
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
    expect(runs.get(name)).toHaveLength(1);
    await heartbeat(token, { ...options(), withinSeconds: CALLBACK_SECONDS, api: api() });
    const last = await heartbeat(token, { ...options(), withinSeconds: 1, api: api() });
    await new Promise((resolve) => last.signal.addEventListener('abort', resolve, { once: true }));
    await expect(last.api.get(configMaps, { namespace, name })).rejects.toThrow(/the run is over/);
    // Given once for longer, it keeps that.
    expect((await queue.status(`${namespace}/${name}`)).running?.deadlineMs).toBeGreaterThan(Date.now());
    await complete(token, { status: 'done' }, options());
  });

  it('is not touched by what is wrong, unsigned or meant for another run', async () => {
    const name = 'guarded';
    const token = await longRun(name);
    const other = await longRun('other');
    const cases: [number, RegExp, Parameters<typeof post>][] = [
      [401, /no signature matches/, [token, { secret: generateSecret() }]],
      [401, /no signature matches/, [token, { secret: generateSecret(), text: 'garbage' }]],
      [401, /too old/, [token, { nowMs: Date.now() - 400_000 }]],
      [401, /in the future/, [token, { nowMs: Date.now() + 400_000 }]],
      [400, /the callback is wrong/, [token, { text: 'garbage' }]],
      [400, /the callback is wrong at result/, [token, { body: { result: { status: 'fine' } as never } }]],
      [400, /the callback is for elsewhere/, [token, { body: { controller: 'elsewhere' } }]],
      [
        404,
        /no controller "nobody"/,
        [{ ...token, url: token.url.replace(LONG_RUNNER, 'nobody'), controller: 'nobody' }],
      ],
      [410, /has lost data/, [token, { body: { token: 'another' } }]],
      [410, /the token is not for run/, [token, { body: { run: other.run + 1000 } }]],
      [410, /the token is not for run/, [token, { body: { run: token.run - 1 } }]],
      [410, /the token is not for run/, [token, { body: { name: 'no-such' } }]],
      // A run that is in flight, of another key.
      [410, /the token is not for run/, [token, { body: { name: 'other', run: other.run } }]],
    ];
    for (const [status, error, given] of cases) {
      const answer = await post(...given);
      expect({ status: answer.status, error: answer.error }).toEqual({ status, error: expect.stringMatching(error) });
    }
    expect((await fetch(token.url)).status).toBe(405);
    for (const each of [name, 'other']) {
      expect((await queue.status(`${namespace}/${each}`)).waits).toMatchObject([{ reason: 'busy' }]);
    }
    expect(await post(token)).toMatchObject({ status: 200 });
    expect(await post(other)).toMatchObject({ status: 200 });
  });

  it('can be completed by any holder of the secret, in any language', async () => {
    const name = 'python';
    const token = await longRun(name);
    const result = { status: 'error', message: 'the job found no disk' };
    const tell = async (): Promise<number | null> => {
      const variables = { PATH: process.env['PATH'], LEVELHOOK_SIGNING_SECRETS: setting.secret };
      const child = spawn('python3', ['functions/examples/10-python/callback.py'], { env: variables, stdio: 'pipe' });
      child.stdin.end(JSON.stringify({ runToken: token, result }));
      const [code] = (await once(child, 'exit')) as [number | null];
      return code;
    };
    expect(await tell()).toBe(0);
    await eventually(async () => expect(runs.get(name)).toHaveLength(2));
    expect(await queue.errors(`${namespace}/${name}`)).toEqual(['the job found no disk']);
    expect(await tell()).toBe(3);
    await complete(tokenOf(name, 1), { status: 'done' }, options());
  });

  it('may end before its 202 is there', async () => {
    const name = 'quick';
    fn.onAnswer = async (outcome, { requests }) => {
      if (requests.some((each) => each.name === name)) await complete(tokenOf(name), { status: 'done' }, options());
      return outcome;
    };
    await cluster.create(configMaps, { metadata: { namespace, name }, data: { seconds: '60' } });
    await eventually(async () => expect(runs.get(name)).toHaveLength(1));
    await eventually(async () => {
      expect((await queue.status(`${namespace}/${name}`)).running).toBeUndefined();
    });
    expect(await queue.status(`${namespace}/${name}`)).toMatchObject({
      waits: [],
      failures: 0,
      history: [{ outcome: 'done' }],
    });
  });

  it('is over for the gateway when Redis has lost its record, and its key waits until it is for certain', async () => {
    const name = 'forgotten';
    const token = await longRun(name);
    const forgottenAt = Date.now();
    await forgetQueue(setting, cluster, LONG_RUNNER);
    await gateway.process.line(
      ({ msg, controller }) => String(msg).startsWith('the keys of a controller wait') && controller === LONG_RUNNER,
    );
    await untilReady(gateway.url);
    await eventually(async () => {
      const [wait] = (await queue.status(`${namespace}/${name}`)).waits;
      expect(wait).toMatchObject({ reason: 'recovery' });
      expect(wait && 'untilMs' in wait && wait.untilMs).toBeGreaterThan(forgottenAt + CALLBACK_SECONDS * 1000);
    });
    const asking = heartbeat(token, { ...options(), withinSeconds: 30, api: api() });
    await expect(asking).rejects.toThrow(/has lost data since/);
    expect(runs.get(name)).toHaveLength(1);
  });
});
