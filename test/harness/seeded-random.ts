import { newSeed, randomOf } from './random.ts';

/** Random numbers that can be had again. */
export interface Random {
  /** From `low`, up to `high` and not including it. */
  between(low: number, high: number): number;
  /** A whole number from 0, below `below`. */
  below(below: number): number;
}

/** Random moments and choices of one test, from a seed that is printed: `TEST_SEED` makes the same ones again. */
export function seededRandom(test: string): Random {
  const seed = newSeed();
  process.stdout.write(`${test}: TEST_SEED=${seed}\n`);
  const next = randomOf(seed);
  return {
    between: (low, high) => low + next() * (high - low),
    below: (below) => Math.floor(next() * below),
  };
}
