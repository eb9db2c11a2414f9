import { array, assert, constant, constantFrom, integer, oneof, property, record, string } from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Reason } from '../../../../contract/index.ts';
import { decodePastRun, encodeRun, isCursor } from './past-run.ts';
import type { Finish } from '../run.ts';

const ended = { key: 'a/b', run: 7, atMs: 1000 };
const text = string({ unit: 'binary', maxLength: 40 });

describe('a run of the history', () => {
  it('is one line and is read as it was, whatever the texts in it are', () => {
    const reason = record({ type: constantFrom('updated', 'manual'), message: text });
    const finish = oneof(
      text.map((error): Finish => ({ kind: 'ended', failures: 'count', againAfterMs: 5, error })),
      text.map((error): Finish => ({ kind: 'unknown', error })),
      constant<Finish>({ kind: 'accepted', untilMs: 99, cacheAgeMs: 200_000 }),
      text.map((object): Finish => {
        return { kind: 'ended', failures: 'forget', barrier: 'b', wrote: { count: 9, first: [{ object }] } };
      }),
      string().map((line): Finish => ({ kind: 'ended', failures: 'count', log: [line, 'last'], stack: `at\n${line}` })),
    );
    assert(
      property(
        text,
        array(reason, { maxLength: 3 }),
        finish,
        integer({ min: 1, max: 9 }),
        (key, reasons, how, tries) => {
          const recorded = reasons.map((each) => JSON.stringify(each)).join('\n');
          const line = encodeRun(
            { ...ended, key, finish: how, attempt: tries, waitedMs: 9, heldMs: tries, recorded, reasons },
            JSON.stringify(key),
          );
          expect(line).not.toContain('\n');
          const run = decodePastRun(line);
          expect(run).toMatchObject({ key, gateway: key, run: 7, atMs: 1000, attempt: tries, heldMs: tries, reasons });
          const { error, barrier, wrote, nextMs, log, stack, cacheAgeMs } = run ?? {};
          expect({ error, barrier, wrote, nextMs, log, stack, cacheAgeMs }).toEqual({
            cacheAgeMs: how.cacheAgeMs,
            log: 'log' in how ? how.log : undefined,
            stack: 'stack' in how ? how.stack : undefined,
            error: 'error' in how ? how.error : undefined,
            barrier: 'barrier' in how ? true : undefined,
            wrote: 'wrote' in how ? how.wrote : undefined,
            nextMs: how.kind === 'accepted' ? 99 : 'againAfterMs' in how ? 1005 : undefined,
          });
        },
      ),
    );
  });

  it.each([
    ['lone surrogates', '\ud800'],
    ['wide letters', '名'],
    ['pairs', '😀'],
    ['quotes', '"'],
    ['controls', '\u0001'],
    ['letters', 'x'],
  ])('takes about 3 KiB at most, and has a part of each text: %s', (_, letter) => {
    const long = letter.repeat(30_000);
    const reason = { type: 'updated', object: letter.repeat(150) } as const;
    const object = { object: letter.repeat(20), resourceVersion: '7' };
    const finish: Finish = {
      kind: 'ended',
      failures: 'count',
      error: `why ${long}`,
      wrote: { count: 9, first: [object, object, { object: long }, object, object] },
      stack: `at ${long}`,
      log: [long, 'one', 'two'],
    };
    const recorded = [reason, reason, { ...reason, object: long }].map((each) => JSON.stringify(each)).join('\n');
    const line = encodeRun({ ...ended, finish, recorded }, '"g"');
    expect(Buffer.byteLength(line)).toBeLessThan(3300);
    const run = decodePastRun(line);
    expect(run?.error).toMatch(/^why .{100}/su);
    expect(run?.error?.isWellFormed()).toBe(true);
    expect(run?.wrote).toEqual({ count: 9, first: [object, object] });
    expect(run?.stack).toMatch(/^at .{50}/su);
    expect(run?.log?.slice(-2)).toEqual(['one', 'two']);
    expect(decodePastRun(encodeRun({ ...ended, finish, recorded }, '"g"', 0, false))?.log).toBeUndefined();
    expect(decodePastRun(encodeRun({ ...ended, finish: { kind: 'unknown' }, recorded }, '"g"'))).toMatchObject({
      reasons: [reason, reason],
    });
  });

  it.each([
    ['a long line', ['first', '名'.repeat(1024)]],
    ['long lines', Array.from({ length: 20 }, () => 'z'.repeat(1024))],
    ['many lines', Array.from({ length: 20 }, (_, at) => `${at} ${'z'.repeat(60)}`)],
  ])('has the end of a log beside a long error and a long stack: %s', (_, log) => {
    const finish: Finish = { kind: 'ended', failures: 'count', error: 'e'.repeat(2000), log, stack: 's'.repeat(4096) };
    const run = decodePastRun(encodeRun({ ...ended, finish, recorded: '{"type":"updated"}' }, '"g"'));
    expect(run?.log?.at(-1)?.slice(0, 50)).toBe(log.at(-1)?.slice(0, 50));
    expect(run?.stack?.length).toBeGreaterThan(500);
    expect(run?.reasons).toHaveLength(1);
  });

  it.each([
    [{ kind: 'ended', failures: 'forget' }, 'done'],
    [{ kind: 'ended', failures: 'forget', againAfterMs: 1 }, 'requeue'],
    [{ kind: 'ended', failures: 'keep', againAfterMs: 1 }, 'deferred'],
    [{ kind: 'ended', failures: 'keep', againAfterMs: 0, sent: false }, 'not-sent'],
    [{ kind: 'ended', failures: 'forget', sent: false }, 'not-sent'],
    [{ kind: 'ended', failures: 'count', againAfterMs: 1 }, 'failed'],
    [{ kind: 'ended', failures: 'count', dead: true }, 'dead'],
    [{ kind: 'accepted', untilMs: 1 }, 'accepted'],
    [{ kind: 'unknown' }, 'unknown'],
  ] as const)('%o: %s', (finish, outcome) => {
    expect(decodePastRun(encodeRun({ ...ended, finish }, '"g"'))?.outcome).toBe(outcome);
  });

  it('is lost where its deadline has passed, but for a dead letter', () => {
    const outcomeOf = (finish: Finish) => decodePastRun(encodeRun({ ...ended, finish, lost: true }, '"g"'))?.outcome;
    expect(outcomeOf({ kind: 'ended', failures: 'count' })).toBe('lost');
    expect(outcomeOf({ kind: 'ended', failures: 'count', dead: true })).toBe('dead');
  });

  it('has the reason of the queue itself where none is on record', () => {
    const reasons: Reason[] = [{ type: 'requeue' }];
    const line = encodeRun({ ...ended, finish: { kind: 'unknown' }, recorded: '', reasons }, '"g"');
    expect(decodePastRun(line)?.reasons).toEqual(reasons);
  });

  it('is not read where it is none', () => {
    for (const wrong of ['', '{', 'null', '[]', '{"run":6}', '{"key":"k","run":6,"atMs":5}']) {
      expect(decodePastRun(wrong), wrong).toBeUndefined();
    }
  });
});

it('a cursor is two numbers', () => {
  expect(['0.1', '123456789012345.64'].map(isCursor)).toEqual([true, true]);
  expect(['', '+', '-', '1', '1-1', '1.2.3', '1.x', '9'.repeat(16) + '.1'].filter(isCursor)).toEqual([]);
});
