import { goNumber } from './go-text.ts';
import { PathError } from './path-error.ts';

export type Node =
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
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'value'; readonly value: boolean | Literal }
  /** A word without a dot: a keyword of templates. */
  | { readonly kind: 'identifier'; readonly name: string };

/** Of a slice; `derived` when only the first index is named: `[2]`. */
interface Bound {
  readonly value: number | undefined;
  readonly derived?: boolean;
}

/** A number of the path: an int as a bigint, and a float as a number, even `5.0`. */
export class Literal {
  readonly number: bigint | number;

  constructor(number: bigint | number) {
    this.number = number;
  }
}

/**
 * The parts of a path, as client-go reads `{PATH}` (util/jsonpath/parser.go): one, and further ones where the path
 * itself ends it with `}` and begins another one with `{`.
 *
 * @throws PathError where client-go's parser has an error.
 */
export function parsePath(text: string): readonly (readonly Node[])[] {
  const parser = new Parser(`${text}}`);
  const parts = [parser.action()];
  while (parser.skipText()) parts.push(parser.action());
  return parts;
}

/** As `parseAction`: the first part. */
const nodesOf = (text: string): readonly Node[] => parsePath(text)[0] ?? [];

class Parser {
  readonly #input: string;
  #at = 0;

  constructor(input: string) {
    this.#input = input;
  }

  /** Reads up to the next `{`, and beyond it. @returns false at the end. */
  skipText(): boolean {
    const next = this.#input.indexOf('{', this.#at);
    this.#at = next + 1;
    return next !== -1;
  }

