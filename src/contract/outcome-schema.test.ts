import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { OutcomeBody } from './outcome.ts';
import { decodeCallback } from './callback-schema.ts';
import { decodeResultLine, decodeResults, outcomeSchema, resultSchema } from './outcome-schema.ts';

const write = { apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'b', uid: 'u', resourceVersion: '5' };
const ok = (result: unknown, version: unknown = 'v1') =>
  outcomeSchema.safeParse({ version, results: [result] }).success;

describe('outcomeSchema', () => {
  it('gives what a function answers', () => {
    const body: OutcomeBody = {
      version: 'v1',
      results: [
        { status: 'done' },
        { status: 'done', requeueAfterSeconds: 0.5, writes: [write] },
        { status: 'error', message: 'm', retryAfterSeconds: 3, writes: [{ ...write, deleted: true }] },
        { status: 'terminal', message: '', writes: [] },
        { status: 'done', log: ['a', ''] },
        { status: 'error', message: 'm', log: [], stack: 'Error: m\n    at a.ts:1' },
      ],
    };
    expect(outcomeSchema.parse(JSON.parse(JSON.stringify(body)))).toEqual(body);
  });

  it('passes over fields of later versions', () => {
    expect(outcomeSchema.parse({ version: 'v1', later: 1, results: [{ status: 'done', later: 2 }] })).toEqual({
      version: 'v1',
      results: [{ status: 'done' }],
    });
  });

  it.each<[string, unknown]>([
    ['of no known status', { status: 'fine' }],
    ['that is null', null],
    ['to be requeued in the past', { status: 'done', requeueAfterSeconds: -1 }],
    ['to be requeued in more than a year', { status: 'done', requeueAfterSeconds: 366 * 86_400 }],
    ['to be requeued at no number', { status: 'done', requeueAfterSeconds: '5' }],
    ['to be requeued at null, as JSON has NaN', { status: 'done', requeueAfterSeconds: null }],
    ['that fails without a message', { status: 'error' }],
    ['that is terminal without a message', { status: 'terminal' }],
    ['with a write without a UID', { status: 'done', writes: [{ ...write, uid: undefined }] }],
    ['with a write of no API version', { status: 'done', writes: [{ ...write, apiVersion: 'v1/../apps' }] }],
    ['with a write of no kind', { status: 'done', writes: [{ ...write, kind: 'Pod/status' }] }],
    ['with a write in no namespace', { status: 'done', writes: [{ ...write, namespace: '..' }] }],
    ['with a write of no name', { status: 'done', writes: [{ ...write, name: '..' }] }],
    ['with a write whose UID is of two lines', { status: 'done', writes: [{ ...write, uid: 'a\nb' }] }],
    ['with a write that was not deleted', { status: 'done', writes: [{ ...write, deleted: false }] }],
    ['with writes that are no array', { status: 'done', writes: write }],
    ['with a log that is no list', { status: 'done', log: 'a' }],
    ['with a line of its log that is no text', { status: 'done', log: ['a', 1] }],
    ['with 101 lines of its log', { status: 'done', log: Array.from({ length: 101 }, () => '') }],
    ['with a stack that is no text', { status: 'error', message: 'm', stack: ['a'] }],
  ])('refuses a result %s', (_what, result) => {
    expect(ok(result)).toBe(false);
  });

  it('refuses another version, and no results', () => {
    expect(ok({ status: 'done' }, 'v2')).toBe(false);
    expect(outcomeSchema.safeParse({ version: 'v1' }).success).toBe(false);
    expect(outcomeSchema.safeParse(undefined).success).toBe(false);
  });
});

