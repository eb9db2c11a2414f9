export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** @param part 0 to 1 */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
}
