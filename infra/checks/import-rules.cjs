/**
 * Who may import whom, as rules for dependency-cruiser. Run by check-imports.ts, which also makes sure that
 * every file was really read.
 *
 * Type-only imports count like any other: a layer that needs another layer's types knows that layer.
 * Paths are relative to the repository; npm packages appear as `.../node_modules/<name>/...`, node: modules by bare name
 * with the dependency type `core`.
 */

/** What gateway and command line stand on: an entry may import those before it, never those after it. */
const GROUND = [
  'config',
  'json-weight.ts',
  'time-slice.ts',
  'listener.ts',
  'handshake-rates.ts',
  'client-connections.ts',
  'redis',
  'apiserver',
];

/** Inside the gateway imports follow the flow of data: an entry may import those before it, never those after it. */
const GATEWAY_FLOW = [
  'certificates',
  'informer/reflector',
  'informer/cache',
  'controller/cel',
  'controller/handlers',
  'controller/workqueue',
  'controller/endpoint',
  'controller/access',
  'controller/dispatch',
  'controller/running',
  'registration',
  'election',
  'recovery',
  'process',
  'http/cache-api',
  'http/write-proxy',
  'http/webhooks',
  'http/login',
  'http/dashboard',
  'http/profiles',
  'http/server',
  'gateway.ts',
  'index.ts',
];

/** The only files that may import each of these packages. */
const HOMES = {
  ioredis: [
    'src/gateway/gateway[.]ts$',
    'src/ground/redis/',
    'src/gateway/(informer/cache|controller/workqueue|controller/access)/',
    'src/function/node/',
    'src/testing/',
  ],
  bullmq: ['src/gateway/controller/workqueue/worker/bullmq-jobs[.]ts$'],
  '@kubernetes/client-node': ['src/kubeconfig/cluster-access[.]ts$', 'src/function/node/'],
  'prom-client': ['src/gateway/process/metrics[.]ts$'],
  '@bufbuild': ['src/gateway/controller/cel/'],
  commander: ['src/cli/'],
  rfc6902: ['src/function/webhooks/json-patch[.]ts$'],
  'json-schema-to-typescript': ['src/cli/crd-types[.]ts$'],
  'ts-json-schema-generator': ['src/cli/crds/kinds[.]ts$'],
  'pprof-format': ['src/gateway/http/profiles/'],
  '@opentelemetry': ['src/gateway/process/opentelemetry-traces[.]ts$'],
  zod: ['src/(ground|gateway)/', 'src/contract/.*schema[^/]*[.]ts$', 'src/(cli|testing)/'],
};

/** Tests beside their file use vitest, fast-check and node: modules. They keep to the layers all the same. */
const TESTS = '[.]test[.]ts$';

const oneOf = (paths) => `^(${paths.join('|')})`;
const npm = (name) => `(^|/)node_modules/${name}/`;
const part = (folder, name) =>
  `^src/${folder}/${name.endsWith('.ts') ? `${name.slice(0, -3)}([.]test)?[.]ts$` : `${name}/`}`;

const layers = [
  {
    name: 'core-imports-nothing',
    from: { path: '^src/core/', pathNot: TESTS },
    to: { pathNot: '^src/core/' },
  },
  {
    name: 'contract-imports-core',
    from: { path: '^src/contract/', pathNot: [TESTS, '^src/contract/node/'] },
    to: { pathNot: ['^src/(core|contract)/', npm('zod')] },
  },
  {
    name: 'contract-is-not-for-node',
    comment: 'The edge imports the contract; whatever needs a node: module lives in contract/node.',
    from: { path: '^src/contract/', pathNot: [TESTS, '^src/contract/node/'] },
    to: { path: '^src/contract/node/' },
  },
  {
    name: 'contract-node-imports-contract',
    from: { path: '^src/contract/node/', pathNot: TESTS },
    to: { pathNot: '^src/(core|contract)/', dependencyTypesNot: ['core'] },
  },
  {
    name: 'gateway-and-function-never-meet',
    from: { path: '^src/(gateway|function)/' },
    to: { path: '^src/(gateway|function)/', pathNot: '^src/$1/' },
  },
  {
    name: 'function-runs-at-the-edge',
    comment: 'Redis reads and client-node writes are opt-in: levelhook/function/node.',
    from: { path: '^src/function/', pathNot: [TESTS, '^src/function/node/'] },
    to: { pathNot: ['^src/(core|contract|function)/', npm('hono'), npm('rfc6902')] },
  },
  {
    name: 'webhooks-are-an-entry-of-their-own',
    comment: 'A bundle without webhooks has no code of them.',
    from: { path: '^src/function/', pathNot: [TESTS, '^src/function/webhooks/'] },
    to: { path: '^src/function/webhooks/' },
  },
  {
    name: 'function-is-not-for-node',
    from: { path: '^src/function/', pathNot: [TESTS, '^src/function/node/'] },
    to: { path: ['^src/function/node/', '^src/contract/node/'] },
  },
  {
    name: 'kubeconfig-imports-core',
    from: { path: '^src/kubeconfig/', pathNot: TESTS },
    to: { path: '^src/', pathNot: '^src/(core|kubeconfig)/' },
  },
  {
    name: 'ground-imports-core',
    from: { path: '^src/ground/', pathNot: TESTS },
    to: { path: '^src/', pathNot: '^src/(core|contract|kubeconfig|ground)/' },
  },
  {
    name: 'ground-is-not-for-functions',
    from: { path: '^src/(core|contract|function)/', pathNot: TESTS },
    to: { path: '^src/ground/' },
  },
  {
    name: 'home-of-kubeconfig',
    from: {
      path: '^src/(core|contract|ground|gateway|function)/',
      pathNot: ['^src/ground/apiserver/', '^src/function/node/'],
    },
    to: { path: '^src/kubeconfig/' },
  },
  {
    name: 'memory-imports-nothing',
    from: { path: '^src/memory/', pathNot: TESTS },
    to: { pathNot: '^src/memory/', dependencyTypesNot: ['core'] },
  },
  {
    name: 'home-of-memory',
    comment: 'It changes options of V8: only the start of a program may.',
    from: { path: '^src/', pathNot: ['^src/memory/', '^src/cli/', '^src/function/node/serve[.]ts$'] },
    to: { path: '^src/memory/' },
  },
  {
    name: 'profiler-imports-contract',
    from: { path: '^src/profiler/', pathNot: TESTS },
    to: { pathNot: '^src/(core|contract|profiler)/', dependencyTypesNot: ['core'] },
  },
  {
    name: 'home-of-profiler',
    from: { path: '^src/', pathNot: ['^src/profiler/', '^src/gateway/http/server/', '^src/function/node/'] },
    to: { path: '^src/profiler/' },
  },
  {
    name: 'create-imports-core',
    comment: 'npm downloads it before its first question: it is one small file.',
    from: { path: '^src/create/', pathNot: TESTS },
    to: { pathNot: '^src/(core|create)/', dependencyTypesNot: ['core'] },
  },
  {
    name: 'home-of-create',
    from: { path: '^src/', pathNot: ['^src/create/', '^src/cli/'] },
    to: { path: '^src/create/' },
  },
  {
    name: 'testing-and-cli-on-top',
    from: { path: '^src/(core|contract|kubeconfig|memory|profiler|ground|gateway|function)/' },
    to: { path: '^src/(testing|cli)/' },
  },
  {
    name: 'cli-above-testing',
    from: { path: '^src/testing/' },
    to: { path: '^src/cli/' },
  },
];

