import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  type AdmittedLine,
  type LogFields,
  type MetricLabels,
  silentLogger,
  silentMetrics,
} from '../../../core/index.ts';
import { randomOf } from '../../../../test/harness/random.ts';
import { VirtualClock } from '../../../../test/harness/test-clock.ts';
import { EndpointCircuitBreaker } from './endpoint-circuit-breaker.ts';
import type { Outcome } from './outcome.ts';

const done: Outcome = { kind: 'done', writes: [] };
const refused: Outcome = { kind: 'refused', message: 'm' };
const unknown = (reason: (Outcome & { kind: 'unknown' })['reason']): Outcome => ({
  kind: 'unknown',
  reason,
  message: 'm',
});

describe('the circuit breaker of an endpoint', () => {
  let guard: EndpointCircuitBreaker;
  let clock: VirtualClock;
  let ending: AbortController;
  const pass = (ms: number): void => clock.jump(ms);
  let sent: number;
  let open: Record<string, number>;
  let infos: LogFields[];
  let warnings: LogFields[];
  let admitted: AdmittedLine | undefined;
  /** For how long the starts of keys are stopped; undefined once they go on. */
  let stopped: (number | undefined)[];
  /** How many runs might be in flight, after each change. */
  let rooms: number[];

  beforeEach(() => {
    clock = new VirtualClock();
    ending = new AbortController();
    sent = 0;
    open = {};
    infos = [];
    warnings = [];
    admitted = {};
    stopped = [];
    rooms = [];
    guard = new EndpointCircuitBreaker({
      controller: 'web',
      keys: {
        allow: (room) => {
          rooms.push(room);
          if (room !== 1) stopped.push(guard.circuit && guard.circuit.untilMs - clock.now());
        },
      },
      ending: ending.signal,
      admitLine: () => admitted,
      runtime: {
        clock,
        logger: {
          ...silentLogger,
          info: (fields) => void infos.push(fields),
          warn: (fields) => void warnings.push(fields),
        },
        metrics: {
          ...silentMetrics,
          set: (_name, labels: MetricLabels, value) => (open[labels['reason'] ?? ''] = value),
        },
      },
    });
  });

  /** As the dispatcher: sends when it may, else the answer is undefined. */
  const sendAll = async (outcomes: readonly Outcome[]): Promise<readonly Outcome[] | undefined> => {
    if (guard.refuses()) return undefined;
    return guard.run(async () => {
      sent += 1;
      return outcomes;
    });
  };
  const send = async (outcome: Outcome): Promise<Outcome | undefined> => (await sendAll([outcome]))?.[0];
  const sendMany = async (count: number, outcome: Outcome): Promise<void> => {
    for (let at = 0; at < count; at += 1) await send(outcome);
  };

  it.each<[string, Outcome]>([
    ['connections are refused', refused],
    ['no answer comes', unknown('timeout')],
    ['the connection breaks', unknown('connection')],
    ['a proxy answers', unknown('status')],
    ['the answers are none', unknown('body')],
  ])('rejects triggers when %s for most of twenty', async (_what, failure) => {
    await sendMany(9, done);
    await sendMany(11, failure);
    expect(await send(done)).toBeUndefined();
    expect(sent).toBe(20);
    expect(stopped).toEqual([501]);
    expect(open).toEqual({ unreachable: 1, gone: 0, starting: 0 });
    expect(warnings).toEqual([{ controller: 'web', reason: 'unreachable', forMs: 500 }]);
  });

  it.each<[string, number, Outcome]>([
    ['few triggers, as of one key that always fails', 19, refused],
    ["the function's own errors", 100, { kind: 'error', message: 'm', writes: [] }],
    ['its wish for later', 100, { kind: 'deferred', message: 'm', retryAfterMs: 1 }],
    ['writes without an answer: that is the apiserver', 100, unknown('write')],
    ['terminal errors', 100, { kind: 'terminal', message: 'm', writes: [] }],
  ])('stays closed after %s', async (_what, count, outcome) => {
    await sendMany(count, outcome);
    expect(await send(done)).toBe(done);
  });

  it('counts a batch once, as a failure only when all of it failed, and rejects one whole', async () => {
    await Promise.all(Array.from({ length: 10 }, () => sendAll([refused, refused, refused])));
    for (let at = 0; at < 30; at += 1)
      await sendAll([done, { kind: 'error', message: 'm', writes: [] }, unknown('write')]);
    expect(open['unreachable']).toBe(0);
    for (let at = 0; at < 31; at += 1) await sendAll([unknown('body'), unknown('body')]);
    expect(open['unreachable']).toBe(1);
    expect(await sendAll([done, done, done])).toBeUndefined();
    expect(sent).toBe(61);
  });

  it('does not when half of them do well', async () => {
    for (let at = 0; at < 50; at += 1) {
      await send(done);
      await send(unknown('timeout'));
    }
    expect(sent).toBe(100);
  });

  it('lets one through after a while: it closes the circuit, or opens it for twice as long, to ten seconds', async () => {
    await sendMany(20, refused);
    for (const ms of [500, 1000, 2000, 4000, 8000, 10_000, 10_000]) {
      pass(ms);
      expect(await send(done)).toBeUndefined();
      pass(1);
      expect(await send(refused)).toBe(refused);
    }
    pass(10_001);
    expect(await send(done)).toBe(done);
    expect(open['unreachable']).toBe(0);
    await sendMany(19, done);
    expect(sent).toBe(20 + 7 + 20);
  });

  it('stops the starts of keys for as long, and lets them go on when one trigger went well', async () => {
    expect(guard.circuit).toBeUndefined();
    await sendMany(20, refused);
    const sinceMs = clock.now();
    expect(guard.circuit).toEqual({ sinceMs, untilMs: sinceMs + 501, reason: 'the function does not answer' });
    pass(501);
    await send(refused);
    expect(guard.circuit).toMatchObject({ sinceMs, untilMs: clock.now() + 1001 });
    pass(1001);
    await send(done);
    expect(guard.circuit).toBeUndefined();
    expect(stopped).toEqual([501, 1001, undefined]);
    expect(await send(done)).toBe(done);
  });

  it('stops them until the later of two circuits may be tried, and until both are closed', async () => {
    // Sent while all circuits were closed: their outcomes count for the other circuit.
    const late = Promise.withResolvers<Outcome>();
    const onTheirWay = Array.from({ length: 20 }, () => guard.run(async () => [await late.promise]));
    await sendMany(3, unknown('gone'));
    expect(stopped).toEqual([10_001]);
    pass(1000);
    late.resolve(refused);
    await Promise.all(onTheirWay);
    expect(open).toEqual({ unreachable: 1, gone: 1, starting: 0 });
    expect(stopped).toEqual([10_001, 9001]);
    pass(9000);
    expect(await send(done)).toBeUndefined();
    pass(1);
    // It answers, and says that it is gone.
    await send(unknown('gone'));
    expect(open).toEqual({ unreachable: 0, gone: 1, starting: 0 });
    expect(stopped.at(-1)).toBe(20_001);
    expect(stopped).not.toContain(undefined);
    pass(20_001);
    await send(done);
    expect(stopped.at(-1)).toBeUndefined();
    expect(await send(done)).toBe(done);
  });

  describe('lets keys start', () => {
    const passing = async (ms: number): Promise<void> => {
      for (const end = clock.now() + ms; clock.now() < end; await setImmediate()) clock.step(end);
    };

    it('in any number while it is up, none while it is failing, and one at a time when that time is over', async () => {
      expect([guard.state, rooms]).toEqual(['up', []]);
      await sendMany(20, refused);
      expect([guard.state, rooms]).toEqual(['failing', [0]]);
      await passing(500);
      expect(rooms).toEqual([0]);
      await passing(1);
      expect([guard.state, rooms]).toEqual(['probing', [0, 1]]);
      await send(refused);
      expect([guard.state, rooms]).toEqual(['failing', [0, 1, 0]]);
      await passing(1001);
      await send(done);
      expect([guard.state, rooms]).toEqual(['up', [0, 1, 0, 1, Infinity]]);
    });

    it('none any more at its end', async () => {
      await send({ kind: 'not-sent', message: 'm', isThere: false });
      expect([guard.state, rooms]).toEqual(['asleep', [0]]);
      ending.abort();
      await passing(1000);
      expect(rooms).toEqual([0]);
    });
  });

  it('refuses others while one shows whether the function is back, and none waits for it', async () => {
    await sendMany(20, refused);
    pass(501);
    let answer = (_outcome: Outcome): void => {};
    const probe = guard.run(async () => [await new Promise<Outcome>((resolve) => (answer = resolve))]);
    expect(await send(done)).toBeUndefined();
    answer(done);
    expect(await probe).toEqual([done]);
    expect(await send(done)).toBe(done);
  });

  it("opens after three answers of the function's own 410 in a row, and tries again for ever", async () => {
    await sendMany(2, unknown('gone'));
    await send(done);
    await sendMany(2, unknown('gone'));
    expect(await send(done)).toBe(done);
    await sendMany(3, unknown('gone'));
    expect(await send(done)).toBeUndefined();
    expect(stopped).toEqual([10_001]);
    expect(open).toEqual({ unreachable: 0, gone: 1, starting: 0 });
    for (const seconds of [10, 20, 40, 80, 160, 300, 300]) {
      pass(seconds * 1000);
      expect(await send(done)).toBeUndefined();
      pass(1);
      expect(await send(unknown('gone'))).toMatchObject({ reason: 'gone' });
    }
    pass(300_001);
    expect(await send(done)).toBe(done);
    expect(open).toEqual({ unreachable: 0, gone: 0, starting: 0 });
  });

  it('stops the starts of keys from the first trigger that was not sent, soon tries again, and calls it no fault', async () => {
    const starting: Outcome = { kind: 'not-sent', message: 'm', isThere: false };
    await send(starting);
    for (const ms of [250, 500, 1000, 2000, 2000]) {
      expect(stopped.at(-1)).toBe(ms + 1);
      expect(await send(done)).toBeUndefined();
      pass(ms + 1);
      await send(starting);
    }
    expect(open).toEqual({ unreachable: 0, gone: 0, starting: 1 });
    expect(guard.circuit).toMatchObject({ reason: undefined });
    expect(warnings).toEqual([]);
    pass(2001);
    // It is there, only the time of this run was over.
    await send({ ...starting, isThere: true });
    expect(stopped.at(-1)).toBeUndefined();
    expect(open).toEqual({ unreachable: 0, gone: 0, starting: 0 });
  });

  it('lets one through when its time is over, whenever the clock ticks', async () => {
    for (let seed = 0; seed < 100; seed += 1) {
      const random = randomOf(seed);
      let nowMs = 0;
      // A millisecond may pass between two readings.
      const now = (): number => (nowMs += random() < 0.3 ? 1 : 0);
      const sleep = async (ms: number): Promise<void> => {
        nowMs += ms;
        await setImmediate();
      };
      const seen: number[] = [];
      const ticking = new EndpointCircuitBreaker({
        controller: 'web',
        keys: { allow: (room) => void seen.push(room) },
        ending: ending.signal,
        admitLine: () => undefined,
        runtime: { clock: { now, sleep }, logger: silentLogger, metrics: silentMetrics },
      });
      await ticking.run(async () => [{ kind: 'not-sent', message: 'm', isThere: false }]);
      for (let turn = 0; turn < 10; turn += 1) await setImmediate();
      expect(seen, `seed ${seed}`).toEqual([0, 1]);
    }
  });

  it('writes a line only when it is admitted, however often the circuits open and close', async () => {
    const starting: Outcome = { kind: 'not-sent', message: 'm', isThere: false };
    const flap = async (): Promise<void> => {
      await send(starting);
      pass(251);
      await send(done);
    };
    await flap();
    expect(infos).toEqual([{ controller: 'web' }, { controller: 'web', reason: 'starting' }]);
    admitted = undefined;
    for (let at = 0; at < 10; at += 1) await flap();
    await sendMany(40, refused);
    expect(open['unreachable']).toBe(1);
    expect({ infos: infos.length, warnings }).toEqual({ infos: 2, warnings: [] });
    pass(501);
    admitted = { leftOut: 21 };
    await send(refused);
    expect(warnings).toEqual([{ controller: 'web', reason: 'unreachable', forMs: 1000, leftOut: 21 }]);
  });
});
