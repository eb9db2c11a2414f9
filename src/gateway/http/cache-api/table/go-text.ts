/** How Go prints values of JSON, for cells that must equal the apiserver's. */

/** As `fmt.Fprint` does: lists and objects as `json.Marshal` does. */
export function goText(value: unknown): string {
  if (value === null || value === undefined) return '<no value>';
  if (typeof value === 'string') return value;
  if (typeof value !== 'number' && typeof value !== 'bigint') return goJson(value);
  const number = goNumber(value);
  return typeof number === 'bigint' ? String(number) : goFloat(number, 6);
}

/** As `json.Marshal` does: keys in order, and no character that HTML would take for its own. */
export function goJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(goJson).join(',')}]`;
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).toSorted(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    return `{${entries.map(([key, each]) => `${goJson(key)}:${goJson(each)}`).join(',')}}`;
  }
  if (typeof value === 'number' || typeof value === 'bigint') {
    const number = goNumber(value);
    return typeof number === 'bigint' ? String(number) : jsonFloat(number);
  }
  if (typeof value !== 'string') return String(value);
  return JSON.stringify(value).replaceAll(
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
