import { goNumber } from './go-text.ts';
import type { Steps } from './steps.ts';

/**
 * Kubernetes' JSONPath (client-go, util/jsonpath) as columns of custom resources use it: one path, and its results.
 * Written after that package rather than taken from a library: other dialects differ in escaped dots, quoted names,
 * comparisons and indexes beyond the end.
 */

type Node =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'slice'; readonly from: Bound; readonly to: Bound; readonly step: Bound }
  | { readonly kind: 'wildcard' }
  | { readonly kind: 'recursive' }
  | { readonly kind: 'union'; readonly paths: readonly (readonly Node[])[] }
  | {
      readonly kind: 'filter';
      readonly left: readonly Node[];
      readonly operator: string;
      readonly right: readonly Node[];
    }
  | { readonly kind: 'value'; readonly value: string | boolean | Literal };

/** Of a slice; `derived` when only the first index is named: `[2]`. */
interface Bound {
  readonly value: number | undefined;
  readonly derived?: boolean;
}

/** A number of the path: an int as a bigint, and a float as a number, even `5.0`. */
class Literal {
  readonly number: bigint | number;

  constructor(number: bigint | number) {
    this.number = number;
  }
}

class PathError extends Error {
  /** The values that client-go returns along with the error. A filter for existence ignores the error. */
  readonly results: readonly unknown[];

  constructor(message: string, results: readonly unknown[] = []) {
    super(message);
    this.results = results;
  }
}

export class JsonPath {
  readonly #nodes: readonly Node[];

  private constructor(nodes: readonly Node[]) {
    this.#nodes = nodes;
  }

  /** @returns undefined for text that is no path. */
  static parse(text: string): JsonPath | undefined {
    try {
      return new JsonPath(parseNodes(text));
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
      return walkAll([object], this.#nodes, steps).map((each) => (each instanceof Literal ? each.number : each));
    } catch (error) {
      if (error instanceof PathError) return [];
      throw error;
    }
  }
}

/** As `parseInsideAction`, up to the end of the text or a closing brace. */
function parseNodes(text: string): Node[] {
  const nodes: Node[] = [];
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found ?? undefined;
  };
  const field = (name: string): Node =>
    name === '*' ? { kind: 'wildcard' } : { kind: 'field', name: unescaped(name) };
  while (at < text.length && text[at] !== '}') {
    let found: RegExpExecArray | undefined;
    if (take(/[ @$]/y)) continue;
    if (text.startsWith('[?(', at)) {
      const end = endOfFilter(text, at + 3);
      nodes.push(parseFilter(text.slice(at + 3, end)));
      at = end + 2;
    } else if (take(/\.\./y)) {
      if (nodes.at(-1)?.kind === 'recursive') throw new PathError('two recursive descents');
      nodes.push({ kind: 'recursive' });
      if ((found = take(/(?=[\p{L}\p{Nd}_])((?:\\[^]|[^\s.,[\]$@{}\\])*)/uy))) nodes.push(field(found[1] ?? ''));
    } else if ((found = take(/\[([^\]\n]*)\]/y))) nodes.push(...parseArray(found[1] ?? ''));
    else if ((found = take(/(["'])((?:\\[^\n]|(?!\1)[^\\\n])*)\1/y)))
      nodes.push({ kind: 'value', value: unquoted(found[2] ?? '') });
    else if ((found = take(/\.((?:\\[^]|[^\s.,[\]$@{}\\])*)/y))) nodes.push(field(found[1] ?? ''));
    else if ((found = take(/[+-]?[0-9.]+/y))) nodes.push({ kind: 'value', value: parseNumber(found[0]) });
    else if ((found = take(/(true|false)(?=[\s.,[\]$@{}]|$)/y)))
      nodes.push({ kind: 'value', value: found[1] === 'true' });
    else throw new PathError('no path');
  }
  return nodes;
}

const unescaped = (name: string): string => name.replaceAll('\\', '');

function unquoted(text: string): string {
  return text.replaceAll(/\\(?:u([0-9a-fA-F]{4})|([^]))/g, (_, code: string | undefined, letter: string) =>
    code === undefined ? (ESCAPES[letter] ?? letter) : String.fromCharCode(Number.parseInt(code, 16)),
  );
}
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', v: '\v', a: '\u0007' };

/** As `strconv.Atoi`, and beyond its range, or with a point, as `strconv.ParseFloat`. */
function parseNumber(text: string): Literal {
  const [, sign = '', digits] = /^([+-]?)0*([0-9]{1,19})$/.exec(text) ?? [];
  if (digits !== undefined) return new Literal(goNumber(BigInt(sign + digits)));
  const number = Number(text);
  if (!Number.isFinite(number)) throw new PathError('no number');
  return new Literal(number);
}

/** Where the `)` of a filter is: the first one outside of a quoted text. */
function endOfFilter(text: string, from: number): number {
  let quote: string | undefined;
  let isClosed = false;
  for (let at = from; at < text.length && text[at] !== '\n'; at += 1) {
    const char = text[at];
    if (char === ')' && (quote === undefined || isClosed)) {
      if (text[at + 1] !== ']') break;
      return at;
    }
    if (char !== '"' && char !== "'") continue;
    if (quote === undefined) quote = char;
    else if (char === quote && text[at - 1] !== '\\') isClosed = true;
  }
  throw new PathError('an unterminated filter');
}

function parseFilter(text: string): Node {
  const [, left, operator = 'exists', right = ''] = /^([^!<>=]+)([!<>=]+)(.+?)$/.exec(text) ?? [];
  return { kind: 'filter', left: parseNodes(left ?? text), operator, right: parseNodes(right) };
}

/** Parses the text between brackets. */
function parseArray(inner: string): readonly Node[] {
  const text = inner === '*' ? ':' : inner;
  const parts = text.split(',');
  if (parts.length > 1) return [{ kind: 'union', paths: parts.map((part) => parseArray(part.trim())) }];
  const quoted = /^'([^']*)'$/.exec(text);
  if (quoted) return parseNodes(`.${quoted[1]}`);
  const found = /^(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?$/.exec(text);
  if (!found) throw new PathError('no index');
  const [first, second, third] = [1, 2, 3].map((at) => found[at] ?? '');
  const numberOf = (digits: string | undefined): number | undefined => {
    if (digits === undefined || digits === '' || digits === ':') return undefined;
    const value = Number(digits.replace(/^:/, ''));
    if (Number.isNaN(value)) throw new PathError('no index');
    return value;
  };
  const from = { value: numberOf(first) };
  const to = second ? { value: numberOf(second) } : { value: (from.value ?? 0) + 1, derived: true };
  return [{ kind: 'slice', from, to, step: { value: numberOf(third) } }];
}

function walkAll(values: readonly unknown[], nodes: readonly Node[], steps: Steps): readonly unknown[] {
  return nodes.reduce((found, node) => walk(found, node, steps), values);
}

/** Each value that is looked at is a step, and so is each child of it that is listed. */
function walk(values: readonly unknown[], node: Node, steps: Steps): readonly unknown[] {
  steps.take(1 + values.length);
  const present = (): readonly unknown[] => values.filter((value) => value !== null && value !== undefined);
  switch (node.kind) {
    case 'value':
      return values.map(() => node.value);
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
