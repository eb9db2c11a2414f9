import * as fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Clock, TokenRate } from '../../core/index.ts';
import { FlowControl } from './flow-control.ts';

/** Time stands still until a test moves it. */
class StillClock implements Clock {
  nowMs = 0;
  readonly #sleepers = new Set<{ readonly atMs: number; readonly wake: () => void }>();

  now(): number {
    return this.nowMs;
  }

  wallNow(): number {
    return this.nowMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const sleeper = { atMs: this.nowMs + ms, wake: resolve };
      this.#sleepers.add(sleeper);
      signal?.addEventListener('abort', () => {
        this.#sleepers.delete(sleeper);
        resolve();
      });
    });
  }

  get sleeping(): number {
    return this.#sleepers.size;
  }

  /** Each sleeper wakes at its own time. */
  async pass(ms: number): Promise<void> {
    await settled();
    const untilMs = this.nowMs + ms;
    for (;;) {
      const next = [...this.#sleepers].toSorted((a, b) => a.atMs - b.atMs)[0];
      if (!next || next.atMs > untilMs) break;
      this.nowMs = Math.max(this.nowMs, next.atMs);
      this.#sleepers.delete(next);
      next.wake();
      await settled();
    }
    this.nowMs = untilMs;
    await settled();
  }
}
const settled = () => new Promise((resolve) => setImmediate(resolve));

const PLENTY: TokenRate = { perSecond: 1000, burst: 1000 };
let clock: StillClock;
let admitted: [flow: string, atMs: number][];

beforeEach(() => {
  clock = new StillClock();
  admitted = [];
});

const flows = (total: TokenRate, perFlow: TokenRate): FlowControl => new FlowControl({ total, perFlow, clock });
const ask = async (control: FlowControl, flow: string | undefined, signal?: AbortSignal): Promise<number> => {
  const waitedMs = await control.wait(flow, signal);
  admitted.push([flow ?? 'gateway', clock.now()]);
  return waitedMs;
};
const askOften = (control: FlowControl, flow: string | undefined, count: number) =>
  Array.from({ length: count }, () => ask(control, flow));
const order = () => admitted.map(([flow]) => flow).join('');

