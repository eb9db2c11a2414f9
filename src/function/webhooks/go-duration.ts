const UNITS_MS: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  us: 1e-3,
  µs: 1e-3,
  ns: 1e-6,
};

/**
 * The milliseconds of a duration in the format of Go's `time.Duration` (`10s`, `1m0s`, `1.5s`); undefined for other
 * text.
 */
export function parseGoDuration(text: string): number | undefined {
  if (!/^(?:\d{1,9}(?:\.\d{1,9})?(?:h|ms|m|s|us|µs|ns)){1,6}$/.test(text)) return undefined;
  const parts = text.matchAll(/([\d.]+)([^\d.]+)/g);
  return [...parts].reduce((sum, [, count, unit = '']) => sum + Number(count) * (UNITS_MS[unit] ?? 0), 0);
}
