import { type LogFields, LimitedLines, type Runtime, tenantOf } from '../../../core/index.ts';

/** Two lines at once for each of the functions that a namespace may have by default. */
export const DECLARATION_LINES = { perSecond: 1, burst: 100 };

const logs = new WeakMap<Runtime['logger'], DeclarationLog>();

/** The one log of a gateway. */
export function declarationLog(runtime: Pick<Runtime, 'clock' | 'logger'>): DeclarationLog {
  const log = logs.get(runtime.logger) ?? new DeclarationLog(runtime);
  logs.set(runtime.logger, log);
  return log;
}

/**
 * The log of controllers that begin, change and end as they are declared, and of the keys that are queued for that. A
 * tenant can change its declarations at any rate, so the lines of a tenant are limited.
 */
export class DeclarationLog {
  readonly #runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly #lines: LimitedLines;

  constructor(runtime: Pick<Runtime, 'clock' | 'logger'>) {
    this.#runtime = runtime;
    this.#lines = new LimitedLines(runtime.clock, DECLARATION_LINES);
  }

  /** @param controller its id, which has the line. */
  write(level: 'info' | 'warn' | 'error', controller: string, fields: LogFields, message: string): void {
    const { logger } = this.#runtime;
    this.#lines.write(tenantOf(controller), (more) => logger[level]({ controller, ...fields, ...more }, message));
  }
}
