/** Test files that run together, and when. */
export interface TestGroup {
  /** What the tests of the group hold up, as a clause that begins with "that". */
  readonly protects: string;
  /** The tests, as paths or patterns from the root of the repository. */
  readonly files: readonly string[];
  /** A change in one of these folders or files is a reason to run the group. */
  readonly guards: readonly string[];
  /** Minutes that the group is expected to take on two cores. 0: unknown. */
  readonly minutes: number;
  /**
   * Whether it runs tests that another part has, only longer, and others that take minutes: no test leaves `npm test`
   * for such a group. Default false.
   */
  readonly repeats?: boolean;
  /** The environment of its tests. Default: none. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Whether one file runs at a time, because it measures times or takes the whole machine. Default false. */
  readonly alone?: boolean;
}

/** The part of `npm test` that needs nothing but Node. */
export const UNIT: readonly string[] = [
  'src/**/*.test.ts',
  'functions/**/*.test.ts',
  'infra/{checks,crds,observability,release,site}/**/*.test.ts',
  'test/bench/*.test.ts',
  'test/differential/canonical.test.ts',
];

/** The part of `npm test` that needs a Redis and an apiserver, but for what later parts name. */
export const SYSTEM: readonly string[] = [
  'test/{contract,integration,browser}/**/*.test.ts',
  // A function's own test on a real apiserver, as its author would write it.
  'functions/**/*.cluster.test.ts',
];

/**
 * What `.ci/run` adds to `npm test`: isolation and rights, the faults of Redis and of the gateway, read-your-writes,
 * one list of Kubernetes' own tests, the README's commands, and whether the checks themselves can fail.
 */
export const GATE: readonly string[] = [
  // Isolation and rights.
  'test/integration/line/rights.test.ts',
  'test/integration/reconcile-functions/{names,rights}.test.ts',
  'test/integration/server/{login,login-unavailable}.test.ts',
  'test/integration/credentials/{killed,proxy,token}.test.ts',
  'test/faults/hostile-answers.test.ts',
  // Faults of Redis.
  'test/faults/{dispatch-lease,redis-faults,redis-full,redis-lost-writes,redis-restarts}.test.ts',
  'test/faults/{redis-runs-in-flight,redis-sentinel}.test.ts',
  // Faults of the gateway and the apiserver.
  'test/faults/{gateway-faults,leader-election,loss-etcd,replicas,rolling-updates,stuck-view}.test.ts',
  'test/faults/read-your-writes.test.ts',
  'test/conformance/workloads.test.ts',
  'test/integration/cli/{npm-start,start-on-cluster}.test.ts',
  // Each runs a tool over a throw-away copy of the repository.
  'infra/checks/{check-imports,counts-reporter,package}.test.ts',
];

/**
 * A part of the gate that runs after it, two files at a time: one file sends hundreds of megabytes within the time
 * of a run, and beside other files the other's queue on a Redis Cluster has stalled (README.md, "Not explained").
 */
export const GATE_LATE: readonly string[] = [
  'test/faults/redis-cluster.test.ts',
  'test/integration/credentials/limits.test.ts',
];

/** Runs last and alone, because it bounds how long a tenant waits for another one. */
export const GATE_ALONE: readonly string[] = ['test/faults/hostile-tenant.test.ts'];

