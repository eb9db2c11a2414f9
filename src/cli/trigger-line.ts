/** A trigger as `levelhook start` shows it: time, key, reasons, duration, result. */
export function formatTrigger(fields: Readonly<Record<string, unknown>>): string {
  const time = String(fields['time']).slice(11, 23);
  const attempt = Number(fields['attempt']);
  return [
    time,
    String(fields['controller']).padEnd(12),
    String(fields['key']).padEnd(28),
    reasons(fields['reasons']).padEnd(40),
    `${Number(fields['durationMs'])} ms`.padStart(8),
    ` ${result(fields)}${attempt > 1 ? ` (attempt ${attempt})` : ''}`,
  ].join(' ');
}

/** `wrote v1/Pod default/x-1, v1/Pod default/x-2 and 3 more`; no line when the run has written nothing. */
export function wroteLine({ wrote, writes }: Readonly<Record<string, unknown>>): string[] {
  if (!Array.isArray(wrote) || wrote.length === 0) return [];
  const more = Number(writes) - wrote.length;
  return [`wrote ${wrote.map(String).join(', ')}${more > 0 ? ` and ${more} more` : ''}`];
}

/** `updated Pod x-1 +3`: the first reason, and the number of others. */
function reasons(value: unknown): string {
  const [first, ...more] = Array.isArray(value) ? (value as { type: string; object?: string }[]) : [];
  if (!first) return '';
  const [, kind, name] = /([^/ ]+) (?:[^/]+\/)?([^/]+)$/.exec(first.object ?? '') ?? [];
  return (kind ? `${first.type} ${kind} ${name}` : first.type) + (more.length > 0 ? ` +${more.length}` : '');
}

function result(fields: Readonly<Record<string, unknown>>): string {
  const again = fields['againAfterMs'] === undefined ? '' : `, again in ${Number(fields['againAfterMs']) / 1000} s`;
  const writes = Number(fields['writes']);
  if (fields['outcome'] === 'done') return `done, ${writes} ${writes === 1 ? 'write' : 'writes'}${again}`;
  return `${String(fields['outcome'])}: ${String(fields['error'])}${again}`;
}
