import type { CelFunc } from '@bufbuild/cel';
import { celLibrary } from './library.ts';

/** A text, as far as the search reads it. */
type Text = Pick<string, 'length' | 'charCodeAt'>;

/** The native search compares each character of the text with as many of the needle as this at most. */
const SHORT_NEEDLE = 32;
/** Longer than any 64-bit integer that people write. */
const MAX_DIGITS = 64;
/** The longest text that an expression makes, which is longer than an object of the apiserver. Functions copy texts. */
const MAX_JOINED = 4 * 1024 * 1024;
/** Of all texts and bytes that one evaluation makes: a list may hold them until its end. */
const MAX_MADE = 4 * MAX_JOINED;
let made = 0;
const encoder = new TextEncoder();

/** An evaluation begins: it has made no texts yet. */
export function beginEvaluation(): void {
  made = 0;
}

/**
 * Standard functions of CEL that replace the library's. The library's own call native code that takes more than linear
 * time or memory for some texts, and no watchdog can interrupt native code.
 */
export function linearFunctions(): CelFunc[] {
  const { celFunc, celMethod, celUint, CelScalar } = celLibrary();
  const { BOOL, BYTES, INT, STRING, UINT } = CelScalar;
  return [
    celMethod('contains', STRING, [STRING], BOOL, function (needle) {
      return needle.length <= SHORT_NEEDLE ? this.includes(needle) : containsLong(this, needle);
    }),
    celFunc('int', [STRING], INT, (text) => integerOf(text, (value) => BigInt.asIntN(64, value))),
    celFunc('uint', [STRING], UINT, (text) => celUint(integerOf(text, (value) => BigInt.asUintN(64, value)))),
    celFunc('size', [STRING], INT, characters),
    celMethod('size', STRING, [], INT, function () {
      return characters(this);
    }),
    celFunc('bytes', [STRING], BYTES, (text) => {
      countMade(text.length);
      return encoder.encode(text);
    }),
    celFunc('_+_', [STRING, STRING], STRING, (a, b) => {
      countMade(a.length + b.length);
      return a + b;
    }),
    celFunc('_+_', [BYTES, BYTES], BYTES, (a, b) => {
      countMade(a.length + b.length);
      const joined = new Uint8Array(a.length + b.length);
      joined.set(a);
      joined.set(b, a.length);
      return joined;
    }),
  ];
}

/** Searches by the algorithm of Knuth, Morris and Pratt, which reads no character of the text twice. */
export function containsLong(text: Text, needle: Text): boolean {
  if (needle.length > text.length) return false;
  if (needle.length === 0) return true;
  /** For each part of the needle from its start: how long the longest start is that the part also ends with. */
  const borders = new Int32Array(needle.length);
  const matchedWith = (code: number, before: number): number => {
    let matched = before;
    while (matched > 0 && needle.charCodeAt(matched) !== code) matched = borders[matched - 1] ?? 0;
    return needle.charCodeAt(matched) === code ? matched + 1 : 0;
  };
  for (let at = 1; at < needle.length; at += 1) {
    borders[at] = matchedWith(needle.charCodeAt(at), borders[at - 1] ?? 0);
  }
  let matched = 0;
  for (let at = 0; at < text.length; at += 1) {
    matched = matchedWith(text.charCodeAt(at), matched);
    if (matched === needle.length) return true;
  }
  return false;
}

/** `BigInt` takes more than linear time for a text of many digits. */
function integerOf(text: string, in64Bits: (value: bigint) => bigint): bigint {
  if (text.length > MAX_DIGITS) throw new Error(`a text of more than ${MAX_DIGITS} characters is no integer`);
  const value = BigInt(text);
  if (in64Bits(value) !== value) throw new Error('integer overflow during type conversion');
  return value;
}

/** Counts the characters of a text without a list of them, which takes many times the memory of the text. */
function characters(text: string): bigint {
  let count = text.length;
  for (let at = 1; at < text.length; at += 1) {
    if (isSurrogate(text, at - 1, 0xd800) && isSurrogate(text, at, 0xdc00)) count -= 1;
  }
  return BigInt(count);
}

/** @param first of the 1024 high surrogates or of the 1024 low ones. */
function isSurrogate(text: string, at: number, first: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === first;
}

/** An expression could otherwise make texts that fill the memory of the process within its time. */
function countMade(length: number): void {
  if (length > MAX_JOINED) throw new Error(`a text is longer than ${MAX_JOINED}`);
  made += length;
  if (made > MAX_MADE) throw new Error(`an evaluation makes more than ${MAX_MADE} characters`);
}