/** What `npm run test:nightly` runs, by name. `npm test` and the gate have what these leave. */
export const NIGHTLY: Readonly<Record<string, TestGroup>> = {
  benches: {
    protects: 'that each benchmark runs and prints figures',
    files: ['test/integration/cli/{bench,bench-controllers}.test.ts'],
    guards: ['test/bench', 'test/harness/bench-command.ts'],
    minutes: 8,
  },
  images: {
    protects: 'that the images are built, start without rights of root, and hold nothing that they do not need',
    files: ['test/integration/helm/images.test.ts'],
    guards: ['infra/images', 'infra/helm', 'package.json', 'package-lock.json'],
    minutes: 4,
  },
  helm: {
    protects: 'that the charts install, upgrade and uninstall, take each value, and that Prometheus takes their rules',
    files: [
      'test/integration/helm/{charts,lifecycle,names}.test.ts',
      'test/integration/observability/prometheus.test.ts',
    ],
    guards: [
      'infra/helm',
      'infra/rbac',
      'infra/crds',
      'infra/observability',
      'src/ground/config',
      'src/core/metric-definitions.ts',
      'src/gateway/process',
    ],
    minutes: 3,
  },
  platforms: {
    protects: 'that a function answers alike on Node, Lambda, Workers, Deno and Bun, and one in Go works',
    files: ['test/faults/platforms.test.ts', 'test/integration/examples/11-go.test.ts'],
    guards: ['src/core/json.ts', 'src/contract', 'src/function/platforms', 'src/function/node', 'functions'],
    minutes: 4,
  },
  packages: {
    protects: 'that the packages can be published, installed and used, and that a new project works',
    files: ['test/integration/packages/*.test.ts', 'infra/release/release.test.ts'],
    guards: [
      'package.json',
      'package-lock.json',
      'infra/release',
      'infra/checks/build.ts',
      'src/create',
      'src/cli/crds',
      'src/function',
      'src/kubeconfig',
    ],
    minutes: 4,
  },
  docs: {
    protects: 'that the site of the documents is built, can be searched and read, and has no broken link',
    files: ['test/integration/site/*.test.ts'],
    guards: ['infra/docs', 'infra/site', 'infra/tools', 'infra/adr', 'infra/contract', 'README.md', 'src/function'],
    minutes: 2,
  },
  histories: {
    protects: 'that cache and queue agree with their models through long random histories',
    files: [
      'test/contract/cache-history.property.test.ts',
      'test/integration/workqueue/{history,mutations,refused-starts}.test.ts',
    ],
    guards: [
      'src/gateway/informer/cache',
      'src/gateway/controller/workqueue',
      'src/gateway/informer/reflector',
      'src/contract',
    ],
    minutes: 2,
  },
  commands: {
    protects:
      'that wrong input of each command is told in a sentence, and dev, types, manifests, profiles and queue commands work',
    files: [
      'test/integration/cli/{bad-input,dev,manifest,types}.test.ts',
      'test/integration/server/{dashboard-commands,profiles}.test.ts',
    ],
    guards: ['src/cli', 'src/gateway/http/server', 'src/ground/config', 'src/gateway/http/profiles', 'src/profiler'],
    minutes: 4,
  },
  webhooks: {
    protects: 'that certificates are made and rotate without a refused review, and that strangers fail none',
    files: [
      'test/integration/webhooks/{manifest,own-certificate,rotation}.test.ts',
      'test/faults/{secrets-rotated,strangers,webhooks}.test.ts',
    ],
    guards: ['src/gateway/certificates', 'src/gateway/http/webhooks', 'src/function/webhooks'],
    minutes: 3,
  },
  controllers: {
    protects: 'that the functions in place of Kubernetes controllers, and what any resource asks of the line, work',
    files: [
      'test/integration/line/{deployment,endpoints,hash-slots,namespace,nodes,redis-users}.test.ts',
      'test/integration/line/takeover.test.ts',
      'test/faults/hostile-copies.test.ts',
      'test/integration/informer/{any-resource,events}.test.ts',
      'test/integration/reconcile-functions/{at-rest,life,processor-time}.test.ts',
    ],
    guards: ['functions', 'src/gateway/controller/running', 'src/gateway/registration'],
    minutes: 5,
  },
  differential: {
    protects: 'that objects come to the same with our functions as with kube-controller-manager, field by field',
    files: ['test/differential/differential.test.ts'],
    guards: ['functions', 'src/function/equal.ts', 'test/differential'],
    minutes: 10,
  },
  faults: {
    protects: 'that nothing is lost or run twice while clocks, functions, batches and large objects go wrong',
    files: [
      'test/faults/{batch-lost,churn,circuit-breaker,clocks,deep-objects,function-down}.test.ts',
      'test/integration/apiserver/cut-connection.test.ts',
      'test/faults/{functions-come-and-go,hostile-writes,large-objects,long-runs,misbehaving-client}.test.ts',
      'test/faults/{misbehaving-function,related-objects,rollouts,silent-names,stop-while-cut-off}.test.ts',
      'test/faults/*/*.test.ts',
    ],
    guards: ['src/gateway', 'src/ground', 'test/faults'],
    minutes: 8,
  },
  'large-objects': {
    protects: "that one tenant with many large objects delays no other and does not take all of Redis' memory",
    files: ['test/faults/hostile-{large-objects,memory}.test.ts'],
    guards: [
      'src/gateway/informer/cache',
      'src/ground/redis',
      'src/gateway/informer/reflector',
      'test/faults/hostile-tenant',
    ],
    minutes: 8,
    alone: true,
  },
  conformance: {
    protects: "that Kubernetes' own tests pass with our functions for nodes, endpoints, namespaces and garbage",
    files: ['test/conformance/{endpoints,garbage-collector,namespace,nodes}.test.ts'],
    guards: ['functions', 'test/conformance'],
    minutes: 0,
    alone: true,
  },
  soaks: {
    protects: 'that what the gate tries once holds for half an hour, twenty rounds or a million keys',
    files: [
      'test/faults/{churn,functions-come-and-go,hostile-copies,hostile-tenant,overshoot}.test.ts',
      'test/faults/{read-your-writes,redis-cluster,redis-faults,redis-full,redis-restarts}.test.ts',
      'test/faults/{redis-runs-in-flight,redis-sentinel}.test.ts',
      'test/faults/{replicas,rolling-updates,rollouts}.test.ts',
      'test/contract/{cache-history,cache-reading,related-objects,work-queue-history}.property.test.ts',
      'test/contract/cache-api-fuzz.test.ts',
      'test/integration/line/first-list.test.ts',
      'test/integration/workqueue/{history,mutations}.test.ts',
    ],
    guards: [
      'src/gateway/controller/workqueue',
      'src/gateway/informer/cache',
      'src/gateway/election',
      'src/gateway/recovery',
      'src/gateway/process',
      'src/gateway/controller/dispatch',
    ],
    minutes: 0,
    variables: {
      ROLLOUTS_SECONDS: '600',
      HOSTILE_SECONDS: '1800',
      HOSTILE_COPIES_DRAWS: '10',
      ROUNDS: '40',
      OVERSHOOT_RUNS: '20',
      READ_YOUR_WRITES_RUNS: '1000',
      CACHE_HISTORY_RUNS: '2000',
      CACHE_READING_LISTS: '2000',
      FUZZ_RUNS: '20000',
      FIRST_LIST_OBJECTS: '100000',
      RELATED_ROUNDS: '200',
      QUEUE_ADDS: '1000000',
      QUEUE_ASK_AGAIN_MS: '60000',
      REDIS_FAULTS_ROUNDS: '10',
      REDIS_SENTINEL_LAG: '1',
      REDIS_FULL_SECONDS: '30',
      REDIS_FULL_RUNS: '20',
      CHURN_LONG: '1',
      REPLICAS_LONG: '1',
      REDIS_RESTARTS_LONG: '1',
      ROLLING_UPDATES_LONG: '1',
    },
    alone: true,
    repeats: true,
  },
};

/** The nightly groups that guard one of these files, in the order of the table. */
export function groupsGuarding(files: readonly string[]): string[] {
  const isUnder = (file: string, guarded: string): boolean => file === guarded || file.startsWith(`${guarded}/`);
  return Object.entries(NIGHTLY)
    .filter(([, { guards }]) => files.some((file) => guards.some((guarded) => isUnder(file, guarded))))
    .map(([name]) => name);
}
