import { acrossCopies } from './across-copies.ts';
import { matchesOperator, type LabelSelector } from './label-selector.ts';
import { isDnsSubdomain, LABEL_NAME, ownValue } from './names.ts';

/**
 * One condition of a label selector: apimachinery's `labels.Requirement`. `=` is `In` of one value, `!=` is `NotIn` of
 * one.
 */
export interface LabelRequirement {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist' | 'Gt' | 'Lt';
  readonly values: readonly string[];
}

/** A selector that cannot be understood. The message is the apiserver's for the same text. */
export class SelectorError extends Error {
  static {
    acrossCopies(this, 'SelectorError');
  }

  override readonly name = 'SelectorError';
}

/** The conditions of a selector in either form; all must be met. @throws SelectorError */
export function requirementsOf(selector: LabelSelector | string): LabelRequirement[] {
  if (typeof selector === 'string') return parseLabelSelector(selector);
  const labels = Object.entries(selector.matchLabels ?? {}).map(([key, value]) => checked(key, 'In', [value]));
  const expressions = (selector.matchExpressions ?? []).map((each) =>
    checked(each.key, each.operator, each.values ?? []),
  );
  return [...labels, ...expressions];
}

/** Whether labels fulfil all conditions. */
export function fulfils(
  requirements: readonly LabelRequirement[],
  labels: Readonly<Record<string, string>> = {},
): boolean {
  return requirements.every(({ key, operator, values }) => {
    const value = ownValue(labels, key);
    switch (operator) {
      case 'Gt':
        return value !== undefined && isInteger(value) && BigInt(value) > BigInt(values[0] ?? '');
      case 'Lt':
        return value !== undefined && isInteger(value) && BigInt(value) < BigInt(values[0] ?? '');
      default:
        return matchesOperator(operator, values, value);
    }
  });
}

/** The text of a selector, as `labelSelector=` has it: `parseLabelSelector` gives the same conditions again. */
export function formatLabelSelector(requirements: readonly LabelRequirement[]): string {
  const texts = requirements.map(({ key, operator, values }) => {
    const [value = ''] = values;
    const set = `(${values.toSorted().join(',')})`;
    switch (operator) {
      case 'In':
        return values.length === 1 ? `${key}=${value}` : `${key} in ${set}`;
      case 'NotIn':
        return values.length === 1 ? `${key}!=${value}` : `${key} notin ${set}`;
      case 'Exists':
        return key;
      case 'DoesNotExist':
        return `!${key}`;
      case 'Gt':
        return `${key}>${value}`;
      case 'Lt':
        return `${key}<${value}`;
    }
  });
  return texts.join(',');
}

/**
 * Reads the text form: `app=web,tier!=test,env in (a,b),!old,size>3`. Grammar and error messages are those of
 * apimachinery's `labels.Parse` (pkg/labels/selector.go). @throws SelectorError
 */
export function parseLabelSelector(text: string): LabelRequirement[] {
  const tokens = tokensOf(text);
  let at = 0;
  const peek = (): string => tokens[at] ?? '';
  const take = (): string => tokens[at++] ?? '';
  const requirements: LabelRequirement[] = [];
  if (tokens.length === 0) return requirements;
  if (isSymbol(peek()) && peek() !== '!') {
    throw new SelectorError(`found '${peek()}', expected: !, identifier, or 'end of string'`);
  }
  for (;;) {
    requirements.push(requirement());
    if (at >= tokens.length) return requirements;
    const found = take();
    if (found !== ',') throw new SelectorError(`found '${found}', expected: ',' or 'end of string'`);
    if (at >= tokens.length || (isSymbol(peek()) && peek() !== '!')) {
      throw new SelectorError(`found '${peek()}', expected: identifier after ','`);
    }
  }

  function requirement(): LabelRequirement {
    const absent = peek() === '!';
    if (absent) take();
    if (at >= tokens.length || isSymbol(peek())) throw wrong(`found '${take()}', expected: identifier`);
    const key = take();
    const reason = keyError(key);
    if (reason) throw wrong(`<nil>: Invalid value: ${JSON.stringify(key)}: ${reason}`);
    if (absent) return checked(key, 'DoesNotExist', []);
    if (at >= tokens.length || peek() === ',') return checked(key, 'Exists', []);
    const operator = take();
    switch (operator) {
      case '=':
      case '==':
        return checked(key, 'In', [exactValue()]);
      case '!=':
        return checked(key, 'NotIn', [exactValue()]);
      case '>':
        return checked(key, 'Gt', [exactValue()]);
      case '<':
        return checked(key, 'Lt', [exactValue()]);
      case 'in':
        return checked(key, 'In', values());
      case 'notin':
        return checked(key, 'NotIn', values());
      default:
        throw wrong(`found '${operator}', expected: in, notin, =, ==, !=, gt, lt`);
    }
  }

  function exactValue(): string {
    if (at >= tokens.length || peek() === ',') return '';
    if (isSymbol(peek())) throw wrong(`found '${peek()}', expected: identifier`);
    return take();
  }

  /** `(a,,b)`: an empty place is the empty value. */
  function values(): string[] {
    if (peek() !== '(') throw wrong(`found '${peek()}' expected: '('`);
    take();
    const found = new Set<string>();
    let value = '';
    for (;;) {
      if (at >= tokens.length) {
        throw wrong(`found '', expected: ${value === '' ? `',', ')' or identifier` : `',' or ')'`}`);
      }
      const token = take();
      if (token === ',' || token === ')') {
        found.add(value);
        value = '';
        if (token === ')') return [...found];
      } else if (value !== '' || isSymbol(token)) throw wrong(`found '${token}', expected: ',' or ')'`);
      else value = token;
    }
  }
}

