import { createContext, Script } from 'node:vm';
import { threadMs } from '../../../ground/time-slice.ts';

/** The work took longer than its limit and was interrupted. */
export class TimeLimitError extends Error {
  override readonly name = 'TimeLimitError';
}

/**
 * How often work is tried while its thread gets little processor time. The watchdog counts wall time, so on a busy
 * machine it also ends fast work.
 */
const ATTEMPTS = 5;
/** A thread that has used less than this part of the limit has hardly run. */
const HARDLY = 1 / 4;

const place: { work: () => void } = { work: () => {} };
const script = new Script('work()');
let context: object | undefined;

/**
 * Runs synchronous work, and ends it after `limitMs` of wall time. If its thread has hardly run in that time, the work
 * is run again from its start: 5 attempts at most. Node's watchdog for `vm` ends all of the thread's JavaScript,
 * including regular expressions and functions from outside, and runs no `finally`. Each call starts a thread, which
 * takes 0.1 ms or more. Calls do not nest.
 * @throws TimeLimitError, and errors of the work.
 */
export function withinTime<T>(limitMs: number, work: () => T): T {
  context ??= createContext(place);
  let usedMs = 0;
  for (let attempt = 1; ; attempt += 1) {
    const from = threadMs();
    let result: { readonly value: T } | undefined;
    place.work = () => {
      result = { value: work() };
    };
    try {
      script.runInContext(context, { timeout: limitMs });
    } catch (error) {
      if ((error as { code?: unknown } | null)?.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      // All attempts count together. Otherwise a thread that gets a fifth of a processor would make all attempts, while
      // other work waits.
      usedMs += threadMs() - from;
      if (usedMs < limitMs * HARDLY && attempt < ATTEMPTS) continue;
      throw new TimeLimitError(`took longer than ${limitMs} ms`);
    }
    if (result) return result.value;
  }
}
