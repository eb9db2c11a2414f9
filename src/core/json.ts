/**
 * Kubernetes' JSON, whose integers have 64 bits. An integer beyond ±(2^53 - 1) becomes a bigint, so that it is written
 * as it was read, and code that computes with it gets a bigint or an error, never another number. All other values are
 * those of `JSON.parse`. A number with a point or an exponent is a float for the apiserver, too, and `-0` is 0 for it;
 * it refuses numbers beyond a float, such as 1e400.
 * @throws SyntaxError as `JSON.parse`
 */
export function parseJson(text: string): unknown {
  if (!MANY_DIGITS.test(text) || !mayHaveLongInteger(text)) return JSON.parse(text);
  // The long integers become strings with a random mark, which no sender can have foreseen. A reviver with the source
  // text would do, but it recurses for each level: 10,000 levels would end in an error.
  const mark = crypto.randomUUID();
  const marked = withMarks(text, mark);
  const root = { '': JSON.parse(marked) as unknown };
  if (marked !== text) restore(root, mark);
  return root[''];
}

/**
 * Writes JSON as `JSON.stringify` does, and a bigint as a number.
 * @param replacer as that of `JSON.stringify`. Default: values are written as they are
 * @throws TypeError for cyclic values
 */
export function formatJson(value: unknown, replacer?: (name: string, value: unknown) => unknown): string {
  try {
    return JSON.stringify(value, replacer);
  } catch {
    // The value has a bigint, or is cyclic and throws again.
    const mark = crypto.randomUUID();
    const text = JSON.stringify(value, (name, given: unknown) => {
      const each = replacer ? replacer(name, given) : given;
      return typeof each === 'bigint' ? `${mark}${each}` : each;
    });
    return text.replaceAll(new RegExp(`"${mark}(-?[0-9]+)"`, 'g'), '$1');
  }
}

/** YAML refuses these characters, or reads them as the end of a line, also within a string. */
const NOT_IN_YAML = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;

/**
 * Writes the body of a request as JSON. For a media type of YAML, such as that of server-side apply, the JSON is YAML
 * with the same value, too.
 */
export function formatBody(body: unknown, contentType: string): string {
  const text = formatJson(body);
  if (!contentType.endsWith('yaml')) return text;
  return text.replaceAll(NOT_IN_YAML, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** An integer with fewer digits is exact in JavaScript. */
const DIGITS = 16;

/** Written out, so that V8's engine looks at one character of eight: a counted class takes it five times as long. */
const MANY_DIGITS = new RegExp('[0-9]'.repeat(DIGITS));

/** A long integer within an object or a list. Text in a string may match too, but no digest and no base64 does. */
const LOOKS_LONG = /[:,[\s-]\d{16,}[,}\]\s]/;

const mayHaveLongInteger = (text: string): boolean => !/^[{[]/.test(text) || LOOKS_LONG.test(text);

/** A match has no digit, point or exponent around it, and is no field name. Integers beyond a float have 309 digits. */
const LONG_INTEGER = /(?<![\d.eE+-])-?[1-9]\d{15,308}(?![\d.eE]|\s*:)/g;

/** The text with strings in place of its long integers. */
function withMarks(text: string, mark: string): string {
  let [marked, copied] = ['', 0];
  for (let at = 0; at < text.length;) {
    const quote = text.indexOf('"', at);
    const end = quote < 0 ? text.length : quote;
    if (end - at >= DIGITS) {
      marked += text.slice(copied, at) + text.slice(at, end).replace(LONG_INTEGER, `"${mark}$&"`);
      copied = end;
    }
    at = quote < 0 ? end : stringEnd(text, quote);
  }
  return marked + text.slice(copied);
}

/** The position behind the JSON string that begins at `at`. */
export function stringEnd(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let from = end;
    while (text.charAt(from - 1) === '\\') from -= 1;
    if ((end - from) % 2 === 0) return end + 1;
  }
  return text.length;
}

/** A loop, not recursion: an object may have ten thousand levels. */
function restore(root: object, mark: string): void {
  const left: object[] = [root];
  for (let holder = left.pop(); holder; holder = left.pop()) {
    const fields = holder as Record<string, unknown>;
    for (const name in fields) {
      const value = fields[name];
      if (typeof value === 'object' && value !== null) left.push(value);
      else if (typeof value === 'string' && value.startsWith(mark)) {
        const digits = value.slice(mark.length);
        fields[name] = Number.isSafeInteger(Number(digits)) ? Number(digits) : BigInt(digits);
      }
    }
  }
}
