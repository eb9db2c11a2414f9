import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { silentLogger, silentMetrics, systemClock } from '../../../core/index.ts';
import { generateSecret, LEVELHOOK_HEADER, RESULT_STREAM, type Trigger } from '../../../contract/index.ts';
import { importExtractableSecret } from '../../../contract/signature.ts';
import { CacheAccess } from '../access/cache-access.ts';
import { type CpuBudget, CpuBudgets } from '../cel/cpu-budget.ts';
import { Endpoint } from '../endpoint/endpoint.ts';
import type { Finish, Run } from '../workqueue/work-queue.ts';
import { Dispatcher } from './dispatcher.ts';
import { HELD_MS, holdTimers } from '../../../../test/harness/held-timers.ts';
import { ownBounds } from '../../../../test/harness/own-bounds.ts';

let answer: (response: ServerResponse, trigger: Trigger) => void | Promise<void>;
let accepted: string | undefined;
let server: Server;
let endpoint: Endpoint;
let dispatcher: Dispatcher;
let dispatcherOf: (controller: string, bounds: { budget?: CpuBudget }) => Dispatcher;
let budget: CpuBudget;
/** The time by the budget's clock. The tests alone move it, so that work costs nothing. */
let budgetMs: number;

beforeEach(async () => {
  server = createServer((request, response) => {
    void (async () => {
      accepted = request.headers.accept;
      await answer(response, JSON.parse(await text(request)) as Trigger);
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  endpoint = new Endpoint(url, [await importExtractableSecret(generateSecret())], { connections: 2 });
  const cacheAccess = new CacheAccess({
    views: [],
    api: undefined,
    clock: systemClock,
  });
  budgetMs = 0;
  budget = new CpuBudgets({ now: () => budgetMs }).of('c');
  dispatcherOf = (controller, bounds) =>
    new Dispatcher({
      bounds: { ...ownBounds(), ...bounds },
      controller,
      views: [],
      starts: { keys: { allow() {} }, ending: new AbortController().signal },
      settings: { logTriggers: false, startWindowMs: 0 },
      target: { endpoint, cacheAccess },
      runtime: { clock: systemClock, logger: silentLogger, metrics: silentMetrics },
    });
  dispatcher = dispatcherOf('c', { budget });
});

afterEach(async () => {
  vi.restoreAllMocks();
  await endpoint.close();
  server.closeAllConnections();
  server.close();
});

const run = (number: number, inMs = 60_000): Run => ({
  key: `a/${number}`,
  run: number,
  incarnation: 'i',
  failures: 0,
  reasons: [],
  deadlineMs: systemClock.now() + inMs,
});
const line = (number: number, result: unknown = { status: 'done' }): string =>
  `${JSON.stringify({ run: number, result })}\n`;
const begin = (response: ServerResponse, type: string = RESULT_STREAM): ServerResponse =>
  response.writeHead(200, { 'content-type': type, [LEVELHOOK_HEADER]: '1' });
const kinds = async (finishes: readonly Promise<Finish>[]): Promise<string[]> =>
  (await Promise.all(finishes)).map((finish) => ('error' in finish && finish.error ? finish.error : finish.kind));

const byNumber = (a: number, b: number): number => a - b;

const NO_RESULT = 'the answer has no result for this request';

describe('the results of a batch', () => {
  it('end each run when its line arrives, in any order; a trigger of one key asks for no stream', async () => {
    const held = Promise.withResolvers<void>();
    answer = async (response) => {
      begin(response).write(line(3));
      await held.promise;
      response.end(line(1) + line(2, { status: 'error', message: 'no' }));
    };
    const [first, second, third] = dispatcher.run([run(1), run(2), run(3)]);
    expect(await third).toMatchObject({ kind: 'ended', failures: 'forget' });
    held.resolve();
    expect(await first).toMatchObject({ kind: 'ended', failures: 'forget' });
    expect(await second).toMatchObject({ kind: 'ended', failures: 'count', error: 'no' });
    expect(accepted).toBe(`${RESULT_STREAM}, application/json`);
    answer = (response) =>
      void begin(response, 'application/json').end(JSON.stringify({ version: 'v1', results: [{ status: 'done' }] }));
    expect(await dispatcher.run([run(4)])[0]).toMatchObject({ kind: 'ended' });
    expect(accepted).toBe('application/json');
  });

  it('may arrive in pieces of any size', async () => {
    answer = async (response) => {
      begin(response);
      const bytes = Buffer.from(line(1, { status: 'error', message: 'ä€😀' }) + line(2));
      for (const byte of bytes) {
        response.write(Buffer.of(byte));
        await sleep(0);
      }
      response.end();
    };
    expect(await kinds(dispatcher.run([run(1), run(2)]))).toEqual(['ä€😀', 'ended']);
  });

  it('are the first line of each run; lines that name no run of the trigger have no effect', async () => {
    answer = (response) =>
      void begin(response).end(
        line(9) + line(1) + line(1, { status: 'error', message: 'again' }) + '{"run":\n\n[]\nnull\n' + line(2),
      );
    expect(await kinds(dispatcher.run([run(1), run(2)]))).toEqual(['ended', 'ended']);
  });

  it('make the outcome unknown of a run without a line, or whose line cannot be decoded, and of no other', async () => {
    answer = (response) => void begin(response).end(line(2) + line(3, { status: 'finished' }));
    const [first, second, third] = await kinds(dispatcher.run([run(1), run(2), run(3)]));
    expect([first, second]).toEqual([NO_RESULT, 'ended']);
    expect(third).toMatch(/^the line is not an outcome/);
  });

  it('make the outcome unknown of runs whose lines are not complete when the connection breaks', async () => {
    answer = async (response) => {
      begin(response).write(line(2) + line(1).slice(0, -2));
      await sleep(50);
      response.destroy();
    };
    const finishes = await Promise.all(dispatcher.run([run(1), run(2)]));
    expect(finishes[1]).toMatchObject({ kind: 'ended' });
    expect(finishes[0]?.kind).toBe('unknown');
  });

  it('make the outcome unknown of runs without a line at the deadline', async () => {
    answer = (response) => void begin(response).write(line(1));
    const passDeadline = holdTimers();
    const [first, second] = dispatcher.run([run(1, HELD_MS), run(2, HELD_MS)]);
    expect(await first).toMatchObject({ kind: 'ended' });
    passDeadline();
    expect(await second).toMatchObject({ kind: 'unknown', error: 'no answer before the deadline' });
  });

  it('may have 1000 lines, each in a chunk of its own', async () => {
    answer = (response) => {
      begin(response);
      // Longer than a chunk that counts as small.
      for (let at = 0; at < 998; at += 1) response.write(line(9, 'x'.repeat(256)));
      response.write(line(1));
      response.end(line(2));
    };
    expect(await kinds(dispatcher.run([run(1), run(2)]))).toEqual(['ended', 'ended']);
  });

  it('are cut off when there are more than 1000 lines', async () => {
    answer = async (response) => {
      begin(response).write(line(2));
      await sleep(50);
      response.end('\n'.repeat(2000) + line(1));
    };
    expect(await kinds(dispatcher.run([run(1), run(2)]))).toEqual(['the results have more than 1000 lines', 'ended']);
  });

  it('are not requested when the deadline passes before there is a connection', async () => {
    const bodies: Trigger[] = [];
    const held: ServerResponse[] = [];
    answer = (response, trigger) => {
      bodies.push(trigger);
      if (bodies.length <= 2) held.push(response);
      else begin(response, 'application/json').end(JSON.stringify({ version: 'v1', results: [{ status: 'done' }] }));
    };
    // Both connections of the endpoint are busy while the third trigger's time passes.
    const busy = [run(1), run(2)].flatMap((each) => dispatcher.run([each]));
    while (held.length < 2) await sleep(5);
    expect(await dispatcher.run([run(3, 100)])[0]).toMatchObject({
      kind: 'ended',
      error: 'no connection before the deadline',
    });
    for (const response of held) {
      begin(response, 'application/json').end(JSON.stringify({ version: 'v1', results: [{ status: 'done' }] }));
    }
    await Promise.all(busy);
    expect(await dispatcher.run([run(4)])[0]).toMatchObject({ kind: 'ended' });
    expect(bodies.flatMap(({ requests }) => requests.map((each) => each.run)).toSorted(byNumber)).toEqual([1, 2, 4]);
  });

  it('are cut off when a line is larger than 1 MiB', async () => {
    answer = (response) => void begin(response).end(line(2) + 'x'.repeat(1024 * 1024 + 1));
    expect(await kinds(dispatcher.run([run(1), run(2)]))).toEqual(['a result is larger than 1 MiB', 'ended']);
  });

  it('may come in a whole answer, and are ignored without the header of a function', async () => {
    const results = [{ status: 'done' }, { status: 'terminal', message: 'never' }];
    answer = (response) => void begin(response, 'application/json').end(JSON.stringify({ version: 'v1', results }));
    expect(await kinds(dispatcher.run([run(1), run(2)]))).toEqual(['ended', 'never']);
    // Without the header, a proxy may have sent the answer.
    answer = (response) => void response.writeHead(200, { 'content-type': RESULT_STREAM }).end(line(1) + line(2));
    expect((await Promise.all(dispatcher.run([run(1), run(2)]))).map(({ kind }) => kind)).toEqual([
      'unknown',
      'unknown',
    ]);
  });
});

it('lines wait to be decoded while the budget of the controller is used up', async () => {
  budget.charge(3000);
  const sent = Promise.withResolvers<void>();
  answer = (response) => void begin(response).end(`\n${line(1)}${line(2)}`, sent.resolve);
  let ended = 0;
  const finishes = dispatcher.run([run(1), run(2)]).map((finish) => finish.finally(() => (ended += 1)));
  await sent.promise;
  await sleep(100);
  expect(ended).toBe(0);
  budgetMs += 100_000;
  expect(await kinds(finishes)).toEqual(['ended', 'ended']);
});

it('an answer waits for no answer of another controller of the namespace that has used up its budget', async () => {
  budget.charge(3000);
  const message = 'x'.repeat(100_000);
  const answers = [message, message, 'short'];
  answer = (response) => {
    const results = [{ status: 'error', message: answers.shift() }];
    begin(response, 'application/json').end(JSON.stringify({ version: 'v1', results }));
  };
  const late = dispatcherOf('shop/late', { budget }).run([run(1)]);
  await expect.poll(() => answers.length).toBe(2);
  await sleep(50);
  const other = dispatcherOf('shop/other', {});
  expect(await other.run([run(2)])[0]).toMatchObject({ kind: 'ended', failures: 'count' });
  expect(await other.run([run(3)])[0]).toMatchObject({ kind: 'ended', failures: 'count' });
  budgetMs += 100_000;
  expect(await late[0]).toMatchObject({ kind: 'ended', failures: 'count' });
});

it('the results of a large answer are decoded in turns of their own, after the turn of the answer', async () => {
  const turns: (() => void)[] = [];
  budget.inTurn = async (work) => {
    await new Promise<void>((resolve) => turns.push(resolve));
    return work();
  };
  const results = [{ status: 'done' }, { status: 'terminal', message: `never${' '.repeat(70_000)}` }];
  answer = (response) => void begin(response, 'application/json').end(JSON.stringify({ version: 'v1', results }));
  let ended = 0;
  const finishes = dispatcher.run([run(1), run(2)]).map((finish) => finish.finally(() => (ended += 1)));
  for (const after of [0, 1, 2, 3]) {
    await expect.poll(() => turns.length).toBe(after + 1);
    expect(ended).toBe(Math.max(0, after - 2));
    turns[after]?.();
  }
  expect(await kinds(finishes)).toEqual(['ended', expect.stringMatching(/^never/)]);
});

it('a line waits for the line before it, and the answer and its bytes for the last line', async () => {
  const lines = Array.from({ length: 24 }, (_, at) => line(at));
  const sent = Promise.withResolvers<void>();
  answer = (response) => void begin(response).end(lines.join(''), sent.resolve);
  const given: string[] = [];
  const turns: (() => void)[] = [];
  let held = 0;
  const onLine = (text: string): Promise<void> => {
    given.push(`${text}\n`);
    return new Promise((resolve) => turns.push(resolve));
  };
  const hold = { add: (bytes: number) => (held += bytes) >= 0, release: () => void (held = 0) };
  let isEnded = false;
  const request = { body: '{}', id: 'msg', timeoutMs: 60_000, onLine, hold } as const;
  const answered = endpoint.send(request).finally(() => (isEnded = true));
  await sent.promise;
  for (let at = 0; at < lines.length; at += 1) {
    await expect.poll(() => turns.length).toBe(at + 1);
    await sleep(5);
    expect(given).toEqual(lines.slice(0, at + 1));
    expect({ held, isEnded }).toEqual({ held: lines.join('').length, isEnded: false });
    turns[at]?.();
  }
  expect(await answered).toMatchObject({ kind: 'answered', isStream: true });
  expect(held).toBe(0);
});

it('lines that have arrived at the deadline are given, and then the answer ends', async () => {
  answer = (response) => void begin(response).write(line(1) + line(2));
  const given: string[] = [];
  const first = Promise.withResolvers<void>();
  const onLine = (text: string): Promise<void> => {
    given.push(text);
    return first.promise;
  };
  let isEnded = false;
  const request = { body: '{}', id: 'msg', timeoutMs: HELD_MS, onLine } as const;
  const passDeadline = holdTimers();
  const answered = endpoint.send(request).finally(() => (isEnded = true));
  await expect.poll(() => given.length).toBe(1);
  passDeadline();
  await sleep(50);
  expect({ given: given.length, isEnded }).toEqual({ given: 1, isEnded: false });
  first.resolve();
  expect(await answered).toMatchObject({ kind: 'failed', reason: 'timeout' });
  expect(given).toHaveLength(2);
});

it('other work has a turn while many lines of one chunk are decoded', async () => {
  answer = (response) => void begin(response).end('x\n'.repeat(500));
  let lines = 0;
  /** The lines before the first turn of other work. */
  let before = Infinity;
  const onLine = (): undefined => {
    if (lines === 0) setImmediate(() => (before = lines));
    lines += 1;
    const untilMs = performance.now() + 1;
    while (performance.now() < untilMs);
  };
  await endpoint.send({ body: '{}', id: 'msg', timeoutMs: 60_000, onLine });
  expect(lines).toBe(500);
  expect(before).toBeLessThan(100);
});

it('an answer that is put off in many chunks takes the processor time of its controller', async () => {
  answer = async (response) => {
    response.writeHead(429, { [LEVELHOOK_HEADER]: '1' });
    for (let at = 0; at < 250; at += 1) response.write('x');
    response.end();
  };
  expect(budget.isFull).toBe(true);
  expect(await dispatcher.run([run(1)])[0]).toMatchObject({ kind: 'ended', failures: 'keep' });
  expect(budget.isFull).toBe(false);
});
