/** A metric's labels: few and bounded. Never a namespace, name or UID. */
export type MetricLabels = Readonly<Record<string, string>>;

/**
 * The port through which every part counts. Names and labels are those of `METRICS`; prom-client stands behind it in
 * the gateway (`manager/metrics`), nothing at all in tests.
 */
export interface Metrics {
  /** Adds to a counter. */
  count(name: CounterName, labels: MetricLabels, by?: number): void;
  /** Sets a gauge. */
  set(name: GaugeName, labels: MetricLabels, value: number): void;
  /** Records one observation, in seconds. */
  observe(name: HistogramName, labels: MetricLabels, seconds: number): void;
  /** Takes away every series that carries these labels: what they name is no more. */
  forget(labels: MetricLabels): Promise<void>;
}

export const silentMetrics: Metrics = { count() {}, set() {}, observe() {}, forget: async () => {} };

interface Definition {
  readonly help: string;
  readonly labels: readonly string[];
}

/**
 * Every metric of the gateway. Where client-go (`util/workqueue/metrics.go`) or controller-runtime
 * (`pkg/internal/controller/metrics`) name a metric, the name and labels are theirs, so that existing dashboards work.
 */
export const METRICS = {
  counters: {
    workqueue_adds_total: { help: 'Keys added to the queue.', labels: ['name'] },
    workqueue_retries_total: { help: 'Keys asked for again, by backoff or by requeueAfter.', labels: ['name'] },
    controller_runtime_reconcile_total: { help: 'Runs by result.', labels: ['controller', 'result'] },
    controller_runtime_reconcile_errors_total: { help: 'Runs that ended in an error.', labels: ['controller'] },
    leader_election_slowpath_total: {
      help: 'Renewals of a Lease that had to read it again, by Lease.',
      labels: ['name'],
    },
    rest_client_requests_total: { help: 'Requests to the apiserver.', labels: ['code', 'method'] },
    levelhook_apiserver_requests_total: {
      help: "Requests to the apiserver by the controller on whose behalf; the gateway's own have none.",
      labels: ['controller', 'method'],
    },
    levelhook_triggers_total: {
      help: 'Keys that were sent in triggers, by what came back.',
      labels: ['controller', 'outcome'],
    },
    levelhook_unknown_outcomes_total: {
      help: 'Keys of triggers whose outcome is unknown, by reason.',
      labels: ['controller', 'reason'],
    },
    levelhook_triggers_not_sent_total: {
      help: 'Keys not sent because the circuit breaker of the endpoint is open or its function starts, by reason.',
      labels: ['controller', 'reason'],
    },
    levelhook_callbacks_total: {
      help: 'Callbacks of runs that went on, by what became of them.',
      labels: ['controller', 'end'],
    },
    levelhook_lost_outcomes_total: { help: 'Runs whose deadline passed without an outcome.', labels: ['controller'] },
    levelhook_impossible_writes_total: {
      help: 'Outcomes that report a version which the apiserver does not have.',
      labels: ['controller'],
    },
    levelhook_ignored_result_lines_total: {
      help: 'Lines of streamed answers that named no run of their trigger.',
      labels: ['controller'],
    },
    levelhook_stale_outcomes_total: { help: 'Outcomes refused by their run number.', labels: ['controller'] },
    levelhook_dead_letters_total: { help: 'Keys that became dead letters.', labels: ['controller'] },
    levelhook_lost_jobs_total: { help: 'Queued keys whose job was gone, and was added again.', labels: ['controller'] },
    levelhook_refused_starts_total: {
      help: 'Starts of runs that Redis refused for what the record of the key holds.',
      labels: ['controller'],
    },
    levelhook_reflector_lists_total: { help: 'Lists by form.', labels: ['resource', 'form'] },
    levelhook_reflector_watch_ends_total: { help: 'Ended watches by reason.', labels: ['resource', 'reason'] },
    levelhook_cache_changes_total: { help: 'Changes applied to the cache.', labels: ['resource', 'type'] },
    levelhook_cache_kept_out_total: {
      help: 'Changes of objects that are kept out of the cache, since they are nested too deep or too large.',
      labels: ['resource'],
    },
    levelhook_cache_skipped_events_total: {
      help: 'Events that could not be applied to the cache in any way: the cache lacks them.',
      labels: ['resource'],
    },
    levelhook_handler_failures_total: {
      help: 'Changes that a controller has missed, since its handlers failed: it gets all its keys once they work.',
      labels: ['controller'],
    },
    levelhook_undeliverable_wakeups_total: {
      help: 'Wakeups taken out of an outbox undelivered: the controller gets all its keys instead.',
      labels: ['controller'],
    },
    levelhook_expression_failures_total: {
      help: 'Expressions and mappers without an answer, by reason: error, type, or time when it was cut off.',
      labels: ['controller', 'reason'],
    },
    levelhook_cache_requests_total: { help: 'Requests to the cache API.', labels: ['verb', 'code'] },
    levelhook_proxied_requests_total: {
      help: 'Requests of functions that were passed on to the apiserver, or refused by the gateway.',
      labels: ['controller', 'verb', 'code'],
    },
    controller_runtime_webhook_requests_total: {
      help: 'Reviews by the path of the webhook and the status of the answer.',
      labels: ['webhook', 'code'],
    },
    levelhook_recoveries_total: { help: 'Times that data in Redis had to be taken for lost.', labels: ['reason'] },
  },
  gauges: {
    workqueue_depth: { help: 'Keys waiting to run now.', labels: ['name'] },
    levelhook_queue_demand: {
      help: 'Keys that the function has to run now or within 30 s, those in flight included: for a scaler.',
      labels: ['name'],
    },
    levelhook_queue_oldest_due_seconds: {
      help: 'Age of the oldest key that is due and has not been started; 0 when there is none.',
      labels: ['name'],
    },
    controller_runtime_active_workers: { help: 'Runs in flight.', labels: ['controller'] },
    controller_runtime_max_concurrent_reconciles: { help: 'Runs allowed at a time.', labels: ['controller'] },
    leader_election_master_status: {
      help: '1 while this process leads by the Lease, 0 while it follows.',
      labels: ['name'],
    },
    levelhook_circuit_breaker_open: {
      help: '1 while the circuit breaker of a function is open, by reason.',
      labels: ['controller', 'reason'],
    },
    levelhook_view_synced: { help: '1 when the view is complete.', labels: ['resource'] },
    levelhook_outbox_oldest_seconds: {
      help: 'Age of the oldest wakeup of a view that is in no queue yet; 0 when there is none.',
      labels: ['resource'],
    },
    levelhook_view_oldest_unapplied_seconds: {
      help: 'Age of the oldest event that has been read and is not in the cache yet; 0 when there is none.',
      labels: ['resource'],
    },
    levelhook_redis_problem: {
      help: '1 while Redis has this problem: eviction, memory, persistence, role or version.',
      labels: ['problem'],
    },
    controller_runtime_webhook_requests_in_flight: { help: 'Reviews in flight.', labels: ['webhook'] },
    levelhook_certificate_expiry_seconds: {
      help: 'Seconds until a certificate of the webhooks expires, by use: serving or ca.',
      labels: ['use'],
    },
    levelhook_gateway_suspended: { help: '1 while nothing is dispatched.', labels: [] },
  },
  histograms: {
    workqueue_queue_duration_seconds: { help: 'From the add of a key to the start of its run.', labels: ['name'] },
    workqueue_work_duration_seconds: { help: 'Duration of a run as the queue sees it.', labels: ['name'] },
    controller_runtime_reconcile_time_seconds: { help: 'Duration of a trigger.', labels: ['controller'] },
    controller_runtime_webhook_latency_seconds: { help: 'Duration of a review.', labels: ['webhook'] },
    rest_client_rate_limiter_duration_seconds: {
      help: 'What a request to the apiserver has waited for its turn.',
      labels: ['verb', 'host'],
    },
  },
} as const satisfies Record<string, Record<string, Definition>>;

export type CounterName = keyof typeof METRICS.counters;
export type GaugeName = keyof typeof METRICS.gauges;
export type HistogramName = keyof typeof METRICS.histograms;
