import type { LogFields } from './logger.ts';

/**
 * Characters that a terminal or a page obeys rather than shows: controls, marks of direction, other invisible
 * characters and line separators. Joiners are excepted, because letters need them.
 */
const OBEYED = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const ONE = /* @__PURE__ */ new RegExp(`${OBEYED.source}|\\p{Cs}`, 'gu');
const SEVERAL = /* @__PURE__ */ new RegExp(`(${OBEYED.source})+`, 'gu');

/** Whether a terminal or a page shows all of the text and obeys none of it. */
export function isPrintable(text: string): boolean {
  return !OBEYED.test(text);
}

/**
 * Makes foreign text, in one line or several, safe for a terminal or a page: characters that would be obeyed rather
 * than shown are written as JSON writes them (`\u202e`), so JSON keeps its meaning. Line feeds and tabs stay.
 */
export function printable(text: string): string {
  return text.replaceAll(ONE, (character) => {
    if (character === '\n' || character === '\t') return character;
    const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
  });
}

/**
 * Foreign text (a function's message, a name in a request) as one line of at most `max` characters, for logs,
 * conditions and answers. The author of a text decides neither how long a line is nor how many there are.
 */
export function boundedText(text: string, max: number): string {
  const cut = text.length > max ? `${beginning(text, max - 1)}…` : text;
  return cut.replaceAll(SEVERAL, ' ');
}

/** The text's first characters, without half of a character at the end. */
function beginning(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, '');
}

/**
 * Foreign text, well formed, in at most `most` bytes of UTF-8 in JSON: a bound in characters would let a text take six
 * times as much. A text that is cut ends with `…`, if there is room for it.
 */
export function textWithin(text: string, most: number): string {
  let bytes = 0;
  // Where a text that is too long is cut.
  let cut = 0;
  for (let at = 0; at < text.length; at += 1) {
    bytes += bytesInJson(text.charCodeAt(at));
    if (bytes > most) return most < MARK_BYTES ? '' : `${beginning(text, cut).toWellFormed()}…`;
    if (bytes <= most - MARK_BYTES) cut = at + 1;
  }
  return text.toWellFormed();
}

/** Of `…` in UTF-8. */
const MARK_BYTES = 3;

/** At most: two units that are one character take 4 bytes, and count as 6. */
function bytesInJson(unit: number): number {
  if (unit < 0x20) return 6;
  if (unit === 0x22 || unit === 0x5c) return 2;
  return unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
}

/**
 * Bounds: characters of one string in a log line, characters of all of them, and entries shown of an object or a list.
 */
const STRING = 1024;
const LINE = 4096;
const ENTRIES = 50;
const DEPTH = 6;

/** The fields of a log line with all text bounded: a few KB at most, whatever the fields hold. */
export function boundedFields(fields: LogFields): LogFields {
  let left = LINE;
  const text = (value: string): string => {
    const bounded = boundedText(value, Math.max(1, Math.min(STRING, left)));
    left -= bounded.length;
    return bounded;
  };
  const bound = (value: unknown, depth: number): unknown => {
    if (typeof value === 'string') return text(value);
    if (typeof value !== 'object' || value === null || !isPlain(value)) return value;
    if (depth === 0) return '…';
    if (Array.isArray(value)) {
      const shown = value.slice(0, ENTRIES).map((each) => bound(each, depth - 1));
      return value.length > ENTRIES ? [...shown, '…'] : shown;
    }
    const shown = Object.entries(value).slice(0, ENTRIES);
    return Object.fromEntries(shown.map(([key, each]) => [text(key), bound(each, depth - 1)]));
  };
  return bound(fields, DEPTH) as LogFields;
}

/** Whether JSON writes the object's own fields. A Date, for instance, has a `toJSON`. */
function isPlain(value: object): boolean {
  return Array.isArray(value) || [Object.prototype, null].includes(Object.getPrototypeOf(value) as object | null);
}
