import { parseJson, stringEnd } from '../../../core/index.ts';

const QUOTE = 34;
const COMMA = 44;
const OPEN_BRACE = 123;

/**
 * The text of a JSON object without the member at `path`, everything else as it was, byte by byte; the same text when
 * there is no such member. The cache stores objects as the server sent them. Serializing a parsed object again would
 * take as long as parsing it.
 * @param text a JSON object that has been parsed before; this function does not notice invalid JSON.
 */
export function withoutMember(text: string, path: readonly string[]): string {
  let open = skipSpace(text, 0);
  for (let depth = 0; ; depth += 1) {
    const member = text.charCodeAt(open) === OPEN_BRACE ? findMember(text, open, path[depth] ?? '') : undefined;
    if (!member) return text;
    if (depth === path.length - 1) return text.slice(0, member.from) + text.slice(member.to);
    open = member.value;
  }
}

/**
 * The text to cut to remove a member of the object that opens at `open`, one comma included, and where its value
 * begins.
 */
function findMember(text: string, open: number, name: string): { from: number; to: number; value: number } | undefined {
  // Cut from the end of the previous member, so that the comma goes with it.
  let before = open + 1;
  for (let at = skipSpace(text, open + 1); text.charCodeAt(at) === QUOTE;) {
    const nameEnd = stringEnd(text, at);
    const value = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const end = skipValue(text, value);
    const next = skipSpace(text, end);
    const isLast = text.charCodeAt(next) !== COMMA;
    if (isNamed(text, at, nameEnd, name)) {
      // The first of several takes the comma behind it.
      return before === open + 1 && !isLast ? { from: before, to: next + 1, value } : { from: before, to: end, value };
    }
    if (isLast) return undefined;
    before = next;
    at = skipSpace(text, next + 1);
  }
  return undefined;
}

function isNamed(text: string, from: number, to: number, name: string): boolean {
  const quoted = text.slice(from, to);
  // Names without escapes are the rule by far, and are equal as they stand.
  return quoted.includes('\\')
    ? parseJson(quoted) === name
    : quoted.length === name.length + 2 && quoted.startsWith(name, 1);
}

function skipSpace(text: string, at: number): number {
  while (text.charCodeAt(at) <= 32) at += 1;
  return at;
}

/** The end of the value that begins at `at`. */
function skipValue(text: string, at: number): number {
  let depth = 0;
  while (at < text.length) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = stringEnd(text, at);
        break;
      case OPEN_BRACE:
      case 91: // [
        depth += 1;
        at += 1;
        continue;
      case 125: // }
      case 93: // ]
        // This closes the enclosing object or list: the value was a number or a word.
        if (depth === 0) return at;
        depth -= 1;
        at += 1;
        break;
      case COMMA:
        if (depth === 0) return at;
        at += 1;
        continue;
      default:
        at += 1;
        continue;
    }
    if (depth === 0) return at;
  }
  return at;
}
