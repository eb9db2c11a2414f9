import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GatewayRuns, type OwnRun, OwnRuns } from './own-runs.ts';
import { RUN_MARGIN_MS } from '../queue-options.ts';
import type { Finish } from '../run.ts';

const KNOWN: Finish = { kind: 'ended', failures: 'forget' };
const UNKNOWN: Finish = { kind: 'unknown' };
const TIMEOUT_MS = 1000;

describe('OwnRuns', () => {
  it('knows a run from its begin to its finish', () => {
    const runs = new OwnRuns();
    runs.begin({ key: 'a', run: 7, incarnation: 'i', deadlineMs: 100 }, 0);
    expect(runs.inFlight(0)).toEqual([
      { key: 'a', run: 7, incarnation: 'i', startedMs: 0, deadlineMs: 100, state: 'running' },
    ]);
    runs.finish({ key: 'a', run: 6, finish: KNOWN });
    expect(runs.heldUntil({ key: 'a', run: 1 }, 0)).toBe(100 + RUN_MARGIN_MS);
    expect(runs.heldUntil({ key: 'b', run: 1 }, 0)).toBeUndefined();
    // Redis has seen to the earlier run: another gateway has recorded its end.
    expect(runs.heldUntil({ key: 'a', run: 8 }, 0)).toBeUndefined();
    runs.finish({ key: 'a', run: 7, finish: KNOWN });
    expect(runs.inFlight(0)).toEqual([]);
    expect(runs.highest).toBe(7);
  });

  it('knows a run of unknown outcome until its deadline and the margin', () => {
    const runs = new OwnRuns();
    runs.begin({ key: 'a', run: 1, incarnation: 'i', deadlineMs: 100 }, 0);
    runs.finish({ key: 'a', run: 1, finish: UNKNOWN });
    expect(runs.inFlight(100 + RUN_MARGIN_MS - 1)).toMatchObject([{ state: 'unknown', deadlineMs: 100 }]);
    expect(runs.inFlight(100 + RUN_MARGIN_MS)).toEqual([]);
    expect(runs.heldUntil({ key: 'a', run: 1 }, 100 + RUN_MARGIN_MS)).toBeUndefined();
  });

  it('knows a run that goes on after its 202 for as long as it may, and never for less', () => {
    const runs = new OwnRuns();
    runs.begin({ key: 'a', run: 1, incarnation: 'i', deadlineMs: 100 }, 0);
    runs.finish({ key: 'a', run: 1, finish: { kind: 'accepted', untilMs: 5000 } });
    runs.finish({ key: 'a', run: 1, finish: { kind: 'accepted', untilMs: 50 } });
    expect(runs.inFlight(4000)).toMatchObject([{ state: 'accepted', deadlineMs: 5000 }]);
    runs.finish({ key: 'a', run: 1, finish: KNOWN });
    expect(runs.inFlight(4000)).toEqual([]);
  });

  it('tells how long runs without an answer have taken so far', () => {
    const runs = new OwnRuns();
    expect(runs.unfinished(0)).toEqual({ totalMs: 0, longestMs: 0 });
    runs.begin({ key: 'a', run: 1, incarnation: 'i', deadlineMs: 1000 }, 0);
    runs.begin({ key: 'b', run: 2, incarnation: 'i', deadlineMs: 1000 }, 30);
    runs.begin({ key: 'c', run: 3, incarnation: 'i', deadlineMs: 1000 }, 40);
    expect(runs.unfinished(100)).toEqual({ totalMs: 230, longestMs: 100 });
    // Both have their answers: one goes on after a 202, of the other it is not known.
    runs.finish({ key: 'a', run: 1, finish: { kind: 'accepted', untilMs: 5000 } });
    runs.finish({ key: 'c', run: 3, finish: UNKNOWN });
    expect(runs.unfinished(100)).toEqual({ totalMs: 70, longestMs: 70 });
  });

  it('has what a model has, in any history', () => {
    const step = fc.record({
      kind: fc.constantFrom('begin', 'end', 'doubt', 'accepted', 'stale', 'pass'),
      key: fc.constantFrom('a', 'b', 'c', 'd'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const runs = new OwnRuns();
        const model = new Map<string, { run: number; endMs: number }>();
        let [nowMs, count] = [0, 0];
        for (const { kind, key } of steps) {
          nowMs += kind === 'pass' ? 700 : 1;
          for (const [each, { endMs }] of model) if (endMs + RUN_MARGIN_MS <= nowMs) model.delete(each);
          const known = model.get(key);
          if (kind === 'begin' && !known) {
            count += 1;
            runs.begin({ key, run: count, incarnation: 'i', deadlineMs: nowMs + TIMEOUT_MS }, nowMs);
            model.set(key, { run: count, endMs: nowMs + TIMEOUT_MS });
          }
          const run = known?.run ?? count;
          if (kind === 'end') {
            runs.finish({ key, run, finish: KNOWN });
            model.delete(key);
          }
          if (kind === 'stale') runs.finish({ key, run: run - 1, finish: KNOWN });
          if (kind === 'doubt') runs.finish({ key, run, finish: UNKNOWN });
          if (kind === 'accepted' && known) {
            runs.finish({ key, run, finish: { kind: 'accepted', untilMs: nowMs + 2000 } });
            known.endMs = Math.max(known.endMs, nowMs + 2000);
          }
          const found = runs.inFlight(nowMs).map((each) => [each.key, { run: each.run, endMs: each.deadlineMs }]);
          expect(Object.fromEntries(found)).toEqual(Object.fromEntries(model));
          expect(runs.highest).toBe(count);
        }
      }),
      { numRuns: 500 },
    );
  });
});

