import { goNumber } from './go-text.ts';
import { Literal, type Node, parsePath } from './json-path-parser.ts';
import { PathError } from './path-error.ts';
import type { Steps } from './steps.ts';

/**
 * Kubernetes' JSONPath (client-go, util/jsonpath) as columns of custom resources use it: one path, and its results.
 * Written after that package rather than taken from a library: other dialects differ in escaped dots, quoted names,
 * comparisons and indexes beyond the end.
 */
export class JsonPath {
  readonly #parts: readonly (readonly Node[])[];

  private constructor(parts: readonly (readonly Node[])[]) {
    this.#parts = parts;
  }

  /** @returns undefined for text that is no path. */
  static parse(text: string): JsonPath | undefined {
    try {
      return new JsonPath(parsePath(text));
    } catch (error) {
      if (error instanceof PathError) return undefined;
      throw error;
    }
  }

  /**
   * All results, in order; none where the path leads to nothing or does not fit the object.
   * @throws TooManyStepsError
   */
  find(object: unknown, steps: Steps): readonly unknown[] {
    try {
      // The results of the first part; an error of each counts.
      const [results = []] = this.#parts.map((nodes) => walkAll([object], nodes, steps));
      return results.map((each) => (each instanceof Literal ? each.number : each));
    } catch (error) {
      if (error instanceof PathError) return [];
      throw error;
    }
  }
}

function walkAll(values: readonly unknown[], nodes: readonly Node[], steps: Steps): readonly unknown[] {
  return nodes.reduce((found, node) => walk(found, node, steps), values);
}

/** Each value that is looked at is a step, and so is each child of it that is listed. */
function walk(values: readonly unknown[], node: Node, steps: Steps): readonly unknown[] {
  steps.take(1 + values.length);
  const present = (): readonly unknown[] => values.filter((value) => value !== null && value !== undefined);
  switch (node.kind) {
    case 'text':
      return [node.text];
    case 'value':
      return values.map(() => node.value);
    case 'identifier':
      // `range` and `end` work in templates alone.
      throw new PathError('a keyword', node.name === 'range' || node.name === 'end' ? [] : values);
    case 'field':
      return present().flatMap((value) => {
        const isMap = typeof value === 'object' && !Array.isArray(value);
        return isMap && Object.hasOwn(value as object, node.name)
          ? [(value as Record<string, unknown>)[node.name]]
          : [];
      });
    case 'slice':
      return slicesOf(values, node, steps);
    case 'wildcard':
      return present().flatMap((value) => childrenOf(value, steps));
    case 'recursive':
      return present().flatMap((value) => descendantsOf(value, steps));
    case 'union':
      return failingWith(values, () => node.paths.flatMap((path) => walkAll(values, path, steps)));
    case 'filter':
      return filtered(values, node, steps);
  }
}

/** Runs work whose error has these results. */
function failingWith<T>(results: readonly unknown[], work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof PathError ? new PathError(error.message, results) : error;
  }
}

/** As `evalArray`, which ends at the first empty slice, whatever lists follow. */
function slicesOf(values: readonly unknown[], node: Node & { kind: 'slice' }, steps: Steps): readonly unknown[] {
  const slices: (readonly unknown[])[] = [];
  for (const value of values) {
    if (value === null || value === undefined) continue;
    const slice = failingWith(values, () => sliceOf(value, node, steps));
    if (slice.length === 0) break;
    slices.push(slice);
  }
  return slices.flat();
}

function sliceOf(value: unknown, { from, to, step }: Node & { kind: 'slice' }, steps: Steps): readonly unknown[] {
  if (!Array.isArray(value)) throw new PathError('an index of no list');
  const { length } = value;
  const wrapped = (index: number): number => (index < 0 ? index + length : index);
  const start = wrapped(from.value ?? 0);
  const end = to.value === undefined ? length : to.derived && to.value === 0 ? length : wrapped(to.value);
  if (start === end) return [];
  if (start < 0 || start >= length || end < 0 || end > length || start > end) throw new PathError('out of bounds');
  if (step.value !== undefined && step.value <= 0) throw new PathError('a step that is not above 0');
  steps.take(end - start);
  return value.slice(start, end).filter((_, at) => at % (step.value ?? 1) === 0) as unknown[];
}

