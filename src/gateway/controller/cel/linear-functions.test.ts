import * as fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { KubernetesObject } from '../../../core/index.ts';
import { CpuBudgets } from './cpu-budget.ts';
import { createExpression, type EvaluationError } from './expression.ts';
import { containsLong } from './linear-functions.ts';

function evaluated(text: string, data: Readonly<Record<string, string>>) {
  const errors: EvaluationError[] = [];
  const report = (error: EvaluationError): void => void errors.push(error);
  // A clock that stands still: the limit of each evaluation is the longest, and work uses nothing up.
  const budget = new CpuBudgets({ now: () => 0, threadMs: () => 0 }).of('web');
  const expression = createExpression(text, { result: 'bool', hasOld: false, report, budget });
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x' }, data } as unknown as KubernetesObject;
  return { value: expression.evaluate(object, undefined), errors };
}

/** Texts of few characters, which repeat themselves. */
const repetitive = (maxLength: number): fc.Arbitrary<string> =>
  fc.array(fc.constantFrom('a', 'a', 'b', 'é', '😀', 'ab'), { maxLength }).map((parts) => parts.join(''));
const pair = repetitive(300).chain((text) =>
  fc.record({
    text: fc.constant(text),
    needle: fc.oneof(
      repetitive(80),
      fc.tuple(fc.nat(text.length), fc.nat(text.length)).map(([a, b]) => text.slice(Math.min(a, b), Math.max(a, b))),
    ),
  }),
);

describe('contains', () => {
  it('says what String.prototype.includes says', () => {
    fc.assert(
      fc.property(pair, ({ text, needle }) => {
        expect(containsLong(text, needle)).toBe(text.includes(needle));
        expect(evaluated('object.data.text.contains(object.data.needle)', { text, needle })).toEqual({
          value: text.includes(needle),
          errors: [],
        });
      }),
      { numRuns: 300 },
    );
  });

  it.each([
    ['a'.repeat(60_000), `${'a'.repeat(100)}b${'a'.repeat(30_000)}`],
    ['a'.repeat(60_000), `${'a'.repeat(20_000)}b`],
    ['ab'.repeat(30_000), `${'ab'.repeat(10_000)}b`],
    [`${'a'.repeat(999)}b`.repeat(60), 'a'.repeat(1000)],
  ])('reads the characters of a hostile pair a few times at most (%#)', (text, needle) => {
    let reads = 0;
    const counted = (of: string) => ({
      length: of.length,
      charCodeAt: (at: number) => {
        reads += 1;
        return of.charCodeAt(at);
      },
    });
    expect(containsLong(counted(text), counted(needle))).toBe(false);
    // Each step of the search reads the needle; a step that fits nothing reads it once more.
    expect(reads).toBeLessThanOrEqual(4 * (text.length + needle.length));
  });

  it('of a long needle is this search in an expression, too', () => {
    const data = { text: 'a'.repeat(200), needle: `${'a'.repeat(40)}b` };
    const reads = vi.spyOn(String.prototype, 'charCodeAt');
    try {
      expect(evaluated('object.data.text.contains(object.data.needle)', data).value).toBe(false);
      expect(reads.mock.contexts.filter((each) => String(each) === data.text)).toHaveLength(200);
    } finally {
      reads.mockRestore();
    }
  });

  it('of a hostile pair ends in an expression', () => {
    // The native search takes half a minute.
    const data = { text: 'a'.repeat(600_000), needle: `${'a'.repeat(1000)}b${'a'.repeat(300_000)}` };
    const { value, errors } = evaluated('object.data.text.contains(object.data.needle)', data);
    // A busy machine may end it. The native search cannot be ended.
    if (errors.length === 0) expect(value).toBe(false);
    else expect(errors).toEqual([{ reason: 'time', message: expect.stringMatching(/^took longer/) }]);
  });
});

describe('the size of a text', () => {
  it('is its number of characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '😀', '\ud83d', '\ude00') }), (text) => {
        const size = Array.from(text).length;
        const asked = `size(object.data.text) == ${size} && object.data.text.size() == ${size}`;
        expect(evaluated(asked, { text })).toEqual({ value: true, errors: [] });
      }),
    );
  });
});

describe('a number in a text', () => {
  it.each([
    'int("-9223372036854775808") == -9223372036854775808 && int("0x10") == 16',
    'uint("18446744073709551615") == 18446744073709551615u',
    `int("${'0'.repeat(62)}42") == 42`,
  ])('%s', (text) => {
    expect(evaluated(text, {})).toEqual({ value: true, errors: [] });
  });

  it.each([
    'int("a") == 1',
    'int("9223372036854775808") == 1',
    'uint("-1") == 1u',
    'uint("18446744073709551616") == 1u',
    `int("${'0'.repeat(63)}42") == 42`,
    `uint("${'0'.repeat(63)}42") == 42u`,
  ])('%s fails', (text) => {
    expect(evaluated(text, {})).toEqual({
      value: undefined,
      errors: [{ reason: 'error', message: expect.stringMatching(/^failed at line 1/) }],
    });
  });
});

it.each(['[object.data.text]', '[bytes(object.data.text)]'])(
  '%s cannot be doubled until it fills the memory',
  (list) => {
    const doubled = (times: number): string => `${list}${'.map(x, x + x)'.repeat(times)}[0].size() == `;
    const text = 'a'.repeat(1024);
    expect(evaluated(`${doubled(4)}${1024 * 16}`, { text })).toEqual({ value: true, errors: [] });
    expect(evaluated(`${doubled(14)}0`, { text })).toEqual({
      value: undefined,
      errors: [{ reason: 'error', message: expect.stringMatching(/^failed/) }],
    });
  },
);

it.each(['object.data.text + object.data.text', 'bytes(object.data.text)', 'bytes(object.data.text) + b"a"'])(
  'many of %s are not made in one evaluation',
  (made) => {
    const list = (length: number): string => `[${Array.from({ length }, (_, at) => at).join()}].map(i, ${made})`;
    const text = 'a'.repeat(512 * 1024);
    expect(evaluated(`${list(3)}.size() == 3`, { text })).toEqual({ value: true, errors: [] });
    expect(evaluated(`${list(100)}.size() == 100`, { text })).toEqual({
      value: undefined,
      errors: [{ reason: 'error', message: expect.stringMatching(/^failed/) }],
    });
    // Each evaluation counts from 0.
    expect(evaluated(`${list(3)}.size() == 3`, { text })).toEqual({ value: true, errors: [] });
  },
);
