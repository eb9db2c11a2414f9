import { describe, expect, it } from 'vitest';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import { LimitedLines, silentLogger, silentMetrics } from '../../../core/index.ts';
import { HandlerError } from '../../informer/cache/change.ts';
import { CHANGE_LINES, HandlerFailures } from './handler-failures.ts';

function create() {
  const clock = new InstantClock();
  const lines: unknown[] = [];
  const logger = { ...silentLogger, warn: (fields: object) => void lines.push(fields) };
  return { clock, lines, failures: new HandlerFailures({ controller: 'a.b', clock, logger, metrics: silentMetrics }) };
}

describe('failures of handlers', () => {
  it('say when what they show ends by itself', () => {
    const { clock, failures } = create();
    expect(failures.endsMs).toBe(Infinity);
    failures.record(new HandlerError('no'));
    clock.advance(10_000);
    failures.remark('for.predicate failed');
    for (const shown of [
      ['no', 'for.predicate failed'],
      [undefined, 'for.predicate failed'],
      [undefined, undefined],
    ]) {
      expect([failures.missesEvents, failures.remarks]).toEqual(shown);
      clock.advance(Math.min(failures.endsMs - clock.now(), 300_000));
    }
    expect(failures.endsMs).toBe(Infinity);
  });

  it('delay the keys that are owed until none has come for a while, longer each time', () => {
    const { clock, failures } = create();
    expect([failures.isRecent, failures.missesEvents]).toEqual([false, undefined]);
    const waits = Array.from({ length: 9 }, () => {
      failures.record(new HandlerError('no'));
      let waited = 0;
      for (; failures.isRecent; waited += 1000) clock.advance(1000);
      failures.delivered();
      return waited;
    });
    expect(waits).toEqual([5, 10, 20, 40, 80, 160, 300, 300, 300].map((seconds) => seconds * 1000));
    clock.advance(700_000);
    failures.record(new HandlerError('no'));
    clock.advance(5000);
    expect(failures.isRecent).toBe(false);
  });

  it('delay keys no longer than the longest wait, however often they come', () => {
    const { clock, failures } = create();
    let waited = 0;
    for (; waited < 1000; waited += 1) {
      failures.record(new HandlerError('no'));
      if (!failures.isRecent) break;
      clock.advance(1000);
    }
    expect(waited).toBe(300);
    failures.delivered();
    failures.record(new HandlerError('no'));
    expect(failures.isRecent).toBe(true);
  });

  it('of one bad time count once, and are over only some time after the last', () => {
    const { clock, failures } = create();
    for (let at = 0; at < 100; at += 1) {
      failures.record(new HandlerError('no'));
      clock.advance(100);
    }
    clock.advance(4000);
    expect(failures.isRecent).toBe(true);
    clock.advance(901);
    expect(failures.isRecent).toBe(false);
    expect(failures.missesEvents).toBe('no');
    clock.advance(30_000);
    expect(failures.missesEvents).toBeUndefined();
  });

  it('are told with what was made to be told, and nothing that an object may hold', () => {
    const { failures } = create();
    failures.record(new HandlerError('watches.0.map was cut off'), 'v1/Pod a/b');
    expect(failures.missesEvents).toBe('watches.0.map was cut off (v1/Pod a/b)');
    failures.record(new SyntaxError('Unexpected token in "hunter2"'));
    expect(failures.missesEvents).toBe('its handlers failed (SyntaxError)');
  });

  it('are one line in the log a minute', () => {
    const { clock, failures, lines } = create();
    for (let at = 0; at < 121; at += 1) {
      failures.record(new HandlerError('no'));
      clock.advance(1000);
    }
    expect(lines).toHaveLength(3);
  });

  it('are as many lines as their tenant may write, and the next one says how many were left out', () => {
    const clock = new InstantClock();
    const lines: unknown[] = [];
    const logger = { ...silentLogger, warn: (fields: object) => void lines.push(fields) };
    const ofTenant = new LimitedLines(clock, CHANGE_LINES);
    const admitLine = () => ofTenant.admit('a handlers');
    const all = Array.from(
      { length: 50 },
      (_, at) => new HandlerFailures({ controller: `a.${at}`, clock, logger, metrics: silentMetrics, admitLine }),
    );
    for (const each of all) each.record(new HandlerError('no'));
    expect(lines).toHaveLength(20);
    clock.advance(10_000);
    for (const each of all) each.record(new HandlerError('no'));
    expect(lines).toHaveLength(21);
    expect(lines.at(-1)).toMatchObject({ controller: 'a.20', leftOut: 30 });
  });
});
