import { type Logger, silentMetrics, systemClock } from '../../src/core/index.ts';
import { ApiClient } from '../../src/ground/apiserver/api-client.ts';
import { loadCredentials } from '../../src/ground/apiserver/credentials.ts';
import {
  GatewayCertificates,
  type GatewayCertificatesOptions,
} from '../../src/gateway/certificates/gateway-certificates.ts';

/** What the program is given as its argument, in JSON. */
export type LeaderSettings = Pick<GatewayCertificatesOptions, 'address' | 'secret' | 'times'>;

/**
 * A process that leads and looks after certificates and bundles as a gateway does, and serves nothing: a test kills it.
 * It writes a line for each step.
 */
const log: Logger['info'] = (fields, message) => {
  process.stdout.write(`${JSON.stringify({ ...fields, message })}\n`);
};
const logger: Logger = { debug: log, info: log, warn: log, error: log, child: () => logger };
const credentials = await loadCredentials(process.env['KUBECONFIG']);
const certificates = new GatewayCertificates({
  runtime: { clock: systemClock, logger, metrics: silentMetrics },
  client: new ApiClient(credentials),
  leads: () => true,
  ...(JSON.parse(process.argv[2] ?? '{}') as LeaderSettings),
});
await certificates.run(new AbortController().signal);
