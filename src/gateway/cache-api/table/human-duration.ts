/** How long ago a timestamp was, as apimachinery's `duration.HumanDuration` writes it: `45s`, `3m10s`, `5h`, `12d`. */
export function ageOf(timestamp: string | undefined, nowMs: number): string {
  if (timestamp === undefined) return '<unknown>';
  return humanDuration(Math.floor((nowMs - Date.parse(timestamp)) / 1000));
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