describe('FlowControl', () => {
  it('lets a burst of a controller through at once, and then so many a second, in their order', async () => {
    const asked = askOften(flows(PLENTY, { perSecond: 20, burst: 3 }), 'a', 6);
    await settled();
    expect(admitted).toHaveLength(3);
    await clock.pass(150);
    expect(admitted.map(([, atMs]) => atMs)).toEqual([0, 0, 0, 50, 100, 150]);
    expect(await Promise.all(asked)).toEqual([0, 0, 0, 50, 100, 150]);
  });

  it('keeps one controller from delaying another', async () => {
    const control = flows(PLENTY, { perSecond: 20, burst: 2 });
    void askOften(control, 'a', 50);
    expect(await Promise.all(askOften(control, 'b', 2))).toEqual([0, 0]);
    expect(await Promise.all(askOften(control, undefined, 20))).toEqual(Array.from({ length: 20 }, () => 0));
  });

  it('lets those that wait for the total take turns, the gateway among them', async () => {
    const control = flows({ perSecond: 10, burst: 1 }, PLENTY);
    void askOften(control, 'a', 7);
    void askOften(control, 'b', 2);
    void askOften(control, undefined, 2);
    await clock.pass(1000);
    expect(order()).toBe('aabgatewayabgatewayaaaa');
    expect(admitted.map(([, atMs]) => atMs)).toEqual([0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
  });

  it('lets a tenant of fifty controllers have half of the total, and as many turns as a tenant of one', async () => {
    const control = flows({ perSecond: 20, burst: 20 }, { perSecond: 5, burst: 5 });
    const many = Array.from({ length: 50 }, (_, at) => `a.${at}`);
    for (const name of many) void askOften(control, name, 2);
    await settled();
    expect(admitted).toHaveLength(10);
    // Their turns go round: each controller that waits has one before any has a second.
    await clock.pass(4000);
    expect(admitted.slice(10).map(([flow]) => flow)).toEqual(many.slice(5, 45));
    void askOften(control, 'b.0', 5);
    await clock.pass(0);
    expect(order().endsWith('b.0'.repeat(5))).toBe(true);
    // The gateway uses up the total, and the tenants take turns.
    void askOften(control, undefined, 1000);
    await clock.pass(1000);
    admitted = [];
    void askOften(control, 'b.1', 5);
    await clock.pass(600);
    expect(admitted.filter(([flow]) => flow.startsWith('a.'))).toHaveLength(4);
    expect(admitted.filter(([flow]) => flow.startsWith('b.'))).toHaveLength(4);
    expect(admitted.filter(([flow]) => flow === 'gateway')).toHaveLength(4);
  });

  it('does not let one that waits for its own limit delay those behind it', async () => {
    const control = flows({ perSecond: 100, burst: 1 }, { perSecond: 1, burst: 1 });
    void askOften(control, 'a', 2);
    void askOften(control, 'b', 1);
    await clock.pass(999);
    expect(order()).toBe('ab');
    await clock.pass(1);
    expect(order()).toBe('aba');
  });

  it('lets an urgent request pass the others of its controller, within the same limits', async () => {
    const control = flows(PLENTY, { perSecond: 10, burst: 1 });
    const giveUp = new AbortController();
    void askOften(control, 'a', 256);
    await settled();
    const urgent = control.wait('a', undefined, true);
    const given = control.wait('a', giveUp.signal, true);
    giveUp.abort();
    await expect(given).rejects.toThrow();
    await clock.pass(100);
    expect(await urgent).toBe(100);
    expect(admitted).toHaveLength(1);
    await clock.pass(25_500);
    expect(admitted).toHaveLength(256);
  });

  it('forgets a request that is given up, which takes nothing from the others', async () => {
    const control = flows(PLENTY, { perSecond: 10, burst: 1 });
    const giveUp = new AbortController();
    void ask(control, 'a');
    const given = ask(control, 'a', giveUp.signal);
    void ask(control, 'a');
    giveUp.abort(new Error('no longer'));
    await expect(given).rejects.toThrow('no longer');
    await expect(ask(control, 'a', giveUp.signal)).rejects.toThrow('no longer');
    await clock.pass(100);
    expect(admitted).toEqual([
      ['a', 0],
      ['a', 100],
    ]);
    expect(clock.sleeping).toBe(0);
  });

  it('goes on when the one that was waited for is given up', async () => {
    const control = flows(PLENTY, { perSecond: 10, burst: 1 });
    const giveUp = new AbortController();
    void ask(control, 'a');
    const given = ask(control, 'a', giveUp.signal).catch(() => {});
    giveUp.abort(new Error('no longer'));
    await given;
    await clock.pass(1000);
    void ask(control, 'a');
    await settled();
    expect(admitted).toHaveLength(2);
  });

  it('does not come to a stop when the clock is set back', async () => {
    const control = flows(PLENTY, { perSecond: 10, burst: 1 });
    void ask(control, 'a');
    clock.nowMs = -60_000;
    void ask(control, 'a');
    await clock.pass(100);
    expect(admitted).toHaveLength(2);
  });

  it('never exceeds a limit, loses no request, and starves nobody', async () => {
    const request = fc.record({
      flow: fc.constantFrom('x.a', 'x.b', 'c', undefined),
      afterMs: fc.nat(80),
      abandonAfterMs: fc.option(fc.nat(300), { nil: undefined }),
    });
    const limit = fc.record({ perSecond: fc.integer({ min: 5, max: 60 }), burst: fc.integer({ min: 1, max: 5 }) });
    // A failure prints its seed and path; give them to `fc.assert` to see it again.
    await fc.assert(
      fc.asyncProperty(limit, limit, fc.array(request, { maxLength: 60 }), async (total, perFlow, requests) => {
        clock = new StillClock();
        admitted = [];
        const control = flows(total, perFlow);
        let abandoned = 0;
        for (const { flow, afterMs, abandonAfterMs } of requests) {
          await clock.pass(afterMs);
          const giveUp = new AbortController();
          ask(control, flow, giveUp.signal).catch(() => (abandoned += 1));
          if (abandonAfterMs === undefined) continue;
          void clock.sleep(abandonAfterMs).finally(() => giveUp.abort());
        }
        const worstMs = (requests.length * 1000) / Math.min(total.perSecond / 2, perFlow.perSecond);
        await clock.pass(worstMs + requests.length + 300);
        expect(admitted.length + abandoned).toBe(requests.length);
        const within = (times: readonly number[], { perSecond, burst }: TokenRate): void => {
          for (const [first, from] of times.entries()) {
            for (const [last, to] of times.entries()) {
              if (last >= first)
                expect(last - first + 1).toBeLessThanOrEqual(burst + ((to - from) / 1000) * perSecond + 1e-6);
            }
          }
        };
        within(
          admitted.map(([, atMs]) => atMs),
          total,
        );
        const half = { perSecond: total.perSecond / 2, burst: Math.ceil(total.burst / 2) };
        for (const [flow, rate] of [
          ['x.a', perFlow],
          ['x.b', perFlow],
          ['c', perFlow],
          ['x.', half],
        ] as const) {
          within(
            admitted.filter(([name]) => name.startsWith(flow)).map(([, atMs]) => atMs),
            rate,
          );
        }
      }),
      { numRuns: 200 },
    );
  });

  it('lets 64 requests of controllers be under way, and the next one when one of them ends', async () => {
    const control = flows(PLENTY, PLENTY);
    const ends = await Promise.all(Array.from({ length: 64 }, (_, at) => control.begin(`c-${at}`)));
    const begun: string[] = [];
    const begin = async (name: string): Promise<() => void> => {
      const end = await control.begin(name);
      begun.push(name);
      return end;
    };
    const [first, second] = [begin('x'), begin('y')];
    // The gateway's own do not wait.
    (await control.begin())();
    await settled();
    expect(begun).toEqual([]);
    ends[0]?.();
    ends[0]?.();
    await settled();
    expect(begun).toEqual(['x']);
    (await first)();
    await second;
    expect(begun).toEqual(['x', 'y']);
    for (const end of ends) end();
    (await begin('z'))();
  });

  it('lets no request begin that was given up while it waited, and keeps its place free', async () => {
    const control = flows(PLENTY, PLENTY);
    const ends = await Promise.all(Array.from({ length: 64 }, (_, at) => control.begin(`c-${at}`)));
    const given = new AbortController();
    const first = control.begin('x', given.signal);
    const second = control.begin('y');
    given.abort(new Error('given up'));
    await expect(first).rejects.toThrow('given up');
    await expect(control.begin('z', given.signal)).rejects.toThrow('given up');
    ends[0]?.();
    await expect(second).resolves.toBeTypeOf('function');
  });

  it('keeps places for other tenants when one of them has requests of fifty controllers under way', async () => {
    const control = flows(PLENTY, PLENTY);
    const begun: string[] = [];
    for (let at = 0; at < 400; at += 1) {
      const name = `a.${at % 50}`;
      void control.begin(name).then(() => begun.push(name));
    }
    await settled();
    expect(begun).toHaveLength(32);
    const ends = await Promise.all(Array.from({ length: 8 }, () => control.begin('b.0')));
    expect(ends).toHaveLength(8);
  });

  it('gives places that are free to the waiting controllers in turn, and to each in its order', async () => {
    const control = flows({ perSecond: 1000, burst: 1000 }, { perSecond: 1000, burst: 1000 });
    const ends = await Promise.all(Array.from({ length: 64 }, (_, at) => control.begin(`c-${at}`)));
    const begun: string[] = [];
    const begin = async (name: string, what: string): Promise<void> => {
      const end = await control.begin(name);
      begun.push(what);
      end();
    };
    const waiting = ['one', 'two', 'three'].map((what) => begin('many', what));
    waiting.push(begin('other', 'another'));
    ends[0]?.();
    await Promise.all(waiting);
    expect(begun).toEqual(['one', 'another', 'two', 'three']);
    for (const end of ends.slice(1)) end();
  });

  it('gives a controller eight places, and lets the others pass those of its requests that wait', async () => {
    const control = flows(PLENTY, PLENTY);
    const ends = await Promise.all(Array.from({ length: 8 }, () => control.begin('slow')));
    let hasBegun = false;
    const ninth = control.begin('slow').then((end) => {
      hasBegun = true;
      return end;
    });
    (await control.begin('other'))();
    await settled();
    expect(hasBegun).toBe(false);
    ends[3]?.();
    (await ninth)();
    expect(hasBegun).toBe(true);
  });
});
