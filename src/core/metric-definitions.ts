interface Definition {
  readonly help: string;
  readonly labels: readonly string[];
}

interface HistogramDefinition extends Definition {
  /** Upper bounds, ascending, without infinity. */
  readonly buckets: readonly number[];
}

/** Of both libraries' work queues, and of controller-runtime's webhooks: `ExponentialBuckets(10e-9, 10, 12)`. */
const TENFOLD = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10, 100, 1000];
/** Of controller-runtime's `pkg/internal/controller/metrics/metrics.go`. */
const RECONCILE_TIMES = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2,
  2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
];
/** Of both libraries' REST clients: times and sizes of requests. */
const REQUEST_TIMES = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const REQUEST_SIZES = [64, 256, 512, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];
/** Of client-go's informers. */
const PROCESSING_TIMES = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Our own: waiting times of keys. */
const WAITS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/**
 * Every metric of the gateway. If client-go or controller-runtime has the metric, its name, labels and buckets are
 * used, so that existing dashboards work; `infra/observability/library-metrics.ts` has their lists. Where the two
 * libraries differ in labels, these are the labels of both.
 */
export const METRICS = {
  counters: {
    workqueue_adds_total: { help: 'Keys added to the queue.', labels: ['name', 'controller'] },
    workqueue_retries_total: {
      help: 'Keys asked for again, by backoff or by requeueAfter.',
      labels: ['name', 'controller'],
    },
    controller_runtime_reconcile_total: { help: 'Runs by result.', labels: ['controller', 'result'] },
    controller_runtime_reconcile_errors_total: { help: 'Runs that ended in an error.', labels: ['controller'] },
    controller_runtime_terminal_reconcile_errors_total: {
      help: 'Runs that ended in a terminal error: their keys are not tried again.',
      labels: ['controller'],
    },
    controller_runtime_reconcile_panics_total: {
      help: 'Runs that a function broke off: the connection broke, or the answer was no outcome.',
      labels: ['controller'],
    },
    controller_runtime_reconcile_timeouts_total: {
      help: 'Runs without an answer before their deadline.',
      labels: ['controller'],
    },
    controller_runtime_webhook_requests_total: {
      help: 'Admission requests by HTTP status.',
      labels: ['webhook', 'code'],
    },
    controller_runtime_webhook_panics_total: { help: 'Admission requests whose handler broke off.', labels: [] },
    controller_runtime_conversion_webhook_panics_total: { help: 'Conversions whose handler broke off.', labels: [] },
    certwatcher_read_certificate_total: { help: 'Reads of the files of the TLS certificate.', labels: [] },
    certwatcher_read_certificate_errors_total: {
      help: 'Reads of the files of the TLS certificate that gave none that can be used.',
      labels: [],
    },
    leader_election_slowpath_total: {
      help: 'Renewals of a Lease that had to read it again, by Lease.',
      labels: ['name'],
    },
    rest_client_requests_total: {
      help: 'Requests to the apiserver by status; <error> when there was no answer.',
      labels: ['code', 'method', 'host'],
    },
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
      help: 'Changes of objects that are kept out of the cache, since they are nested too deep or too large, or memory is short.',
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
    levelhook_recoveries_total: { help: 'Times that data in Redis had to be taken for lost.', labels: ['reason'] },
  },
  gauges: {
    workqueue_depth: {
      help: 'Keys waiting to run now, by priority: 0, or -100 for the backlog. The same in all gateways.',
      labels: ['name', 'controller', 'priority'],
    },
    workqueue_unfinished_work_seconds: {
      help: 'How long the runs in flight of this gateway have taken so far, together.',
      labels: ['name', 'controller'],
    },
    workqueue_longest_running_processor_seconds: {
      help: 'How long the oldest run in flight of this gateway has taken so far; 0 when there is none.',
      labels: ['name', 'controller'],
    },
    levelhook_queue_demand: {
      help: 'Keys that the function has to run now or within 30 s, those in flight included: for a scaler.',
      labels: ['name'],
    },
    levelhook_queue_oldest_due_seconds: {
      help: 'Age of the oldest key that is due and has not been started; 0 when there is none.',
      labels: ['name'],
    },
    levelhook_queue_oldest_failing_seconds: {
      help: 'Time since the first failure of the key that has failed for longest; 0 when no key is failing.',
      labels: ['name'],
    },
    levelhook_controller_state: {
      help:
        '1 for the state of a controller, as pages and `levelhook get controllers` show it: circuit open, problem, ' +
        'starting, waits for recovery, dead letters, failing, paused, partly paused, remark, busy or idle. Each gateway ' +
        'tells of its own circuit.',
      labels: ['controller', 'state'],
    },
    controller_runtime_active_workers: { help: 'Runs in flight.', labels: ['controller'] },
    controller_runtime_max_concurrent_reconciles: { help: 'Runs allowed at a time.', labels: ['controller'] },
    controller_runtime_webhook_requests_in_flight: {
      help: 'Admission requests that are being answered.',
      labels: ['webhook'],
    },
    informer_queued_items: {
      help: 'Events that have been read and are not in the cache yet. In the gateway that leads.',
      labels: ['name', 'group', 'version', 'resource'],
    },
    informer_store_resource_version: {
      help: 'The last 15 digits of the version up to which the view is complete. In the gateway that leads.',
      labels: ['name', 'group', 'version', 'resource'],
    },
    leader_election_master_status: {
      help: '1 while this process leads by the Lease, 0 while it follows.',
      labels: ['name'],
    },
    levelhook_circuit_breaker_open: {
      help: '1 while the circuit breaker of a function is open, by reason.',
      labels: ['controller', 'reason'],
    },
    levelhook_view_synced: { help: '1 when the view is complete.', labels: ['resource'] },
    levelhook_view_behind_seconds: {
      help:
        'The view shows all that the server had so many seconds ago. A resource at rest sends a bookmark about once a ' +
        'minute. The same in all gateways.',
      labels: ['resource'],
    },
    levelhook_outbox_oldest_seconds: {
      help: 'Age of the oldest wakeup of a view that is in no queue yet; 0 when there is none.',
      labels: ['resource'],
    },
    levelhook_view_oldest_unapplied_seconds: {
      help: 'Age of the oldest event that has been read and is not in the cache yet; 0 when there is none.',
      labels: ['resource'],
    },
    levelhook_certificate_expiry_seconds: {
      help: 'Seconds until a certificate of the webhooks expires, by use: serving or ca.',
      labels: ['use'],
    },
    levelhook_redis_problem: {
      help: '1 while Redis has this problem: eviction, memory, persistence, role or version.',
      labels: ['problem'],
    },
    levelhook_redis_read: {
      help:
        '1 when this scrape has read the queues from Redis; 0 while Redis is away, silent, not usable or not checked ' +
        'yet, and until the gateway has started. Then the levels, states and ages that are in Redis have no series, ' +
        'and `levelhook_queue_demand` keeps its last values.',
      labels: [],
    },
    levelhook_memory_left_out: {
      help:
        '1 while nothing more of the namespace is stored in Redis, which is short of memory; holding: objects, keys, or ' +
        'declared: objects of other namespaces that only its functions read.',
      labels: ['namespace', 'holding'],
    },
    levelhook_gateway_suspended: {
      help: '1 until the gateway has started, and while each of its controllers is suspended: nothing is dispatched.',
      labels: [],
    },
  },
  histograms: {
    workqueue_queue_duration_seconds: {
      help: 'From the add of a key, or the event that caused it, to the start of its run.',
      labels: ['name', 'controller'],
      buckets: TENFOLD,
    },
    workqueue_work_duration_seconds: {
      help: 'Duration of a run as the queue sees it.',
      labels: ['name', 'controller'],
      buckets: TENFOLD,
    },
    controller_runtime_reconcile_time_seconds: {
      help: 'Duration of a trigger.',
      labels: ['controller'],
      buckets: RECONCILE_TIMES,
    },
    controller_runtime_webhook_latency_seconds: {
      help: 'Duration of an admission request.',
      labels: ['webhook'],
      buckets: TENFOLD,
    },
    informer_processing_latency_seconds: {
      help: 'From when a chunk of events was taken to when it was in the cache.',
      labels: ['name', 'group', 'version', 'resource'],
      buckets: PROCESSING_TIMES,
    },
    rest_client_request_duration_seconds: {
      help: 'Duration of a request to the apiserver, its wait for its turn included; watches are left out.',
      labels: ['verb', 'host'],
      buckets: REQUEST_TIMES,
    },
    rest_client_dns_resolution_duration_seconds: {
      help: "Duration of a look-up of the apiserver's address.",
      labels: ['host'],
      buckets: REQUEST_TIMES,
    },
    rest_client_rate_limiter_duration_seconds: {
      help: 'What a request to the apiserver has waited for its turn.',
      labels: ['verb', 'host'],
      buckets: REQUEST_TIMES,
    },
    rest_client_request_size_bytes: {
      help: 'Size of the body of a request to the apiserver.',
      labels: ['verb', 'host'],
      buckets: REQUEST_SIZES,
    },
    rest_client_response_size_bytes: {
      help: "Size of the body of the apiserver's answer; watches are left out.",
      labels: ['verb', 'host'],
      buckets: REQUEST_SIZES,
    },
    levelhook_event_to_reconcile_seconds: {
      help: 'From when the event was read that woke a key to the start of its run.',
      labels: ['controller'],
      buckets: WAITS,
    },
    levelhook_barrier_wait_seconds: {
      help: 'What a key with a reason to run has waited until the cache showed the writes of its last run.',
      labels: ['controller'],
      buckets: WAITS,
    },
  },
} as const satisfies {
  readonly counters: Readonly<Record<string, Definition>>;
  readonly gauges: Readonly<Record<string, Definition>>;
  readonly histograms: Readonly<Record<string, HistogramDefinition>>;
};