describe('decodeResultLine', () => {
  it('gives the run and its result, without fields of later versions', () => {
    const line = { run: 7, later: 1, result: { status: 'done', writes: [write], later: 2 } };
    expect(decodeResultLine(JSON.stringify(line))).toEqual({ run: 7, result: { status: 'done', writes: [write] } });
  });

  it.each<[string, string]>([
    ['is not JSON', '{"run":7,'],
    ['is empty', ''],
    ['is no object', 'null'],
    ['is a number', '7'],
    ['has no run', '{"result":{"status":"done"}}'],
    ['has a run that is text', '{"run":"7","result":{"status":"done"}}'],
    ['has a run that is no whole number', '{"run":7.5,"result":{"status":"done"}}'],
    ['has the run 0', '{"run":0,"result":{"status":"done"}}'],
    ['has a run that no number can be', '{"run":9007199254740993,"result":{"status":"done"}}'],
  ])('names no run when the line %s', (_what, text) => expect(decodeResultLine(text)).toBeUndefined());

  it.each(['{"run":7}', '{"run":7,"result":null}', '{"run":7,"result":{"status":"fine"}}', '{"run":7,"result":[]}'])(
    'names a run without a result in %s',
    (text) => expect(decodeResultLine(text)).toEqual({ run: 7, result: expect.any(TypeError) }),
  );
});

describe('results', () => {
  /** Values that are valid, or nearly valid, for one of the fields. */
  const field = fc.oneof(
    fc.constantFrom<unknown>('done', 'error', 'terminal', 'unknown', 'accepted', 'v1', 'apps/v1', 'Pod', 'a', 'a-b'),
    fc.constantFrom<unknown>('', '..', '.', 'a/b', 'a%b', '\ud800', 'a\n', '5', '05', 0, -0, -1, 0.5, 31_536_000),
    fc.constantFrom<unknown>(31_536_001, 1e300, null, true, false, [], {}, [{}], 'x'.repeat(64), 'x'.repeat(400)),
    fc.jsonValue(),
  );
  const names = ['status', 'requeueAfterSeconds', 'writes', 'message', 'retryAfterSeconds', 'withinSeconds', 'log'];
  const writeNames = [...Object.keys(write), 'deleted', 'gone'];
  const others = ['later', '__proto__', 'constructor', 'toString'];
  const changed = <T>(base: fc.Arbitrary<T>, fields: readonly string[]): fc.Arbitrary<unknown> =>
    fc
      .tuple(base, fc.array(fc.tuple(fc.constantFrom(...fields, ...others), fc.option(field)), { maxLength: 2 }))
      .map(([value, changes]) => {
        // Built as text, because an object literal would treat `__proto__` differently.
        const changedNames = new Map<string, unknown>(Object.entries(value as object));
        for (const [name, to] of changes) changedNames.set(name, to);
        const pairs = [...changedNames].map(([name, each]) => `${JSON.stringify(name)}:${JSON.stringify(each)}`);
        return JSON.parse(`{${pairs.join(',')}}`) as unknown;
      });
  const writes = fc.array(
    changed(fc.constantFrom<object>(write, { ...write, deleted: true, gone: true }), writeNames),
    {
      maxLength: 2,
    },
  );
  const done = fc.record(
    {
      status: fc.constant('done'),
      requeueAfterSeconds: fc.double(),
      writes,
      log: fc.array(fc.string(), { maxLength: 3 }),
    },
    { requiredKeys: [] },
  );
  const failed = fc.record({ status: fc.constantFrom('error', 'terminal', 'unknown'), message: fc.string(), writes });
  const result = fc.oneof(changed(done, names), changed(failed, names), field);

  it('are accepted without the schema exactly when the schema accepts them', () => {
    let passed = 0;
    // A failure prints its seed and path; pass them to `fc.assert` to see it again.
    fc.assert(
      fc.property(result, (value) => {
        const travelled = JSON.parse(JSON.stringify(value)) as unknown;
        const [decoded] = decodeResults({ version: 'v1', results: [travelled] }, 1);
        const parsed = resultSchema.safeParse(travelled);
        if (parsed.success) expect(decoded).toEqual(parsed.data);
        else if (!(decoded instanceof TypeError)) {
          expect(decoded).toMatchObject({ status: 'error', message: expect.stringMatching(/^the result is wrong: /) });
        }
        const line = decodeResultLine(JSON.stringify({ run: 1, result: travelled }));
        // The message names the place, so only the types are compared.
        if (parsed.success) expect(line).toEqual({ run: 1, result: decoded });
        else expect(line?.result instanceof TypeError).toBe(decoded instanceof TypeError);
        passed += Number(parsed.success);
      }),
      { numRuns: 5000 },
    );
    expect(passed).toBeGreaterThan(500);
  });
});

