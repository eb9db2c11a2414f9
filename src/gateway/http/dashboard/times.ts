import { type Content, html, type Html } from './html.ts';

/** Renders times of the gateway's clock relative to the moment of a page, with the absolute time on hover. */
export class Times {
  readonly #nowMs: number;
  readonly #wallMs: number;

  /** @param nowMs the gateway's clock. @param wallMs the wall-clock time at this moment. */
  constructor(nowMs: number, wallMs: number) {
    this.#nowMs = nowMs;
    this.#wallMs = wallMs;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** `3 min ago`, `in 12 s`. */
  at(ms: number): Html {
    const differenceMs = ms - this.#nowMs;
    const distance = formatDuration(Math.abs(differenceMs));
    const text = Math.abs(differenceMs) < 1000 ? 'now' : differenceMs < 0 ? `${distance} ago` : `in ${distance}`;
    return this.#element(ms, text);
  }

  /** The same for a time as Kubernetes writes it; text that is none stays as it is. */
  of(text: string | undefined): Content {
    const wallMs = Date.parse(text ?? '');
    return Number.isNaN(wallMs) ? text : this.at(wallMs - this.#wallMs + this.#nowMs);
  }

  /** `3 min`: how long something has lasted. */
  since(ms: number): Html {
    return this.#element(ms, formatDuration(Math.max(0, this.#nowMs - ms)));
  }

  /** `2026-11-23 04:05:06.789 UTC`: the absolute time, as machines would read it too. */
  absolute(ms: number): string {
    return this.#date(ms).toISOString().replace('T', ' ').replace('Z', ' UTC');
  }

  #element(ms: number, text: string): Html {
    const date = this.#date(ms);
    return html`<time datetime="${date.toISOString()}" title="${this.absolute(ms)}">${text}</time>`;
  }

  /** A time outside JavaScript's range of dates becomes the first or last date of this range; NaN becomes 1970. */
  #date(ms: number): Date {
    const wallMs = this.#wallMs + (ms - this.#nowMs);
    return new Date(Math.max(-MAX_DATE_MS, Math.min(MAX_DATE_MS, Number.isNaN(wallMs) ? 0 : wallMs)));
  }
}

const MAX_DATE_MS = 8.64e15;

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
] as const;

/** `15 ms`, `3.2 s`, `12 s`, `3 min 20 s`, `2 d 4 h`: two units at most. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toString()} s`;
  const first = UNITS.findIndex(([, unitMs]) => ms >= unitMs);
  const [name, unitMs] = UNITS[first] ?? UNITS[3];
  const count = Math.floor(ms / unitMs);
  const next = UNITS[first + 1];
  const rest = next && count < 10 ? Math.floor((ms % unitMs) / next[1]) : 0;
  return next && rest > 0 ? `${count} ${name} ${rest} ${next[0]}` : `${count} ${name}`;
}
