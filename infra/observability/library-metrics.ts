/** A metric of a Go library, as the library declares it. */
export interface LibraryMetric {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  /** Upper bounds of a histogram. */
  readonly buckets?: readonly number[];
  /** Why it has no meaning in the gateway. Absent: the gateway has it. */
  readonly meaningless?: string;
}

/** The metrics that one file declares. */
export interface LibraryFile {
  readonly module: string;
  readonly file: string;
  readonly metrics: readonly LibraryMetric[];
}

const COMPONENT_BASE = 'k8s.io/component-base@v0.36.3';
const CONTROLLER_RUNTIME = 'sigs.k8s.io/controller-runtime@v0.25.2';
const CLIENT_GOLANG = 'github.com/prometheus/client_golang@v1.24.0';

/** `ExponentialBuckets(10e-9, 10, count)`, without the rounding errors of Go's multiplication. */
const tenfold = (count: number): number[] => Array.from({ length: count }, (_, at) => Number(`1e${at - 8}`));
const REQUEST_TIMES = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const REQUEST_SIZES = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216];

const NO_RETRIES =
  'ApiClient sends each request once. A 429 or 5xx goes to its caller, which tries again as its own state asks for, ' +
  'and each attempt is one of rest_client_requests_total.';
const EXEC_PLUGIN =
  "client-node runs exec plugins for the gateway and tells neither their exit codes nor their certificates' times. " +
  'A plugin that fails shows as a failed request, and in the log.';
const TRANSPORTS =
  "Go's REST clients share transports through a cache of their TLS configurations. The gateway has one set of " +
  'connections for its one apiserver, and no such cache.';
const NO_CACHE_WAITS =
  'Of a client whose reads wait until its cache has its own writes. Here a run waits, before it starts: ' +
  'levelhook_barrier_wait_seconds.';
const CONTAINER = "prom-client does not have it; a container's limits and traffic are those of cAdvisor.";

/**
 * Every metric that client-go and controller-runtime have, with name, type, labels and buckets as their files declare
 * them. client-go itself declares interfaces alone (`tools/metrics`, `tools/cache`, `tools/leaderelection`,
 * `util/workqueue`). Their names are those of component-base, with which Kubernetes' own controllers register them. The
 * interface `MetricsProvider` of `tools/cache/reflector_metrics.go` has no names there, and client-go 1.36 calls none
 * of its methods. `tools/metrics.ClientCertExpiry` and `ClientCertRotationAge` are the first two of exec plugins.
 */
