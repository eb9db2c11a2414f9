/** The fields of a log line. Never a body, a secret or a signature. */
export type LogFields = Record<string, unknown>;

/**
 * The port through which every part logs: fields first, message second, as pino does. Implemented by pino in the
 * gateway and by `console` in the SDK, so that neither `core` nor a function at the edge depends on a logger.
 */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** A logger whose lines all carry `fields` too. */
  child(fields: LogFields): Logger;
}

/** Writes nothing. The default wherever a logger is optional. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
};
