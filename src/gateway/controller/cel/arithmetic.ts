import type { CelFunc } from '@bufbuild/cel';
import { celLibrary } from './library.ts';

const OPERATORS: Readonly<Record<string, (a: number, b: number) => number>> = {
  '_+_': (a, b) => a + b,
  '_-_': (a, b) => a - b,
  '_*_': (a, b) => a * b,
  '_/_': (a, b) => a / b,
};

/**
 * Arithmetic of an int and a double, which CEL does not have: JSON writes a whole double as an int, so
 * `object.spec.ratio * 2.0` must work for 5 as it works for 5.5. A division of two ints drops the fraction, as in the
 * apiserver's admission policies, which read no schema either.
 */
export function mixedArithmetic(): CelFunc[] {
  const { celFunc, CelScalar } = celLibrary();
  const { INT, DOUBLE } = CelScalar;
  return Object.entries(OPERATORS).flatMap(([name, apply]) => [
    celFunc(name, [INT, DOUBLE], DOUBLE, (a, b) => apply(Number(a), b)),
    celFunc(name, [DOUBLE, INT], DOUBLE, (a, b) => apply(a, Number(b))),
  ]);
}
