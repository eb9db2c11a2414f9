/* oxlint-disable no-console -- the console is this logger's output: every platform collects it */
import { formatJson, type LogFields, type Logger } from '../core/index.ts';

/** JSON lines on the console, which every platform collects. Debug is silent. */
export const consoleLogger: Logger = loggerWith({});

function loggerWith(bound: LogFields): Logger {
  const line = (level: string, fields: LogFields, message: string): string =>
    formatJson({ level, time: new Date().toISOString(), ...bound, ...fields, msg: message });
  return {
    debug() {},
    info: (fields, message) => console.info(line('info', fields, message)),
    warn: (fields, message) => console.warn(line('warn', fields, message)),
    error: (fields, message) => console.error(line('error', fields, message)),
    child: (fields) => loggerWith({ ...bound, ...fields }),
  };
}
