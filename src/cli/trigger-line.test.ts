import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { errorLine, formatTrigger } from './trigger-line.ts';

const TRIGGER = {
  time: '2026-01-01T00:00:00.000Z',
  controller: 'web',
  key: 'shop/cart',
  reasons: [{ type: 'updated', object: 'apps/v1/Deployment shop/cart' }, { type: 'requeue' }],
  durationMs: 5,
  outcome: 'done',
  attempt: 1,
  writes: 1,
};
const textOf = (fields: object, columns?: number): string =>
  formatTrigger({ ...TRIGGER, ...fields }, columns)
    .map(({ text }) => text)
    .join('');

it('a trigger has the local time, and its columns stand below each other', () => {
  const local = new Date(TRIGGER.time);
  const [hours, minutes] = [local.getHours(), local.getMinutes()].map((each) => String(each).padStart(2, '0'));
  expect(textOf({})).toBe(
    `${hours}:${minutes}:00.000 web          shop/cart                    updated Deployment cart +1                   5 ms done, 1 write`,
  );
  expect(textOf({ outcome: 'error', error: 'no disk', againAfterMs: 20, attempt: 3 })).toMatch(
    / error, again in 0\.02 s \(attempt 3\)$/,
  );
});

it('the message of a run that did not end well has a line of its own', () => {
  expect(errorLine({ ...TRIGGER, outcome: 'error', error: 'no disk' })).toEqual([{ text: 'no disk', tone: 'bad' }]);
  expect(errorLine({ ...TRIGGER, outcome: 'deferred', error: 'later' })).toEqual([{ text: 'later' }]);
  expect(errorLine(TRIGGER)).toEqual([]);
});

it.each([
  ['done', 'good'],
  ['error', 'bad'],
  ['unknown', 'bad'],
  ['accepted', undefined],
  ['deferred', undefined],
])('a run that ends as %s looks %s', (outcome, tone) => {
  expect(formatTrigger({ ...TRIGGER, outcome }).at(-1)?.tone).toBe(tone);
});

it('a line fits into the columns of its terminal, from 100 on, and the end of its key stays', () => {
  const name = fc.stringMatching(/^[a-z]{1,60}$/);
  fc.assert(
    fc.property(name, name, name, fc.integer({ min: 100, max: 200 }), (namespace, key, object, columns) => {
      const reason = { type: 'updated', object: `apps/v1/Deployment ${namespace}/${object}` };
      const fields = { key: `${namespace}/${key}`, reasons: [reason], againAfterMs: 1_000_000, writes: 10 };
      const text = textOf(fields, columns);
      expect(text.length).toBeLessThanOrEqual(columns);
      expect(text).toContain(key.slice(-11));
      expect(text).toContain('done, 10 writes, again in 1000 s');
    }),
  );
});
