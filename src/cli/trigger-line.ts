/** A part of a line. A terminal with colours shows its tone. */
export interface LinePart {
  readonly text: string;
  readonly tone?: 'good' | 'bad' | 'quiet';
}

const KEY = 28;
const REASONS = 40;
/** What a narrow terminal leaves of the reasons and of the key, at least. */
const LEAST = 12;

/**
 * A trigger as `levelhook start` and `levelhook dev` show it: local time, controller, key, reasons, duration, result.
 * @param columns of the terminal: from 100 on the line fits into them. Default: any number.
 */
export function formatTrigger(fields: Readonly<Record<string, unknown>>, columns = Infinity): LinePart[] {
  const attempt = Number(fields['attempt']);
  const { text, tone } = result(fields);
  const end = ` ${text}${attempt > 1 ? ` (attempt ${attempt})` : ''}`;
  const [time, took] = [localTime(String(fields['time'])), `${Number(fields['durationMs'])} ms`.padStart(8)];
  const controller = String(fields['controller']).padEnd(12);
  const rest = columns - [time, controller, took, end].reduce((sum, { length }) => sum + length + 1, 0);
  const mostOfKey = Math.max(LEAST, rest - LEAST - 1);
  const shownKey = endOf(String(fields['key']), mostOfKey).padEnd(Math.min(KEY, mostOfKey));
  const room = Math.max(LEAST, rest - shownKey.length - 1);
  const why = reasons(fields['reasons']);
  const shownWhy = why.length > room ? `${why.slice(0, room - 1)}…` : why.padEnd(Math.min(REASONS, room));
  return [
    { text: `${time} `, tone: 'quiet' },
    { text: `${controller} ${shownKey} ${shownWhy} ${took} ` },
    { text: end.slice(1), ...(tone && { tone }) },
  ];
}

/** The end of a key tells more than its beginning. */
function endOf(key: string, length: number): string {
  return key.length > length ? `…${key.slice(1 - length)}` : key;
}

/** `13:04:05.678` here, of a time in UTC. */
function localTime(time: string): string {
  const at = new Date(time);
  const two = (value: number): string => String(value).padStart(2, '0');
  const ms = String(at.getMilliseconds()).padStart(3, '0');
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`;
}

/** `wrote v1/Pod default/x-1, v1/Pod default/x-2 and 3 more`; no line when the run has written nothing. */
export function wroteLine({ wrote, writes }: Readonly<Record<string, unknown>>): string[] {
  if (!Array.isArray(wrote) || wrote.length === 0) return [];
  const more = Number(writes) - wrote.length;
  return [`wrote ${wrote.map(String).join(', ')}${more > 0 ? ` and ${more} more` : ''}`];
}

/** The message of a run that did not end well, on a line of its own: it may be long. */
export function errorLine({ outcome, error }: Readonly<Record<string, unknown>>): LinePart[] {
  if (outcome === 'done' || typeof error !== 'string') return [];
  return [{ text: error, ...(!NEITHER.has(outcome) && { tone: 'bad' as const }) }];
}

/** `updated Pod x-1 +3`: the first reason, and the number of others. */
function reasons(value: unknown): string {
  const [first, ...more] = Array.isArray(value) ? (value as { type: string; object?: string }[]) : [];
  if (!first) return '';
  const [, kind, name] = /([^/ ]+) (?:[^/]+\/)?([^/]+)$/.exec(first.object ?? '') ?? [];
  return (kind ? `${first.type} ${kind} ${name}` : first.type) + (more.length > 0 ? ` +${more.length}` : '');
}

/** Outcomes that are neither good nor bad: the run goes on, or begins later. */
const NEITHER = new Set<unknown>(['accepted', 'deferred', 'not-sent']);

function result(fields: Readonly<Record<string, unknown>>): LinePart {
  const again = fields['againAfterMs'] === undefined ? '' : `, again in ${Number(fields['againAfterMs']) / 1000} s`;
  const writes = Number(fields['writes']);
  if (fields['outcome'] !== 'done') {
    const text = `${String(fields['outcome'])}${again}`;
    return NEITHER.has(fields['outcome']) ? { text } : { text, tone: 'bad' };
  }
  return { text: `done, ${writes} ${writes === 1 ? 'write' : 'writes'}${again}`, tone: 'good' };
}
