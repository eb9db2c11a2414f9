import { expect, it } from 'vitest';
import { InvalidFunctionError } from './invalid-function-error.ts';
import { RightsReviews } from './rights-review.ts';

const signal = new AbortController().signal;
const forbidden = new InvalidFunctionError('Authorized', 'Forbidden', 'may not list v1/Pod');

/** The results of reviews that end one after the other, a second each. */
async function after(...ends: readonly (Error | 'allowed')[]): Promise<unknown[]> {
  let now = 0;
  const reviews = new RightsReviews({ now: () => now });
  const seen: unknown[] = [];
  for (const end of ends) {
    now += 1000;
    const asked = reviews.during(signal, async () => {
      if (end !== 'allowed') throw end;
      return 'resolved';
    });
    if (end === 'allowed') expect(await asked).toBe('resolved');
    else await expect(asked).rejects.toBe(end);
    seen.push(reviews.last);
  }
  return seen;
}

it('tells what the apiserver said last, and when', async () => {
  expect(await after('allowed', forbidden, 'allowed')).toEqual([
    { result: 'allowed', atMs: 1000 },
    { result: 'refused', atMs: 2000, message: 'may not list v1/Pod' },
    { result: 'allowed', atMs: 3000 },
  ]);
});

it('keeps what was said when a question has no answer, and tells that', async () => {
  expect(await after(new Error('no answer'), 'allowed', new Error('no answer'), 'allowed')).toEqual([
    undefined,
    { result: 'allowed', atMs: 2000 },
    { result: 'allowed', atMs: 2000, failed: { atMs: 3000, error: 'no answer' } },
    { result: 'allowed', atMs: 4000 },
  ]);
});

it('what is wrong with the object says nothing of its rights', async () => {
  const invalid = new InvalidFunctionError('Ready', 'SecretNotFound', 'there is no Secret');
  expect(await after('allowed', invalid)).toEqual([
    { result: 'allowed', atMs: 1000 },
    { result: 'allowed', atMs: 1000 },
  ]);
});
