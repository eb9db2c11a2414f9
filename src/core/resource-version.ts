/**
 * A resourceVersion as KEP-5504 defines it: a decimal number of any length, without leading zero, greater than 0.
 * Only versions of the same resource may be compared. Kept as text, since it may outgrow a double.
 */
export type ResourceVersion = string;

/** Whether `text` is a resourceVersion that can be compared ("" and "0", which have a meaning in requests, cannot). */
export function isResourceVersion(text: unknown): text is ResourceVersion {
  return typeof text === 'string' && /^[1-9][0-9]*$/.test(text);
}

/** Negative, zero or positive as `a` is older than, equal to or newer than `b`. Both must be resourceVersions. */
export function compareResourceVersions(a: ResourceVersion, b: ResourceVersion): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The newer of the two. */
export function newestResourceVersion(a: ResourceVersion, b: ResourceVersion): ResourceVersion {
  return compareResourceVersions(a, b) < 0 ? b : a;
}
