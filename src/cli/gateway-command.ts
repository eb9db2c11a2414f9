import { type DestinationStream, pino } from 'pino';
import { boundedFields, messageOf, UserError } from '../core/index.ts';
import { Gateway, type GatewayConfig, readConfig } from '../gateway/index.ts';
import { packageVersion } from './package-root.ts';
import { stopSignal } from './stop-signal.ts';

export interface GatewayFlags {
  readonly kubeconfig?: string;
  readonly port?: number;
}

/** Runs a gateway until SIGTERM or SIGINT. It writes JSON lines to stdout. */
export async function gatewayCommand(options: GatewayFlags): Promise<void> {
  const config = readConfig(process.env, options);
  const { signal, release } = stopSignal();
  const fatal = await runGateway(config, signal);
  release();
  // Everything is stopped. A connection that still retries, when Redis is away for instance, must not keep the process.
  setTimeout(() => process.exit(), 1000).unref();
  if (fatal instanceof UserError) throw fatal;
  if (fatal !== undefined) throw new Error(messageOf(fatal), { cause: fatal });
}

/**
 * Runs a gateway until the signal is aborted or a fatal error occurs, and stops it.
 * @param output of its JSON lines. Default: stdout.
 * @returns the error that kept the gateway from starting or ended it; undefined after an ordered stop.
 */
export async function runGateway(
  config: GatewayConfig,
  signal: AbortSignal,
  output: DestinationStream = pino.destination(1),
): Promise<unknown> {
  const logger = pino(
    {
      level: config.logLevel,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      // The fields of every line pass through here, because names and messages in them are untrusted.
      formatters: { log: boundedFields },
    },
    output,
  );
  // Changes by people are logged at every level.
  const auditLog = logger.child({}, { level: 'info' });
  const gateway = new Gateway(config, logger, { auditLog, version: packageVersion() });
  let fatal: unknown;
  await new Promise<void>((resolve) => {
    const fail = (error: unknown): void => {
      fatal = error;
      resolve();
    };
    signal.addEventListener('abort', () => resolve(), { once: true });
    gateway.start(fail).catch(fail);
  });
  logger.info({}, 'stopping');
  await gateway.stop();
  logger.info({}, 'stopped');
  return fatal;
}
