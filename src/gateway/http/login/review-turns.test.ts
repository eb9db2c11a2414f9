import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { LoginUnavailableError } from './identity.ts';
import { ReviewTurns } from './review-turns.ts';

let nowMs: number;
let turns: ReviewTurns;
/** The questions at the apiserver, in their order. */
let asked: string[];
/** It answers when this has resolved: no token is valid. */
let answers: PromiseWithResolvers<undefined>;

beforeEach(() => {
  nowMs = 0;
  turns = new ReviewTurns({ now: () => nowMs });
  asked = [];
  answers = Promise.withResolvers();
});

const ask = (what: string) => (): Promise<undefined> => {
  asked.push(what);
  return answers.promise;
};
const guess = (address: string): Promise<unknown> => turns.ofAddress(address, ask(address));
const times = (count: number, each: (at: number) => Promise<unknown>): Promise<unknown>[] =>
  Array.from({ length: count }, (_, at) => each(at));
async function refusedOf(questions: readonly Promise<unknown>[]): Promise<number> {
  let refused = 0;
  for (const each of questions) {
    each.catch((error: unknown) => {
      expect(error).toBeInstanceOf(LoginUnavailableError);
      refused += 1;
    });
  }
  await nextTurn();
  return refused;
}

describe('ReviewTurns', () => {
  it('has a bounded number of places, half of them for one user, and gives them back', async () => {
    const questions = times(60, () => turns.ofUser('of ann', ask('ann')));
    expect(await refusedOf(questions)).toBe(10);
    const other = turns.ofUser('of bob', ask('bob'));
    answers.resolve(undefined);
    await Promise.allSettled([...questions, other]);
    expect(asked).toHaveLength(51);
    expect(asked.indexOf('bob')).toBeLessThan(10);
    expect(await refusedOf(times(50, () => turns.ofUser('of ann', ask('ann'))))).toBe(0);
  });

  it('leaves half of the questions at the apiserver to users', async () => {
    const guesses = times(500, (at) => guess(`10.0.0.${at % 50}`));
    expect(await refusedOf(guesses)).toBeGreaterThan(0);
    expect(asked).toHaveLength(4);
    const users = times(4, (at) => turns.ofUser(`of user ${at}`, ask(`user ${at}`)));
    expect(asked.slice(4)).toEqual(['user 0', 'user 1', 'user 2', 'user 3']);
    answers.resolve(undefined);
    await Promise.allSettled([...guesses, ...users]);
  });

  it('asks for an address that has sent no wrong token within ten minutes before it asks about guesses', async () => {
    const wrong = times(50, (at) => guess(`10.0.0.${at}`));
    answers.resolve(undefined);
    await Promise.all(wrong);
    answers = Promise.withResolvers();
    asked = [];
    nowMs = 599_999;
    const guesses = times(500, (at) => guess(`10.0.0.${at % 50}`));
    const first = guess('10.0.1.1');
    expect(await refusedOf([...guesses, first])).toBeGreaterThan(400);
    expect(asked).toHaveLength(3);
    expect(asked).toContain('10.0.1.1');
    answers.resolve(undefined);
    await first;
    await Promise.allSettled(guesses);
    nowMs = 600_000;
    asked = [];
    answers = Promise.withResolvers();
    // Each has a place as a newcomer again.
    expect(await refusedOf(times(50, (at) => guess(`10.0.0.${at}`)))).toBe(0);
  });
});
