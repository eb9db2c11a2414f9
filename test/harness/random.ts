/** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The seed of this run: `TEST_SEED` to repeat one, else a new one. Say it in the test's name or message. */
export function newSeed(): number {
  return Number(process.env['TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
}