function childrenOf(value: unknown, steps: Steps): readonly unknown[] {
  if (typeof value === 'string') {
    steps.take(value.length);
    return [...Buffer.from(value)];
  }
  if (typeof value !== 'object' || value === null) return [];
  if (!Array.isArray(value)) return steps.keysOf(value).map((key) => (value as Record<string, unknown>)[key]);
  steps.take(value.length);
  return value;
}

/** A loop, not recursion: an object may have ten thousand levels. */
function descendantsOf(value: unknown, steps: Steps): readonly unknown[] {
  const found: unknown[] = [];
  const left = [value];
  while (left.length > 0) {
    const each = left.pop();
    const children = typeof each === 'string' ? [] : childrenOf(each, steps);
    if (children.length === 0) continue;
    found.push(each);
    left.push(...children.toReversed());
  }
  return found;
}

/** As `evalFilter`. */
function filtered(values: readonly unknown[], node: Node & { kind: 'filter' }, steps: Steps): readonly unknown[] {
  const results: unknown[] = [];
  for (const value of values) {
    if (!Array.isArray(value)) throw new PathError('a filter of no list', values);
    for (const each of value as unknown[]) {
      steps.take(1);
      const isIn =
        node.operator === 'exists' ? exists(each, node.left, steps) : passes(each, node, { values, results, steps });
      if (isIn) results.push(each);
    }
  }
  return results;
}

/** An error has a stack, which takes longer to make than to visit a value. */
const ERROR_STEPS = 10;

function exists(each: unknown, path: readonly Node[], steps: Steps): boolean {
  try {
    return walkAll([each], path, steps).length > 0;
  } catch (error) {
    if (!(error instanceof PathError)) throw error;
    steps.take(ERROR_STEPS);
    return error.results.length > 0;
  }
}

interface Filtering {
  readonly values: readonly unknown[];
  /** The items that have passed. */
  readonly results: readonly unknown[];
  readonly steps: Steps;
}

function passes(
  each: unknown,
  { left, operator, right }: Node & { kind: 'filter' },
  { values, results, steps }: Filtering,
): boolean {
  const onlyAt = (path: readonly Node[]): readonly unknown[] =>
    failingWith(values, () => {
      const found = walkAll([each], path, steps);
      if (found.length > 1) throw new PathError('a comparison of several');
      return found;
    });
  const lefts = onlyAt(left);
  if (lefts.length === 0) return false;
  const rights = onlyAt(right);
  if (rights.length === 0) return false;
  const [first, second] = [lefts[0], rights[0]];
  // Long texts that begin alike take long to compare.
  if (typeof first === 'string' && typeof second === 'string') {
    steps.take(Math.ceil(Math.min(first.length, second.length) / CHARACTERS_A_STEP));
  }
  return failingWith(results, () => compared(comparable(first), comparable(second), operator));
}

/** Of two texts that are compared. */
const CHARACTERS_A_STEP = 100;

type Comparable = {
  readonly type: 'bool' | 'int' | 'float' | 'string';
  readonly value: boolean | number | bigint | string;
};

/** Kinds of Go: only values of the same kind can be compared. */
function comparable(value: unknown): Comparable {
  if (typeof value === 'string') return { type: 'string', value };
  if (typeof value === 'boolean') return { type: 'bool', value };
  if (value instanceof Literal) return numeric(value.number);
  if (typeof value === 'number' || typeof value === 'bigint') return numeric(goNumber(value));
  throw new PathError('a comparison of a list or an object');
}

const numeric = (value: bigint | number): Comparable => ({ type: typeof value === 'bigint' ? 'int' : 'float', value });

function compared(left: Comparable, right: Comparable, operator: string): boolean {
  if (left.type !== right.type) throw new PathError('a comparison of two kinds');
  if (operator === '==') return left.value === right.value;
  if (operator === '!=') return left.value !== right.value;
  if (left.type === 'bool') throw new PathError('an order of booleans');
  if (operator === '<') return left.value < right.value;
  if (operator === '<=') return left.value <= right.value;
  if (operator === '>') return left.value > right.value;
  if (operator === '>=') return left.value >= right.value;
  throw new PathError('no operator');
}
