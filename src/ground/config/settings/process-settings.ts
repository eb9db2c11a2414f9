import { z } from 'zod';
import { flag, leaseKeyOf, number, seconds, setting } from './setting.ts';

/** The log, the start and the end of runs, the election, and the work queues. */
export const processSettings = {
  logLevel: setting(
    'LEVELHOOK_LOG_LEVEL',
    z.enum(['debug', 'info', 'warn', 'error', 'silent']).prefault('info'),
    '`debug`, `info`, `warn`, `error` or `silent`; the audit log is always written',
  ),
  logTriggers: setting(
    'LEVELHOOK_LOG_TRIGGERS',
    flag.prefault('false'),
    'log each trigger at `info`, not at `debug`; failures are always warnings',
  ),
  startWindowMs: setting(
    'LEVELHOOK_START_WINDOW_SECONDS',
    seconds(0, 3600).prefault('60'),
    'seconds that a function may take to start, in which its keys wait and nothing has failed; 0: none',
  ),
  drainMs: setting(
    'LEVELHOOK_DRAIN_SECONDS',
    seconds(0, 3600).prefault('20'),
    'seconds that runs in flight may take to end at SIGTERM',
  ),
  // The defaults are those of kube-controller-manager and controller-runtime.
  lease: setting(
    'LEVELHOOK_LEASE',
    z
      .string()
      .transform((text) => (text === 'off' ? text : leaseKeyOf(text)))
      .refine((lease) => lease !== undefined, 'must be off, or namespace/name of a Lease')
      .optional(),
    'Lease by which the gateways of a deployment elect their leader: `namespace/name`; `off`: no election',
    "in a cluster `levelhook` in the pod's namespace, else `off`",
  ),
  leaseMs: setting(
    'LEVELHOOK_LEASE_SECONDS',
    z.coerce
      .number('must be a whole number of seconds')
      .int()
      .min(1)
      .max(3600)
      .transform((value) => value * 1000)
      .prefault('15'),
    'whole seconds after which another gateway takes a Lease that its holder has not renewed',
  ),
  renewMs: setting(
    'LEVELHOOK_LEASE_RENEW_SECONDS',
    seconds(0.1, 3600).prefault('10'),
    'seconds after which a leader that cannot renew the Lease stops leading; fewer than `LEVELHOOK_LEASE_SECONDS`',
  ),
  retryMs: setting(
    'LEVELHOOK_LEASE_RETRY_SECONDS',
    seconds(0.1, 3600).prefault('2'),
    'seconds between two attempts to renew or take the Lease; 1.2 times it is less than the seconds to renew',
  ),
  // client-go's resync.
  resyncMs: setting(
    'LEVELHOOK_RESYNC_HOURS',
    z.coerce
      .number('must be a number of hours')
      .positive()
      .transform((value) => value * 3_600_000)
      .prefault('10'),
    'hours between two times that all keys are queued again from the cache',
  ),
  otlpEndpoint: setting(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    z.url().optional(),
    "where OpenTelemetry's collector takes traces by OTLP over HTTP, see [traces](dashboard.md#traces)",
    'none: no traces',
  ),
  otlpTracesEndpoint: setting(
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    z.url().optional(),
    'the whole URL for traces, where another one takes them',
  ),
  traceRatio: setting(
    'OTEL_TRACES_SAMPLER_ARG',
    number.min(0).max(1).prefault('1'),
    'the part of all triggers that is traced, from 0 to 1',
  ),
  traceUrl: setting(
    'LEVELHOOK_TRACE_URL',
    z
      .url()
      .refine((url) => url.includes('{traceId}'), 'must hold {traceId}')
      .optional(),
    'page that shows a trace, with `{traceId}` in it: the page of a run links to it',
  ),
  historyRuns: setting(
    'LEVELHOOK_HISTORY_RUNS',
    number
      .int()
      .min(0)
      .max(1_000_000)
      .refine((runs) => runs === 0 || runs >= 1000, 'must be 0, or 1000 to 1000000')
      .prefault('10000'),
    'runs of each controller that Redis remembers, 256 bytes each; `0`: failures only, and no plots',
  ),
};
