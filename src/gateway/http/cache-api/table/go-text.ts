import type { Steps } from './steps.ts';

/** How Go prints values of JSON, for cells that must equal the apiserver's up to a length that no terminal shows. */

/** The most bytes of a cell's text. A path can name the whole object, and a definition can have many such columns. */
export const CELL_BYTES = 4096;

/** As `fmt.Fprint` does: lists and objects as `json.Marshal` does. @throws TooManyStepsError */
export function goText(value: unknown, steps: Steps): string {
  if (value === null || value === undefined) return '<no value>';
  if (typeof value === 'string') return cutText(value);
  if (typeof value !== 'number' && typeof value !== 'bigint') return cutText(goJson(value, steps));
  const number = goNumber(value);
  return typeof number === 'bigint' ? String(number) : goFloat(number, 6);
}

/** The text, or the beginning of a longer one and `…`: together no more than `CELL_BYTES` in UTF-8. */
export function cutText(text: string): string {
  // UTF-8 has at most three bytes for each unit of a string.
  if (text.length * 3 <= CELL_BYTES) return text;
  const bytes = new Uint8Array(CELL_BYTES);
  if (UTF_8.encodeInto(text, bytes).read === text.length) return text;
  const { read } = UTF_8.encodeInto(text, bytes.subarray(0, CELL_BYTES - MORE.length));
  return `${text.slice(0, read)}…`;
}

const UTF_8 = new TextEncoder();
const MORE = UTF_8.encode('…');

/**
 * As `json.Marshal` does: keys in order, and no character that HTML would take for its own. A text longer than
 * `CELL_BYTES` ends anywhere behind them, so that the text of a large value is never built.
 */
function goJson(value: unknown, steps: Steps): string {
  let text = '';
  const levels: Level[] = [];
  const begin = (each: unknown): void => {
    if (Array.isArray(each)) {
      text += '[';
      levels.push({ items: each, at: 0 });
    } else if (typeof each === 'object' && each !== null) {
      const keys = sortedKeys(each, steps);
      text += '{';
      levels.push({ items: keys.map((key) => (each as Record<string, unknown>)[key]), keys, at: 0 });
    } else if (typeof each === 'number' || typeof each === 'bigint') {
      const number = goNumber(each);
      text += typeof number === 'bigint' ? String(number) : jsonFloat(number);
    } else text += typeof each === 'string' ? jsonString(each) : String(each);
  };
  begin(value);
  // A loop, not recursion: an object may have ten thousand levels.
  for (let level = levels.at(-1); level && text.length <= CELL_BYTES; level = levels.at(-1)) {
    const { items, keys, at } = level;
    if (at === items.length) {
      text += keys ? '}' : ']';
      levels.pop();
      continue;
    }
    level.at += 1;
    if (at > 0) text += ',';
    if (keys) text += `${jsonString(keys[at] ?? '')}:`;
    begin(items[at]);
  }
  return text;
}

/** A list or an object that is being written. */
interface Level {
  readonly items: readonly unknown[];
  /** Of an object. */
  readonly keys?: readonly string[];
  /** The next item. */
  at: number;
}

/** In the order of their bytes in UTF-8. */
function sortedKeys(value: object, steps: Steps): readonly string[] {
  const inBytes = steps.keysOf(value).map((key) => ({ key, bytes: Buffer.from(key).toString('latin1') }));
  return inBytes.toSorted((a, b) => (a.bytes < b.bytes ? -1 : 1)).map(({ key }) => key);
}

function jsonString(value: string): string {
  // A unit more than fits, so that half a character at the end is cut off.
  return JSON.stringify(value.slice(0, CELL_BYTES + 1)).replaceAll(
    /[<>&\u2028\u2029]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/**
 * A number as the apiserver's decoder reads it (sigs.k8s.io/json, PreserveInts): an int64, here a bigint, if it fits
 * and is written without fraction and exponent, and else a float64.
 */
export function goNumber(value: number | bigint): bigint | number {
  if (typeof value === 'number' && !Number.isInteger(value)) return value;
  const whole = BigInt(value);
  return BigInt.asIntN(64, whole) === whole ? whole : Number(value);
}

/** `strconv.FormatFloat(value, 'g', -1, 64)`: with an exponent below -4, and from `most` on. */
function goFloat(value: number, most: number): string {
  const [mantissa = '', exponent = '0'] = value.toExponential().split('e');
  const power = Number(exponent);
  if (power >= -4 && power < most) return plain(value);
  return `${mantissa}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

/** As encoding/json: with an exponent below -6 and from 21 on, without a zero before its digits. */
function jsonFloat(value: number): string {
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-6 && size < 1e21)) return plain(value);
  return goFloat(value, -Infinity).replace(/e-0/, 'e-');
}

/** Without an exponent. */
function plain(value: number): string {
  const text = String(value);
  if (!text.includes('e')) return text;
  const [mantissa = '', exponent = '0'] = text.split('e');
  const digits = mantissa.replaceAll(/^-|[.]/g, '');
  const sign = value < 0 ? '-' : '';
  const power = Number(exponent);
  return power < 0 ? `${sign}0.${'0'.repeat(-power - 1)}${digits}` : `${sign}${digits.padEnd(power + 1, '0')}`;
}
