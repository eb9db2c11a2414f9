import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { asLabelSelector, type LabelSelector, matchesLabels } from './label-selector.ts';

const key = fc.constantFrom('app', 'tier', 'constructor', 'toString', '__proto__');
const value = fc.constantFrom('', 'a', 'b');
// Labels as JSON gives them.
const labels = fc.array(fc.tuple(key, value)).map((pairs) => new Map(pairs));
const asLabels = (map: ReadonlyMap<string, string>) =>
  JSON.parse(`{${[...map].map(([key, value]) => `"${key}":"${value}"`).join(',')}}`) as Record<string, string>;
const expression = fc.record({
  key,
  operator: fc.constantFrom('In' as const, 'NotIn' as const, 'Exists' as const, 'DoesNotExist' as const),
  values: fc.array(value),
});

describe('matchesLabels', () => {
  it.each<[LabelSelector, Record<string, string> | undefined, boolean]>([
    [{}, undefined, true],
    [{}, { a: 'b' }, true],
    [{ matchLabels: { app: 'x' } }, { app: 'x', other: 'y' }, true],
    [{ matchLabels: { app: 'x' } }, { app: 'y' }, false],
    [{ matchLabels: { app: 'x' } }, undefined, false],
    [{ matchLabels: { app: '' } }, {}, false],
    [{ matchExpressions: [{ key: 'app', operator: 'In', values: ['x', 'y'] }] }, { app: 'y' }, true],
    [{ matchExpressions: [{ key: 'app', operator: 'In', values: ['x'] }] }, {}, false],
    [{ matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['x'] }] }, {}, true],
    [{ matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['x'] }] }, { app: 'x' }, false],
    [{ matchExpressions: [{ key: 'app', operator: 'Exists' }] }, { app: '' }, true],
    [{ matchExpressions: [{ key: 'app', operator: 'Exists' }] }, {}, false],
    [{ matchExpressions: [{ key: 'app', operator: 'DoesNotExist' }] }, {}, true],
    [{ matchLabels: { a: '1' }, matchExpressions: [{ key: 'b', operator: 'Exists' }] }, { a: '1' }, false],
    // Every object inherits these names.
    [{ matchExpressions: [{ key: 'constructor', operator: 'Exists' }] }, {}, false],
    [{ matchExpressions: [{ key: 'toString', operator: 'DoesNotExist' }] }, {}, true],
    // apimachinery refuses these selectors.
    [{ matchExpressions: [{ key: 'app', operator: 'NotIn' }] }, {}, false],
    [{ matchExpressions: [{ key: 'app', operator: 'NotIn', values: [] }] }, {}, false],
    [{ matchExpressions: [{ key: 'app', operator: 'Exists', values: ['x'] }] }, { app: 'x' }, false],
    [{ matchExpressions: [{ key: 'app', operator: 'DoesNotExist', values: ['x'] }] }, {}, false],
    // An object has null for absent where its schema allows it.
    [JSON.parse('{"matchLabels":{"a":"x"},"matchExpressions":null}') as LabelSelector, { a: 'x' }, true],
    [
      JSON.parse(
        '{"matchLabels":null,"matchExpressions":[{"key":"a","operator":"Exists","values":null}]}',
      ) as LabelSelector,
      { a: '' },
      true,
    ],
  ])('%j on %j: %s', (selector, given, matches) => {
    expect(matchesLabels(selector, given)).toBe(matches);
  });

  it('wants every part to match', () => {
    fc.assert(
      fc.property(labels, labels, fc.array(expression, { maxLength: 3 }), (given, wanted, matchExpressions) => {
        const expected =
          [...wanted].every(([key, value]) => given.get(key) === value) &&
          matchExpressions.every(({ key, operator, values }) => {
            const value = given.get(key);
            if (operator === 'Exists') return given.has(key) && values.length === 0;
            if (operator === 'DoesNotExist') return !given.has(key) && values.length === 0;
            if (values.length === 0) return false;
            return (operator === 'In') === (value !== undefined && values.includes(value));
          });
        expect(matchesLabels({ matchLabels: asLabels(wanted), matchExpressions }, asLabels(given))).toBe(expected);
      }),
    );
  });
});

describe('asLabelSelector', () => {
  it.each<[string, unknown, LabelSelector | undefined]>([
    ['everything by an empty selector, as the podSelector of a NetworkPolicy', {}, { matchLabels: {} }],
    ['everything by a selector with no labels', { matchLabels: {} }, { matchLabels: {} }],
    ['the labels of a Service', { app: 'web' }, { matchLabels: { app: 'web' } }],
    ['nothing where there is no selector', undefined, undefined],
    ['nothing by null, as a Service without a selector', null, undefined],
    ['nothing by a list', [], undefined],
    ['nothing by an unknown operator', { matchExpressions: [{ key: 'a', operator: 'Gt' }] }, undefined],
    ['nothing by NotIn without values', { matchExpressions: [{ key: 'a', operator: 'NotIn' }] }, undefined],
    [
      'nothing by Exists with values',
      { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] },
      undefined,
    ],
    [
      'by the labels alone where the expressions are null',
      { matchLabels: { a: 'x' }, matchExpressions: null },
      { matchLabels: { a: 'x' } },
    ],
    [
      'by an operator whose values are null',
      { matchLabels: null, matchExpressions: [{ key: 'a', operator: 'Exists', values: null }] },
      { matchExpressions: [{ key: 'a', operator: 'Exists' }] },
    ],
  ])('selects %s', (_, value, expected) => {
    expect(asLabelSelector(value)).toEqual(expected);
  });
});