  #take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#input);
    if (found) this.#at = pattern.lastIndex;
    return found ?? undefined;
  }

  /** As `parseInsideAction`: up to its `}`, and beyond it. */
  action(): readonly Node[] {
    const nodes: Node[] = [];
    let found: RegExpExecArray | undefined;
    while (!this.#take(/\}/y)) {
      if (this.#take(/[ @$]/y)) continue;
      if (this.#take(/\[\?\(/y)) nodes.push(this.#filter());
      else if (this.#take(/\.\./y)) {
        if (nodes.at(-1)?.kind === 'recursive') throw new PathError('two recursive descents');
        nodes.push({ kind: 'recursive' });
        if (this.#isAt(/[\p{L}\p{Nd}_]/uy)) nodes.push(this.#field());
      } else if ((found = this.#take(/\[([^\]\n]*)\]/y))) nodes.push(...arrayOf(found[1] ?? ''));
      else if (this.#take(/\./y)) nodes.push(this.#field());
      else if ((found = this.#take(/(["'])((?:(?!\1)[^\n]|(?<=\\)\1)*)(?<!\\)\1/y))) {
        nodes.push({ kind: 'text', text: unquoted(found[2] ?? '', found[1] ?? '') });
      } else if ((found = this.#take(/(?:[+-]|(?=\p{Nd}))[\p{Nd}.]*/uy))) {
        nodes.push({ kind: 'value', value: numberOf(found[0]) });
      } else if (this.#isAt(/[\p{L}_]/uy)) {
        const name = this.#take(/[^ \t\r\n.,[\]$@{}]*/y)?.[0] ?? '';
        const isBool = name === 'true' || name === 'false';
        nodes.push(isBool ? { kind: 'value', value: name === 'true' } : { kind: 'identifier', name });
      } else throw new PathError('no path');
    }
    return nodes;
  }

  #isAt(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    return pattern.test(this.#input);
  }

  #field(): Node {
    const name = this.#take(/(?:\\[^]|[^ \t\r\n.,[\]$@{}\\])*/y)?.[0] ?? '';
    return name === '*' ? { kind: 'wildcard' } : { kind: 'field', name: name.replaceAll('\\', '') };
  }

  /**
   * Reads up to the first `)` outside of the quoted text, and the `]` behind it. A filter has one quoted text at most.
   */
  #filter(): Node {
    const input = this.#input;
    const from = this.#at;
    let quote: string | undefined;
    let isClosed = false;
    for (; ; this.#at += 1) {
      const char = input[this.#at];
      if (char === undefined || char === '\n') throw new PathError('an unterminated filter');
      if (char === ')' && (quote !== undefined) === isClosed) break;
      if (char !== '"' && char !== "'") continue;
      if (quote === undefined) quote = char;
      else if (char === quote && input[this.#at - 1] !== '\\') isClosed = true;
    }
    const text = input.slice(from, this.#at);
    if (!this.#take(/\)\]/y)) throw new PathError('an unclosed filter');
    const [, left, operator = 'exists', right = ''] = /^([^!<>=]+)([!<>=]+)([^\n]+)$/.exec(text) ?? [];
    return { kind: 'filter', left: nodesOf(left ?? text), operator, right: nodesOf(right) };
  }
}

/** As `parseArray`, of the text between brackets. */
function arrayOf(inner: string): readonly Node[] {
  const text = inner === '*' ? ':' : inner;
  const parts = text.split(',');
  if (parts.length > 1) {
    return [{ kind: 'union', paths: parts.map((part) => nodesOf(`[${part.replaceAll(/^ +|(?<! ) +$/g, '')}]`)) }];
  }
  const quoted = /^'([^']*)'$/.exec(text);
  if (quoted) return nodesOf(`.${quoted[1]}`);
  const found = /^(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?$/.exec(text);
  if (!found) throw new PathError('no index');
  const [first, second, third] = [1, 2, 3].map((at) => found[at] ?? '');
  const boundOf = (digits = ''): number | undefined => {
    if (digits === '' || digits === ':') return undefined;
    const whole = wholeOf(digits.replace(/^:/, ''));
    if (whole === undefined) throw new PathError('no index');
    return Number(whole);
  };
  const from = { value: boundOf(first) };
  const to = second ? { value: boundOf(second) } : { value: (from.value ?? 0) + 1, derived: true };
  return [{ kind: 'slice', from, to, step: { value: boundOf(third) } }];
}

/** As `strconv.Atoi`: of 64 bits. */
function wholeOf(text: string): bigint | undefined {
  const [, sign = '', digits] = /^([+-]?)0*([0-9]{1,19})$/.exec(text) ?? [];
  if (digits === undefined) return undefined;
  const number = goNumber(BigInt(`${sign === '-' ? '-' : ''}${digits}`));
  return typeof number === 'bigint' ? number : undefined;
}

/** As `strconv.Atoi`, and else as `strconv.ParseFloat`. */
function numberOf(text: string): Literal {
  const whole = wholeOf(text);
  if (whole !== undefined) return new Literal(whole);
  const number = /[0-9]/.test(text) ? Number(text) : NaN;
  if (!Number.isFinite(number)) throw new PathError('no number');
  return new Literal(number);
}

/** As `UnquoteExtend`, of the text between quotes: the escapes of `strconv.UnquoteChar`. */
function unquoted(text: string, quote: string): string {
  if (!text.includes('\\') && !text.includes(quote)) return text;
  const bytes: Buffer[] = [];
  const pattern = /\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtv\\"']))|([^\\])/uy;
  while (pattern.lastIndex < text.length) {
    const [, hex, octal, short, long, escape, plain] = pattern.exec(text) ?? [];
    const byte = hex === undefined ? Number.parseInt(octal ?? '', 8) : Number.parseInt(hex, 16);
    const code = Number.parseInt(short ?? long ?? '', 16);
    if (byte <= 0xff) bytes.push(Buffer.of(byte));
    else if (code <= 0x10_ff_ff && (code < 0xd8_00 || code > 0xdf_ff))
      bytes.push(Buffer.from(String.fromCodePoint(code)));
    else if (escape !== undefined && (escape === quote || !'"\''.includes(escape))) {
      bytes.push(Buffer.from(ESCAPES[escape] ?? escape));
    } else if (plain !== undefined && plain !== quote) bytes.push(Buffer.from(plain));
    else throw new PathError('no text');
  }
  return Buffer.concat(bytes).toString();
}
const ESCAPES: Readonly<Record<string, string>> = {
  a: '\u0007',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};