/** A rule for each part of a folder, and two for a part that has no place in the flow. */
const flow = (folder, parts) => {
  const paths = parts.map((name) => part(folder, name));
  const unknown = `${folder}-flow-unknown-part`;
  return [
    ...parts.slice(0, -1).map((name, index) => ({
      name: `${folder}-flow-${name.replace('.ts', '').replace('/', '-')}`,
      from: { path: part(folder, name) },
      to: { path: paths.slice(index + 1) },
    })),
    {
      name: unknown,
      comment: 'A new part gets its place in the flow, or it would be bound by no rule.',
      from: {},
      to: { path: `^src/${folder}/`, pathNot: paths },
    },
    { name: unknown, from: { path: `^src/${folder}/`, pathNot: paths }, to: {} },
  ];
};

const flows = [...flow('ground', GROUND), ...flow('gateway', GATEWAY_FLOW)];

const homes = Object.entries(HOMES).map(([name, files]) => ({
  name: `home-of-${name.replace(/^@/, '').replace('/', '-')}`,
  from: { path: '^(src|functions)/', pathNot: [TESTS, oneOf(files)] },
  to: { path: npm(name) },
}));

const functions = [
  {
    name: 'functions-own-folder-only',
    comment: 'Each built-in controller and each example is deployable alone, with what it takes from lib.',
    from: { path: '^functions/(examples/[^/]+|[^/]+)/', pathNot: TESTS },
    to: { pathNot: ['^functions/$1/', '^functions/lib/', '^src/', npm('hono'), npm('@hono/node-server')] },
  },
  {
    name: 'examples-need-no-lib',
    comment: 'They show what the package alone gives to a stranger.',
    from: { path: '^functions/examples/' },
    to: { path: '^functions/lib/' },
  },
  {
    name: 'functions-import-by-package-name',
    comment: 'As a stranger would: levelhook/function, not ../../src. A self-reference has no `local` type.',
    from: { path: '^functions/' },
    to: { path: '^src/', dependencyTypes: ['local'], dependencyTypesNot: ['aliased'] },
  },
];

const everywhere = [
  { name: 'no-cycles', from: {}, to: { circular: true } },
  { name: 'no-unresolvable', from: {}, to: { couldNotResolve: true } },
  {
    name: 'no-dev-dependencies',
    comment: 'The package is installed without devDependencies.',
    from: { path: '^(src|functions)/', pathNot: TESTS },
    // An optional peer is also a dev dependency: the code that needs it asks for it.
    to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['npm-peer'] },
  },
  {
    name: 'no-test-imports',
    from: { path: '^(src|functions)/', pathNot: TESTS },
    to: { path: [TESTS, '^(test|infra)/'] },
  },
];

/** @type {import('dependency-cruiser').IConfiguration & { readonly gatewayFlow: readonly string[] }} */
module.exports = {
  // For the test of the table in src/gateway/README.md.
  gatewayFlow: GATEWAY_FLOW,
  forbidden: [...layers, ...flows, ...homes, ...functions, ...everywhere].map((rule) => ({
    ...rule,
    severity: 'error',
  })),
  options: {
    // Trap: without this the type-only imports are gone before the rules see them.
    tsPreCompilationDeps: true,
    // Trap: dependency-cruiser cannot use TypeScript 7. With neither swc nor this line it passes over 0 modules.
    parser: 'swc',
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      // Our own package (levelhook/function and so on) resolves to its sources, never to a stale dist.
      conditionNames: ['levelhook-source', 'import', 'node', 'default', 'types'],
      mainFields: ['main', 'types'],
      extensions: ['.ts', '.js', '.json'],
    },
  },
};
