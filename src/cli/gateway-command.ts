import { pino } from 'pino';
import { messageOf, UserError } from '../core/index.ts';
import { Gateway, readConfig } from '../gateway/index.ts';

/** Runs a gateway until SIGTERM or SIGINT. JSON lines on stdout. */
export async function gatewayCommand(options: { kubeconfig?: string; port?: number }): Promise<void> {
  const config = readConfig(process.env, {
    ...(options.kubeconfig === undefined ? {} : { kubeconfig: options.kubeconfig }),
    variables: { LEVELHOOK_PORT: options.port?.toString() },
  });
  const logger = pino({ level: config.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime });
  const gateway = new Gateway(config, logger);
  let fatal: unknown;
  const ended = new Promise<void>((resolve) => {
    const stop = (): void => resolve();
    process.once('SIGTERM', stop);
    process.once('SIGINT', stop);
    gateway
      .start((error) => {
        fatal = error;
        resolve();
      })
      .catch((error: unknown) => {
        fatal = error;
        resolve();
      });
  });
  await ended;
  logger.info({}, 'stopping');
  await gateway.stop();
  logger.info({}, 'stopped');
  if (fatal instanceof UserError) throw fatal;
  if (fatal !== undefined) throw new Error(messageOf(fatal), { cause: fatal });
}
