import type { Random } from './seeded-random.ts';

const FIELDS = ['type', 'status', 'n', 'on', 'reason', 'inner', 'inner.deep', 'nothing', 'name', 'size'];
const ROOTS = ['.status.conditions', '.spec.parts', '.spec.value', '.status', '.spec'];
const OPERATORS = ['==', '!=', '<', '<=', '>', '>='];
const LITERALS = [
  '"True"',
  "'Ready'",
  '""',
  '1',
  '2',
  '2.0',
  '1.5',
  '-1',
  'true',
  'false',
  '"with \\"quotes\\" and )"',
];

/**
 * A path of a printer column: steps by name, quoted names, indexes and slices with odd bounds, unions, filters over
 * values of each type, and descents. Only steps whose order Kubernetes defines: none visits all fields of a map.
 */
export function randomJsonPath(random: Random): string {
  const of = <T>(all: readonly T[]): T => all[random.below(all.length)] as T;
  const bound = (): string => of(['', '0', '1', '2', '3', '9', '-1', '-2', '-9']);
  const operand = (): string => (random.below(4) === 0 ? of(LITERALS) : `@.${of(FIELDS)}`);
  const filter = (): string => {
    if (random.below(5) === 0) return `[?(@.${of(FIELDS)})]`;
    return `[?(${operand()}${of(OPERATORS)}${random.below(5) === 0 ? operand() : of(LITERALS)})]`;
  };
  const steps: readonly (() => string)[] = [
    () => `.${of(FIELDS)}`,
    () => `['${of(FIELDS)}']`,
    () => `[${bound() || '0'}]`,
    () => `[${bound()}:${bound()}]`,
    () => `[${bound()}:${bound()}:${of(['', '1', '2', '3'])}]`,
    () => '[*]',
    () => `[${of(['0', '1'])},${of(['1', '2', '-1'])}]`,
    () => `['${of(FIELDS)}','${of(FIELDS)}']`,
    filter,
    filter,
    () => `..${of(['type', 'deep', 'name', 'n'])}`,
  ];
  const count = 1 + random.below(3);
  return of(ROOTS) + Array.from({ length: count }, () => of(steps)()).join('');
}