it('counts the runs that go on without a connection, of each tenant and of all, in any history', () => {
  const step = fc.record({
    kind: fc.constantFrom('begin', 'end', 'doubt', 'accepted', 'compare', 'pass', 'remove', 'forget', 'reopen'),
    incarnation: fc.constantFrom('i', 'j'),
    queue: fc.constantFrom('shop.one', 'shop.two', 'bank.one'),
    key: fc.constantFrom('a', 'b', 'c'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const gateway = new GatewayRuns();
      const kept = new Map<string, OwnRuns>();
      let [nowMs, count] = [0, 0];
      for (const { kind, queue, key, incarnation } of steps) {
        // A worker keeps its runs, also when their queue has been forgotten.
        const runs = kept.get(queue) ?? gateway.of(queue);
        kept.set(queue, kind === 'reopen' ? gateway.of(queue) : runs);
        const known = runs.inFlight(nowMs).find((each) => each.key === key);
        if (kind === 'pass') nowMs += 700;
        if (kind === 'begin') {
          count += 1;
          runs.begin({ key, run: count, incarnation, deadlineMs: nowMs + TIMEOUT_MS }, nowMs);
        }
        const run = known?.run ?? 0;
        if (kind === 'end') runs.finish({ key, run, finish: KNOWN });
        if (kind === 'doubt') runs.finish({ key, run, finish: UNKNOWN });
        if (kind === 'accepted') runs.finish({ key, run, finish: { kind: 'accepted', untilMs: nowMs + 5000 } });
        if (kind === 'compare') {
          const asked = runs.oldestGoingOn(2);
          const isOver = (each: OwnRun): boolean => each.key !== key && each.incarnation === 'i';
          const recorded = asked.map((each) => (each.key === key ? each.run : undefined));
          runs.compare(asked, { incarnation: 'i', runs: recorded });
          expect(runs.oldestGoingOn(9).some((each) => asked.filter(isOver).includes(each))).toBe(false);
        }
        if (kind === 'remove') gateway.remove(queue);
        if (kind === 'forget') gateway.inFlight(nowMs);
        const all = ['shop.one', 'shop.two', 'bank.one'].map(
          (name) => gateway.find(name)?.oldestGoingOn(9).length ?? 0,
        );
        const [one = 0, two = 0, bank = 0] = all;
        expect([gateway.goingOn('shop.'), gateway.goingOn('bank.'), gateway.goingOn()]).toEqual([
          one + two,
          bank,
          one + two + bank,
        ]);
      }
    }),
    { numRuns: 500 },
  );
});

it('counts no run that is over, also of a queue that begins none, and none of a configured function', () => {
  const gateway = new GatewayRuns();
  for (const name of ['shop.idle', 'shop.removed', 'configured']) {
    const runs = gateway.of(name);
    runs.begin({ key: 'a', run: 1, incarnation: 'former', deadlineMs: 100 }, 0);
    runs.finish({ key: 'a', run: 1, finish: { kind: 'accepted', untilMs: 5000 } });
    runs.compare(runs.oldestGoingOn(9), { incarnation: 'present', runs: [undefined] });
  }
  expect([gateway.goingOn('shop.'), gateway.goingOn('configured'), gateway.goingOn()]).toEqual([2, 0, 2]);
  const removed = gateway.of('shop.removed');
  removed.begin({ key: 'late', run: 2, incarnation: 'present', deadlineMs: 100 }, 0);
  gateway.remove('shop.removed');
  expect(gateway.inFlight(5000 + RUN_MARGIN_MS)).toEqual([]);
  expect([gateway.goingOn('shop.'), gateway.goingOn()]).toEqual([0, 0]);
  expect(gateway.find('shop.removed')).toBeUndefined();
  // Its worker gets an answer at last.
  removed.finish({ key: 'late', run: 2, finish: UNKNOWN });
  expect([gateway.goingOn('shop.'), gateway.goingOn()]).toEqual([0, 0]);
});

