import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

/**
 * Preloaded into a process (`--import`): its wall clock goes wrong by as many milliseconds as the file says that
 * SETTABLE_CLOCK_FILE names, as if the machine's clock had been set. At its start everything that it takes from the
 * wall clock is wrong; from then on `performance.now()` and timers are those of the monotonic clock, which nothing
 * sets.
 */
const file = process.env['SETTABLE_CLOCK_FILE'] ?? '';
const SystemDate = Date;
let offsetMs = read();

function read(): number {
  try {
    return Number(readFileSync(file, 'utf8'));
  } catch {
    // Being written.
    return offsetMs ?? 0;
  }
}

class SettableDate extends SystemDate {
  constructor(...args: unknown[]) {
    if (args.length === 0) super(SettableDate.now());
    else super(...(args as [number]));
  }

  static override now(): number {
    return SystemDate.now() + offsetMs;
  }
}

globalThis.Date = SettableDate as DateConstructor;
Object.defineProperty(performance, 'timeOrigin', { value: performance.timeOrigin + offsetMs });
setInterval(() => (offsetMs = read()), 20).unref();