describe('a result with a wrong field', () => {
  const decoded = (result: object) => decodeResults({ version: 'v1', results: [result] }, 1)[0];
  const year = 366 * 86_400;

  it.each<[string, object]>([
    ['a time beyond a year', { status: 'done', requeueAfterSeconds: year }],
    ['a time in the past', { status: 'done', requeueAfterSeconds: -1 }],
    ['a retry beyond a year', { status: 'error', message: 'no', retryAfterSeconds: year }],
    ['no message', { status: 'error' }],
    ['a message that is no text', { status: 'terminal', message: 5 }],
    ['too many lines of its log', { status: 'done', log: Array.from({ length: 300_000 }, () => '') }],
    ['two wrong fields', { status: 'error', retryAfterSeconds: 'soon' }],
  ])('fails at once if the run is over: %s', (_, result) => {
    const message = expect.stringMatching(/^the result is wrong: results\.0\./) as string;
    expect(decoded({ ...result, writes: [write] })).toEqual({ status: 'error', message, writes: [write] });
  });

  it('keeps what the function reported for people', () => {
    const notes = { log: ['a'], stack: 's' };
    expect(decoded({ status: 'error', message: 5, ...notes })).toMatchObject({ status: 'error', ...notes });
    expect(decoded({ status: 'done', requeueAfterSeconds: -1, log: ['a', 1] })).not.toHaveProperty('log');
  });

  it.each<[string, object]>([
    ['a write is wrong', { status: 'done', writes: [{ ...write, uid: undefined }] }],
    ['a write and something else is wrong', { status: 'done', requeueAfterSeconds: -1, writes: [{}] }],
    ['the status is of a later version', { status: 'fine' }],
    ['the run goes on for longer than is allowed', { status: 'accepted', withinSeconds: 1e9 }],
  ])('cannot be decoded, and waits, if %s', (_, result) => expect(decoded(result)).toBeInstanceOf(TypeError));
});

describe('the related objects of a result', () => {
  const rule = { apiVersion: 'v1', kind: 'ConfigMap' };
  const WRONG = { status: 'error', message: expect.stringMatching(/^the result is wrong: .*related/) as string };
  const decoded = (related: unknown) => decodeResults({ version: 'v1', results: [{ status: 'done', related }] }, 1)[0];

  it.each([
    ['all of a kind', rule],
    ['names in a namespace', { ...rule, namespace: 'a', names: ['x', 'y'] }],
    ['a selector', { ...rule, labelSelector: { matchExpressions: [{ key: 'a', operator: 'Exists' }] } }],
  ])('may name %s', (_, each) => {
    expect(decoded([each])).toEqual({ status: 'done', related: [each] });
    for (const status of ['error', 'terminal']) {
      const result = { status, message: 'no', related: [each] };
      expect(decodeResults({ version: 'v1', results: [result] }, 1)).toEqual([result]);
    }
  });

  it.each([
    ['an unknown field', { ...rule, labelselector: {} }],
    ['names and a selector', { ...rule, names: ['x'], labelSelector: {} }],
    ['no names', { ...rule, names: [] }],
    ...['a/b', 'a\nb', 'a\0', 'x'.repeat(5000)].map((name): [string, object] => [
      `the name ${JSON.stringify(name.slice(0, 8))} of ${name.length} characters`,
      { ...rule, names: [name] },
    ]),
    [
      'a selector that Kubernetes refuses',
      { ...rule, labelSelector: { matchExpressions: [{ key: 'a', operator: 'In' }] } },
    ],
  ])('must not have %s', (_, each) => expect(decoded([each])).toMatchObject(WRONG));

  it('are 64 rules with 256 names each at most', () => {
    const many = (count: number) => Array.from({ length: count }, (_, at) => `n${at}`);
    expect(decoded(many(64).map(() => ({ ...rule, names: many(256) })))).toMatchObject({ status: 'done' });
    expect(decoded(many(65).map(() => rule))).toMatchObject(WRONG);
    expect(decoded([{ ...rule, names: many(257) }])).toMatchObject(WRONG);
  });

  it('may have as many values in a selector as 32 KiB hold', () => {
    const values = Array.from({ length: 10_800 }, () => '');
    const related = [{ ...rule, labelSelector: { matchExpressions: [{ key: 'a', operator: 'In', values }] } }];
    expect(JSON.stringify(related).length).toBeLessThan(32_768);
    expect(decoded(related)).toEqual({ status: 'done', related });
  });
});

