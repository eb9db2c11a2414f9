/**
 * How long ago a timestamp was, as apimachinery's `ConvertToHumanReadableDateType` writes it: `45s`, `3m10s`, `5h`,
 * `12d`.
 */
export function ageOf(timestamp: string | undefined, nowMs: number): string {
  if (timestamp === undefined || timestamp === '' || timestamp === 'null') return '<unknown>';
  const ms = rfc3339Ms(timestamp);
  if (ms === undefined) return '<invalid>';
  return ms === ZERO_MS ? '<unknown>' : humanDuration(Math.trunc((nowMs - ms) / 1000));
}

/** Go's zero time. */
const ZERO_MS = Date.parse('0001-01-01T00:00:00Z');
const RFC_3339 =
  /^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))$/;

/** Strict, as Go's `time.Parse` is: no day that a month does not have. Undefined for any other text. */
function rfc3339Ms(text: string): number | undefined {
  const [found, ...parts] = RFC_3339.exec(text) ?? [];
  if (found === undefined) return undefined;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.slice(0, 6).map(Number);
  const [fraction = '', sign, zoneHour = 0, zoneMinute = 0] = parts.slice(6);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  if (hour > 23 || minute > 59 || second > 59 || Number(zoneHour) > 24 || Number(zoneMinute) > 60) return undefined;
  const zoneMs = (Number(zoneHour) * 60 + Number(zoneMinute)) * 60_000 * (sign === '-' ? -1 : 1);
  const dayMs = ((hour * 60 + minute) * 60 + second) * 1000 + Number(`0.${fraction}0`) * 1000;
  return date.getTime() + dayMs - zoneMs;
}

export function humanDuration(seconds: number): string {
  if (seconds < -1) return '<invalid>';
  if (seconds < 120) return `${Math.max(0, seconds)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return joined(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return joined(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (hours < 192) return joined(days, 'd', hours % 24, 'h');
  if (days < 730) return `${days}d`;
  const years = Math.floor(days / 365);
  return days < 2920 ? joined(years, 'y', days % 365, 'd') : `${years}y`;
}

function joined(large: number, unit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${unit}` : `${large}${unit}${small}${smallUnit}`;
}