const SYMBOL = /^(?:!=|==|[=!(),<>])$/;
const isSymbol = (token: string): boolean => SYMBOL.test(token);

/** As `strconv.ParseInt` of 64 bits. */
function isInteger(text: string): boolean {
  return /^[+-]?[0-9]+$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text);
}

/** White space is that of apimachinery's `isWhitespace`: any other, such as a no-break space, is a part of a word. */
function tokensOf(text: string): string[] {
  return text.match(/!=|==|[=!(),<>]|[^=!(),<> \t\r\n]+/g) ?? [];
}

function wrong(message: string): SelectorError {
  return new SelectorError(`unable to parse requirement: ${message}`);
}

function checked(key: string, operator: LabelRequirement['operator'], values: readonly string[]): LabelRequirement {
  const ofKey = keyError(key);
  if (ofKey) throw wrong(`key: Invalid value: ${JSON.stringify(key)}: ${ofKey}`);
  if ((operator === 'In' || operator === 'NotIn') && values.length === 0) {
    throw wrong("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty");
  }
  if ((operator === 'Exists' || operator === 'DoesNotExist') && values.length > 0) {
    throw wrong('values: Invalid value: values set must be empty for exists and does not exist');
  }
  values.forEach((value, index) => {
    if ((operator === 'Gt' || operator === 'Lt') && !isInteger(value)) {
      throw wrong(
        `values[${index}]: Invalid value: ${JSON.stringify(value)}: for 'Gt', 'Lt' operators, the value must be an integer`,
      );
    }
    const reason = valueError(value);
    if (reason) throw wrong(`values[${index}][${key}]: Invalid value: ${JSON.stringify(value)}: ${reason}`);
  });
  return { key, operator, values };
}

/** Shared by several messages, because each function carries them in its bundle. */
const WORDS =
  "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const REGEX = "regex used for validation is '";

function keyError(key: string): string | undefined {
  const parts = key.split('/');
  const name = parts.at(-1) ?? '';
  if (parts.length > 2) {
    return `a qualified name must ${WORDS}, with an optional DNS subdomain prefix and '/'`;
  }
  if (parts.length === 2 && !isDnsSubdomain(parts[0])) {
    return 'prefix part must be a lowercase RFC 1123 subdomain';
  }
  if (name === '') return 'name part must be non-empty';
  if (name.length > 63) return 'name part must be no more than 63 bytes';
  if (!LABEL_NAME.test(name)) {
    return `name part must ${WORDS} (e.g. 'MyName',  or 'my.name',  or '123-abc', ${REGEX}${LABEL_NAME.source.slice(1, -1)}')`;
  }
  return undefined;
}

function valueError(value: string): string | undefined {
  if (value.length > 63) return 'must be no more than 63 bytes';
  if (value !== '' && !LABEL_NAME.test(value)) {
    return `a valid label must be an empty string or ${WORDS} (e.g. 'MyValue',  or 'my_value',  or '12345', ${REGEX}(${LABEL_NAME.source.slice(1, -1)})?')`;
  }
  return undefined;
}
