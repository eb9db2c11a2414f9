/**
 * A process that stands for election: `elector.ts KUBECONFIG NAMESPACE/NAME SECONDS`. SECONDS is the length of its
 * Lease. It tries once a second to renew the Lease, and gives up after three quarters of that length. It writes a line
 * of JSON for each event, with the time of the machine's monotonic clock, and at SIGTERM it stops in order.
 */
import { parseObjectKey, silentLogger, silentMetrics, systemClock } from '../../src/core/index.ts';
import { ApiClient } from '../../src/ground/apiserver/api-client.ts';
import { loadCredentials } from '../../src/ground/apiserver/credentials.ts';
import { LeaderElection } from '../../src/gateway/election/leader-election.ts';
import { machineMs } from './machine-clock.ts';

const [kubeconfig, key = '', seconds] = process.argv.slice(2);
const leaseMs = Number(seconds) * 1000;
const { namespace = '', name } = parseObjectKey(key);
const credentials = await loadCredentials(kubeconfig);
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());

function write(event: string, fields: Readonly<Record<string, unknown>> = {}): void {
  process.stdout.write(`${JSON.stringify({ event, ms: machineMs(), ...fields })}\n`);
}

const warn = (fields: object, message: string): void => write('warning', { ...fields, message });
const election = new LeaderElection({
  runtime: { clock: systemClock, logger: { ...silentLogger, warn, error: warn }, metrics: silentMetrics },
  client: new ApiClient(credentials),
  lease: { namespace, name },
  timing: { leaseMs, renewMs: 0.75 * leaseMs, retryMs: 1000 },
});

// Its timer is due before those of the election, so it runs first after a freeze.
let tickMs = machineMs();
const ticking = setInterval(() => {
  const silentMs = machineMs() - tickMs;
  if (silentMs > 1000) write('woke', { leads: election.isLeading() });
  tickMs = machineMs();
}, 5);

write('started', { identity: election.identity });
await election.run(
  {
    onLead: async (signal) => {
      write('lead');
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      write('end');
    },
    onFollow: (leader) => write('follow', { leader }),
  },
  stop.signal,
);
write('stopped');
clearInterval(ticking);
await credentials.close();