it('forgets a run that goes on only by the records of its own incarnation', () => {
  const runs = new OwnRuns();
  for (const [at, key] of ['ended', 'goes on', 'runs'].entries()) {
    runs.begin({ key, run: at + 1, incarnation: 'i', deadlineMs: 100 }, 0);
    if (key !== 'runs') runs.finish({ key, run: at + 1, finish: { kind: 'accepted', untilMs: 5000 } });
  }
  const asked = runs.oldestGoingOn(10);
  expect(asked.map(({ key }) => key)).toEqual(['ended', 'goes on']);
  for (const incarnation of ['another', undefined]) {
    runs.compare(asked, { incarnation, runs: [undefined, undefined] });
    expect(runs.goingOn).toBe(2);
  }
  runs.compare(asked, { incarnation: 'i', runs: [undefined, 2] });
  expect(runs.inFlight(0).map(({ key }) => key)).toEqual(['runs', 'goes on']);
  // It has begun anew since the question.
  runs.begin({ key: 'goes on', run: 4, incarnation: 'i', deadlineMs: 100 }, 0);
  runs.compare(asked, { incarnation: 'i', runs: [undefined, undefined] });
  expect(runs.inFlight(0).map(({ run }) => run)).toEqual([3, 4]);
});

it('the runs of a gateway stay known when a queue is opened again', () => {
  const gateway = new GatewayRuns();
  expect(gateway.inFlight(0)).toEqual([]);
  gateway.of('one').begin({ key: 'a', run: 1, incarnation: 'i', deadlineMs: 100 }, 0);
  expect(gateway.of('one').inFlight(0)).toHaveLength(1);
  expect(gateway.of('two').inFlight(0)).toEqual([]);
  expect(gateway.inFlight(0)).toEqual(['one']);
  expect(gateway.inFlight(100 + RUN_MARGIN_MS)).toEqual([]);
});

it('the runs of a removed controller are forgotten when they are over, unless it has come back before', () => {
  const gateway = new GatewayRuns();
  const run = { key: 'a', run: 7, incarnation: 'i', deadlineMs: 100 };
  for (const name of ['gone', 'back']) {
    gateway.of(name).begin(run, 0);
    gateway.remove(name);
  }
  expect(gateway.inFlight(0)).toEqual(['gone', 'back']);
  expect(gateway.of('back').highest).toBe(7);
  expect(gateway.inFlight(100 + RUN_MARGIN_MS)).toEqual([]);
  expect(gateway.of('back').highest).toBe(7);
  expect(gateway.of('gone').highest).toBe(0);
});

it('counts the removed controllers of a tenant whose runs are not over', () => {
  const gateway = new GatewayRuns();
  for (const name of ['shop.one', 'shop.two', 'shop.idle', 'bank.one']) {
    const runs = gateway.of(name);
    if (name !== 'shop.idle') runs.begin({ key: 'a', run: 1, incarnation: 'i', deadlineMs: 100 }, 0);
    if (name !== 'shop.two') gateway.remove(name);
  }
  expect(gateway.leaving('shop.', 0)).toBe(1);
  expect(gateway.inFlight(0)).toEqual(['shop.one', 'shop.two', 'bank.one']);
  expect(['shop.', 'bank.', 'other.'].map((tenant) => gateway.leaving(tenant, 0))).toEqual([1, 1, 0]);
  // A token of a removed function does not bring it back.
  expect(gateway.find('shop.one')?.inFlight(0)).toHaveLength(1);
  expect(gateway.find('shop.idle')).toBeUndefined();
  gateway.remove('shop.two');
  expect(gateway.leaving('shop.', 0)).toBe(2);
  gateway.of('shop.two');
  expect(gateway.leaving('shop.', 0)).toBe(1);
  expect(gateway.inFlight(100 + RUN_MARGIN_MS)).toEqual([]);
  expect(gateway.leaving('shop.', 0)).toBe(0);
  expect(gateway.find('shop.one')).toBeUndefined();
});
