/**
 * Above it a number of JSON is none of Kubernetes' integers, which have 64 bits, and JavaScript writes it as it was.
 */
const INT64 = 2 ** 63;

/**
 * Whether a value has an integer that JavaScript has rounded when it read it, or may have: one above 2^53. Written
 * back, it would change what is stored.
 */
export function hasUnsafeInteger(value: unknown): boolean {
  const left: unknown[] = [value];
  while (left.length > 0) {
    const at = left.pop();
    if (typeof at === 'number' && Number.isInteger(at) && !Number.isSafeInteger(at) && Math.abs(at) <= INT64)
      return true;
    if (typeof at === 'object' && at !== null) for (const each of Object.values(at)) left.push(each);
  }
  return false;
}