export const LIBRARY_METRICS: readonly LibraryFile[] = [
  {
    module: COMPONENT_BASE,
    file: 'metrics/prometheus/workqueue/metrics.go',
    metrics: [
      { name: 'workqueue_depth', type: 'gauge', labels: ['name'] },
      { name: 'workqueue_adds_total', type: 'counter', labels: ['name'] },
      { name: 'workqueue_queue_duration_seconds', type: 'histogram', labels: ['name'], buckets: tenfold(10) },
      { name: 'workqueue_work_duration_seconds', type: 'histogram', labels: ['name'], buckets: tenfold(10) },
      { name: 'workqueue_unfinished_work_seconds', type: 'gauge', labels: ['name'] },
      { name: 'workqueue_longest_running_processor_seconds', type: 'gauge', labels: ['name'] },
      { name: 'workqueue_retries_total', type: 'counter', labels: ['name'] },
    ],
  },
  {
    module: COMPONENT_BASE,
    file: 'metrics/prometheus/restclient/metrics.go',
    metrics: [
      {
        name: 'rest_client_request_duration_seconds',
        type: 'histogram',
        labels: ['verb', 'host'],
        buckets: REQUEST_TIMES,
      },
      {
        name: 'rest_client_dns_resolution_duration_seconds',
        type: 'histogram',
        labels: ['host'],
        buckets: REQUEST_TIMES.slice(0, -1),
      },
      { name: 'rest_client_request_size_bytes', type: 'histogram', labels: ['verb', 'host'], buckets: REQUEST_SIZES },
      { name: 'rest_client_response_size_bytes', type: 'histogram', labels: ['verb', 'host'], buckets: REQUEST_SIZES },
      {
        name: 'rest_client_rate_limiter_duration_seconds',
        type: 'histogram',
        labels: ['verb', 'host'],
        buckets: REQUEST_TIMES,
      },
      { name: 'rest_client_requests_total', type: 'counter', labels: ['code', 'method', 'host'] },
      {
        name: 'rest_client_request_retries_total',
        type: 'counter',
        labels: ['code', 'verb', 'host'],
        meaningless: NO_RETRIES,
      },
      { name: 'rest_client_exec_plugin_ttl_seconds', type: 'gauge', labels: [], meaningless: EXEC_PLUGIN },
      {
        name: 'rest_client_exec_plugin_certificate_rotation_age',
        type: 'histogram',
        labels: [],
        buckets: [600, 1800, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000],
        meaningless: EXEC_PLUGIN,
      },
      {
        name: 'rest_client_exec_plugin_call_total',
        type: 'counter',
        labels: ['code', 'call_status'],
        meaningless: EXEC_PLUGIN,
      },
      {
        name: 'rest_client_exec_plugin_policy_call_total',
        type: 'counter',
        labels: ['allowed', 'denied'],
        meaningless: EXEC_PLUGIN,
      },
      { name: 'rest_client_transport_cache_entries', type: 'gauge', labels: [], meaningless: TRANSPORTS },
      {
        name: 'rest_client_transport_create_calls_total',
        type: 'counter',
        labels: ['result'],
        meaningless: TRANSPORTS,
      },
      {
        name: 'rest_client_transport_ca_reload_total',
        type: 'counter',
        labels: ['result', 'reason'],
        meaningless: TRANSPORTS,
      },
      {
        name: 'rest_client_transport_cert_rotation_gc_calls_total',
        type: 'counter',
        labels: [],
        meaningless: TRANSPORTS,
      },
      {
        name: 'rest_client_transport_cache_gc_calls_total',
        type: 'counter',
        labels: ['result'],
        meaningless: TRANSPORTS,
      },
    ],
  },
  {
    module: COMPONENT_BASE,
    file: 'metrics/prometheus/clientgo/fifo/metrics.go',
    metrics: [
      { name: 'informer_queued_items', type: 'gauge', labels: ['name', 'group', 'version', 'resource'] },
      {
        name: 'informer_processing_latency_seconds',
        type: 'histogram',
        labels: ['name', 'group', 'version', 'resource'],
        buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      },
      { name: 'informer_store_resource_version', type: 'gauge', labels: ['name', 'group', 'version', 'resource'] },
    ],
  },
  {
    module: COMPONENT_BASE,
    file: 'metrics/prometheus/clientgo/leaderelection/metrics.go',
    metrics: [
      { name: 'leader_election_master_status', type: 'gauge', labels: ['name'] },
      { name: 'leader_election_slowpath_total', type: 'counter', labels: ['name'] },
    ],
  },
  {
    module: CONTROLLER_RUNTIME,
    file: 'pkg/internal/controller/metrics/metrics.go',
    metrics: [
      { name: 'controller_runtime_reconcile_total', type: 'counter', labels: ['controller', 'result'] },
      { name: 'controller_runtime_reconcile_errors_total', type: 'counter', labels: ['controller'] },
      { name: 'controller_runtime_terminal_reconcile_errors_total', type: 'counter', labels: ['controller'] },
      { name: 'controller_runtime_reconcile_panics_total', type: 'counter', labels: ['controller'] },
      {
        name: 'controller_runtime_reconcile_time_seconds',
        type: 'histogram',
        labels: ['controller'],
        buckets: [
          0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5,
          1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
        ],
      },
      { name: 'controller_runtime_max_concurrent_reconciles', type: 'gauge', labels: ['controller'] },
      { name: 'controller_runtime_active_workers', type: 'gauge', labels: ['controller'] },
      { name: 'controller_runtime_reconcile_timeouts_total', type: 'counter', labels: ['controller'] },
    ],
  },
  {
    module: CONTROLLER_RUNTIME,
    file: 'pkg/internal/metrics/workqueue.go',
    metrics: [
      { name: 'workqueue_depth', type: 'gauge', labels: ['name', 'controller', 'priority'] },
      { name: 'workqueue_adds_total', type: 'counter', labels: ['name', 'controller'] },
      {
        name: 'workqueue_queue_duration_seconds',
        type: 'histogram',
        labels: ['name', 'controller'],
        buckets: tenfold(12),
      },
      {
        name: 'workqueue_work_duration_seconds',
        type: 'histogram',
        labels: ['name', 'controller'],
        buckets: tenfold(12),
      },
      { name: 'workqueue_unfinished_work_seconds', type: 'gauge', labels: ['name', 'controller'] },
      { name: 'workqueue_longest_running_processor_seconds', type: 'gauge', labels: ['name', 'controller'] },
      { name: 'workqueue_retries_total', type: 'counter', labels: ['name', 'controller'] },
    ],
  },
  {
    module: CONTROLLER_RUNTIME,
    file: 'pkg/metrics/client_go_adapter.go',
    metrics: [
      {
        name: 'rest_client_request_duration_seconds',
        type: 'histogram',
        labels: ['verb', 'host'],
        buckets: REQUEST_TIMES,
      },
      {
        name: 'rest_client_dns_resolution_duration_seconds',
        type: 'histogram',
        labels: ['host'],
        buckets: REQUEST_TIMES,
      },
      {
        name: 'rest_client_rate_limiter_duration_seconds',
        type: 'histogram',
        labels: ['verb', 'host'],
        buckets: REQUEST_TIMES,
      },
      { name: 'rest_client_request_size_bytes', type: 'histogram', labels: ['verb', 'host'], buckets: REQUEST_SIZES },
      { name: 'rest_client_response_size_bytes', type: 'histogram', labels: ['verb', 'host'], buckets: REQUEST_SIZES },
      {
        name: 'rest_client_request_retries_total',
        type: 'counter',
        labels: ['code', 'verb', 'host'],
        meaningless: NO_RETRIES,
      },
      { name: 'rest_client_requests_total', type: 'counter', labels: ['code', 'method', 'host'] },
    ],
  },
  {
    module: CONTROLLER_RUNTIME,
    file: 'pkg/metrics/leaderelection.go',
    metrics: [
      { name: 'leader_election_master_status', type: 'gauge', labels: ['name'] },
      { name: 'leader_election_slowpath_total', type: 'counter', labels: ['name'] },
    ],
  },
  {
    module: CONTROLLER_RUNTIME,
    file: 'pkg/webhook/internal/metrics/metrics.go',
    metrics: [
      {
        name: 'controller_runtime_webhook_latency_seconds',
        type: 'histogram',
        labels: ['webhook'],
        buckets: tenfold(12),
      },
      { name: 'controller_runtime_webhook_requests_total', type: 'counter', labels: ['webhook', 'code'] },
      { name: 'controller_runtime_webhook_requests_in_flight', type: 'gauge', labels: ['webhook'] },
    ],
  },
  {
    module: CONTROLLER_RUNTIME,
    file: 'pkg/webhook/admission/metrics/metrics.go',
    metrics: [{ name: 'controller_runtime_webhook_panics_total', type: 'counter', labels: [] }],
  },
  {
    module: CONTROLLER_RUNTIME,
    file: 'pkg/webhook/conversion/metrics/metrics.go',
    metrics: [{ name: 'controller_runtime_conversion_webhook_panics_total', type: 'counter', labels: [] }],
  },
  {
    module: CONTROLLER_RUNTIME,
    file: 'pkg/certwatcher/metrics/metrics.go',
    metrics: [
      { name: 'certwatcher_read_certificate_total', type: 'counter', labels: [] },
      { name: 'certwatcher_read_certificate_errors_total', type: 'counter', labels: [] },
    ],
  },
  {
    module: CONTROLLER_RUNTIME,
    file: 'pkg/client/consistency.go',
    metrics: [
      {
        name: 'controller_runtime_client_consistency_wait_duration_seconds',
        type: 'histogram',
        labels: ['operation', 'result'],
        buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 6, 8, 10],
        meaningless: NO_CACHE_WAITS,
      },
    ],
  },
  {
    // controller-runtime registers this collector, and the one of Go's runtime, whose go_* have no meaning in Node.
    module: CLIENT_GOLANG,
    file: 'prometheus/process_collector.go',
    metrics: [
      { name: 'process_cpu_seconds_total', type: 'counter', labels: [] },
      { name: 'process_open_fds', type: 'gauge', labels: [] },
      { name: 'process_max_fds', type: 'gauge', labels: [] },
      { name: 'process_virtual_memory_bytes', type: 'gauge', labels: [] },
      { name: 'process_virtual_memory_max_bytes', type: 'gauge', labels: [], meaningless: CONTAINER },
      { name: 'process_resident_memory_bytes', type: 'gauge', labels: [] },
      { name: 'process_start_time_seconds', type: 'gauge', labels: [] },
      { name: 'process_network_receive_bytes_total', type: 'counter', labels: [], meaningless: CONTAINER },
      { name: 'process_network_transmit_bytes_total', type: 'counter', labels: [], meaningless: CONTAINER },
    ],
  },
];