describe('an answer with long lists', () => {
  // zod looks at each element before it looks at the length, and the gateway has the answers of all tenants to decode.
  const unread = Array.from({ length: 300_000 }, () => 0);
  const rule = { apiVersion: 'v1', kind: 'Pod' };
  const matchExpressions = [{ key: 'a', operator: 'In', values: unread }];

  const selecting = (count: number): object => ({
    ...rule,
    labelSelector: { matchExpressions: unread.slice(0, count) },
  });

  it.each<[string, object]>([
    ['writes.0', { status: 'done', writes: unread }],
    ['related', { status: 'done', related: unread }],
    ['related.0.names', { status: 'done', related: [{ ...rule, names: unread }] }],
    ['related.0.labelSelector', { status: 'done', related: [{ ...rule, labelSelector: { matchExpressions } }] }],
    // None of these is too long alone.
    ['related.2.labelSelector', { status: 'done', related: Array.from({ length: 64 }, () => selecting(4000)) }],
  ])('is wrong at %s, whose elements are not looked at', (path, result) => {
    const [decoded] = decodeResults({ version: 'v1', results: [result] }, 1);
    const message = expect.stringMatching(new RegExp(`results[.]0[.]${path.replaceAll('.', '[.]')}: `));
    expect(decoded).toMatchObject({ message });
    expect(decodeCallback({ result })).toMatchObject({ message: expect.stringContaining(`result.${path}: `) });
  });

  const trap = (target: object, name: PropertyKey): object =>
    Object.defineProperty(target, name, { enumerable: true, get: () => expect.fail('it was looked at') });
  const expressions = (...matchExpressions: unknown[]): object => ({ labelSelector: { matchExpressions } });
  const exists = { key: 'a', operator: 'Exists' };

  it.each<[string, object, object]>([
    ['names.1', { names: ['x', 'a/b'] }, { names: trap(['x', 'a/b', ''], 2) }],
    [
      'labelSelector.matchLabels.a',
      { labelSelector: { matchLabels: { a: 1 } } },
      { labelSelector: { matchLabels: trap({ a: 1 }, 'b') } },
    ],
    [
      'labelSelector.matchExpressions.1.values.1',
      expressions(exists, { key: 'a', operator: 'In', values: ['', 'x'.repeat(64)] }),
      expressions(exists, { key: 'a', operator: 'In', values: trap(['', 'x'.repeat(64), ''], 2) }),
    ],
    [
      'labelSelector.matchExpressions.0.operator',
      expressions({ key: 'a', operator: 'in' }),
      expressions({ key: 'a', operator: 'in' }, trap({}, 'operator')),
    ],
    [
      'labelSelector.matchExpressions.0',
      expressions({ ...exists, value: [] }),
      expressions({ ...exists, value: [] }, trap({}, 'key')),
    ],
  ])('is wrong at its first wrong part, %s, and no later part is looked at', (path, first, more) => {
    const [issue] =
      resultSchema.safeParse({ status: 'done', related: [rule, { ...rule, ...first }] }).error?.issues ?? [];
    const result = { status: 'done', related: [rule, { ...rule, ...more }, { ...rule, names: trap([''], 0) }] };
    const [decoded] = decodeResults({ version: 'v1', results: [result] }, 1);
    expect(decoded).toMatchObject({
      status: 'error',
      message: `the result is wrong: results.0.related.1.${path}: ${issue?.message}`,
    });
  });

  it('has no result for a request when it has one too many, which is not looked at', () => {
    const result = Object.defineProperty({}, 'status', { get: () => expect.fail('it was looked at') });
    expect(() => decodeResults({ version: 'v1', results: [result, result] }, 1)).toThrow('results: 2 for one request');
  });
});
