import type { Random } from './seeded-random.ts';

/** JSON with its numbers as they are written: `{"#": "9007199254740993"}`. Past the codec that is tested. */
export function exact(text: string): unknown {
  const reviver = (_: string, value: unknown, { source }: { source?: string }): unknown =>
    typeof value === 'number' ? { '#': source } : value;
  return JSON.parse(text, reviver as (name: string, value: unknown) => unknown);
}

/** Text of an object whose values are numbers of all sizes, in lists and objects of some levels. */
export function randomNumbers(random: Random): string {
  const object = (levels: number): string => {
    const fields = Array.from({ length: 1 + random.below(4) }, (_, at) => `"f${at}":${value(levels)}`);
    return `{${fields.join()}}`;
  };
  const value = (levels: number): string => {
    const kind = random.below(levels > 0 ? 10 : 6);
    if (kind < 4) return integer(random);
    if (kind === 4) return float(random);
    // What looks like a number within a text.
    if (kind === 5) return JSON.stringify(`a, ${integer(random)} :"${integer(random)}"\\`);
    if (kind < 8) return object(levels - 1);
    return `[${Array.from({ length: random.below(4) }, () => value(levels - 1)).join()}]`;
  };
  return object(3);
}

const MAX_INT64 = 2n ** 63n - 1n;
const EDGES = [0n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, MAX_INT64 - 1n, MAX_INT64];

/** Of 64 bits, each number of bits as often as another. */
function integer(random: Random): string {
  const sign = random.below(2) === 0 ? 1n : -1n;
  if (random.below(4) === 0) return String(sign * (EDGES[random.below(EDGES.length)] ?? 0n));
  let bits = 0n;
  for (let at = 0; at < 64; at += 16) bits = (bits << 16n) | BigInt(random.below(65_536));
  return String(sign * (bits >> BigInt(1 + random.below(64))));
}

/** As JavaScript and the apiserver both write it. */
const float = (random: Random): string => String((random.between(-1, 1) || 0.5) * 10 ** (random.below(50) - 25));
