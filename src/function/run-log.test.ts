import { describe, expect, it } from 'vitest';
import { type LogFields, type Logger, systemClock, UserError } from '../core/index.ts';
import { checkLogLines, ReportedLogs, RunLog, stackOf } from './run-log.ts';

const written: string[] = [];

/** Writes each line as its level, fields and message. */
function plain(bound: LogFields = {}): Logger {
  const line = (level: string) => (fields: LogFields, message: string) =>
    void written.push(`${level} ${JSON.stringify({ ...bound, ...fields })} ${message}`);
  return {
    debug: line('debug'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
    child: (fields) => plain({ ...bound, ...fields }),
  };
}

const without = (lines: readonly string[]): string[] => lines.map((line) => line.replace(/^\+\d+ ms /, ''));

describe('the log of a run', () => {
  it('keeps the last lines with their fields, and writes all of them to the logger', () => {
    const log = new RunLog(2, systemClock.now());
    written.length = 0;
    const logger = log.around(plain({ key: 'a/b' }));
    logger.debug({}, 'not kept');
    logger.info({}, 'one');
    logger.warn({ name: 'a' }, 'two');
    logger.child({ part: 'x' }).error({ count: 2 }, 'three');
    expect(without(log.lines)).toEqual(['warn two {"name":"a"}', 'error three {"part":"x","count":2}']);
    expect(written).toEqual([
      'debug {"key":"a/b"} not kept',
      'info {"key":"a/b"} one',
      'warn {"key":"a/b","name":"a"} two',
      'error {"key":"a/b","part":"x","count":2} three',
    ]);
  });

  it('bounds each line, and keeps a line whose fields JSON cannot have', () => {
    const log = new RunLog(5, systemClock.now());
    const circle: LogFields = {};
    circle['circle'] = circle;
    const logger = log.around({ ...plain(), info: () => {} });
    logger.info({ text: 'x'.repeat(10_000) }, 'long');
    logger.info(circle, 'a circle');
    expect(log.lines[0]).toHaveLength(500);
    expect(without(log.lines)[1]).toBe('info a circle');
  });
});

it('of many runs that end well some report their log', () => {
  const logs = new ReportedLogs(5);
  const taken = Array.from({ length: 200 }, () => logs.takesSuccess()).filter(Boolean);
  // A new second may have begun.
  expect([50, 100]).toContain(taken.length);
});

it.each([-1, 0.5, 101, NaN, Infinity])('%s is no number of lines', (lines) => {
  expect(() => checkLogLines(lines)).toThrow(UserError);
});

it('a stack has those of the causes, and an end', () => {
  const cause = new Error('why');
  const stack = stackOf(new Error('what', { cause })) ?? '';
  expect(stack).toMatch(/^Error: what\n {4}at .*\ncaused by: Error: why\n {4}at /s);
  const circle = new Error('round');
  circle.cause = circle;
  expect(stackOf(circle)?.split('caused by').length).toBe(4);
  const long = stackOf(new Error(`long ${'x'.repeat(1200)}`)) ?? '';
  expect(long).toMatch(/^Error: long x{195}…\n {4}at /);
  for (const message of [undefined, null, { a: 1 }]) {
    const odd = Object.assign(new Error('odd'), { message });
    expect(stackOf(odd)).toBe(odd.stack);
  }
  expect(stackOf(Object.assign(new Error('odd'), { stack: 5 }))).toBe('');
  expect(stackOf('text')).toBeUndefined();
  expect(stackOf(Object.assign(new Error('long'), { stack: 'x'.repeat(10_000) }))).toHaveLength(4096);
});

it('a busy function makes text of its lines when they are read, and they say what they would have said', () => {
  const logs = new ReportedLogs(20);
  const nowMs = systemClock.now();
  expect(logs.isBusy(nowMs)).toBe(false);
  let calls = 0;
  for (; !logs.isBusy(systemClock.now()) && calls < 1000; calls += 1) logs.takesSuccess();
  // More, if a new second has begun.
  expect(calls).toBeGreaterThanOrEqual(50);
  expect(calls).toBeLessThan(1000);
  expect(logs.isBusy(systemClock.now() + 2000)).toBe(false);
  const linesOf = (isBusy: boolean): readonly string[] => {
    const runLog = new RunLog(20, nowMs, isBusy);
    const fields = { at: 1, long: 'x'.repeat(1000) };
    runLog.around(plain()).child({ key: 'a' }).info(fields, 'looks');
    fields.at = 2;
    return runLog.lines.map((line) => line.replace(/^\+\d+ ms /, ''));
  };
  expect(linesOf(true)).toEqual(linesOf(false));
  expect(linesOf(true)[0]).toMatch(/^info looks \{"key":"a","at":1,"long":"x+$/);
});
