import { createPatch, type Operation, type Pointer } from 'rfc6902';

/** The most operations for one array. With more, the patch replaces the array. */
const MAX_ARRAY_OPERATIONS = 100;

/**
 * The JSON Patch (RFC 6902) that turns `from` into `to`; empty when both are the same. Both are plain JSON.
 *
 * The time is linear in the size of the two: the library's comparison of arrays is quadratic, so arrays are compared
 * here.
 */
export function patchBetween(from: unknown, to: unknown): Operation[] {
  return createPatch(from, to, (input: unknown, output: unknown, at: Pointer) =>
    Array.isArray(input) && Array.isArray(output) ? arrayPatch(input, output, at) : undefined,
  );
}

/** Keeps the common beginning and end. Items between are changed in place, then added or removed. */
function arrayPatch(from: readonly unknown[], to: readonly unknown[], at: Pointer): Operation[] {
  const shorter = Math.min(from.length, to.length);
  let start = 0;
  while (start < shorter && isSame(from[start], to[start])) start += 1;
  let end = 0;
  while (end < shorter - start && isSame(from.at(-1 - end), to.at(-1 - end))) end += 1;
  const old = from.slice(start, from.length - end);
  const now = to.slice(start, to.length - end);
  if (Math.max(old.length, now.length) > MAX_ARRAY_OPERATIONS) {
    return [{ op: 'replace', path: at.toString(), value: to }];
  }
  const pathOf = (index: number): string => at.add(String(start + index)).toString();
  const both = Math.min(old.length, now.length);
  const changes = old.slice(0, both).flatMap((item, index) => {
    const prefix = pathOf(index);
    return patchBetween(item, now[index]).map((operation) => ({ ...operation, path: prefix + operation.path }));
  });
  const added = now.slice(both).map((value, index) => ({ op: 'add' as const, path: pathOf(both + index), value }));
  // Each removal moves the next item to the same place.
  const removed = old.slice(both).map(() => ({ op: 'remove' as const, path: pathOf(both) }));
  return [...changes, ...added, ...removed];
}

function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every(
      (name) =>
        Object.hasOwn(b, name) && isSame((a as Record<string, unknown>)[name], (b as Record<string, unknown>)[name]),
    )
  );
}
