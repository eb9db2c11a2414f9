import { expect, test } from 'vitest';
import rules from './import-rules.cjs';
import { type Finished, TempRepository } from './temp-repository.ts';

/** What every layer may do; each planted violation below is added to this tree. */
const clean: Record<string, string> = {
  'src/core/index.ts': `export { key } from './key.ts';`,
  'src/core/key.ts': `export const key = 'k';`,
  'src/core/key.test.ts': `import { test } from 'vitest'; import { key } from './key.ts'; test(key, () => {});`,
  'src/contract/index.ts': `export { key } from '../core/index.ts'; export { type Shape } from './shape-schema.ts';`,
  'src/contract/shape-schema.ts': `import { z } from 'zod'; export const shape = z.string(); export type Shape = string;`,
  'src/contract/node/codec.ts': `import { gzipSync } from 'node:zlib'; export { key } from '../index.ts'; export { gzipSync };`,
  'src/function/index.ts': `import { Hono } from 'hono'; export { key } from '../contract/index.ts'; export const app = new Hono();`,
  'src/function/node/index.ts': `import 'ioredis'; import '@kubernetes/client-node'; import 'node:fs'; export { app } from '../index.ts';`,
  'src/function/webhooks/index.ts': `export { patch } from './json-patch.ts';`,
  'src/function/webhooks/json-patch.ts': `import { createPatch as patch } from 'rfc6902'; export { patch };`,
  'src/gateway/index.ts': `export { gateway } from './gateway.ts'; export { config } from '../ground/config/config.ts';`,
  'src/ground/config/config.ts': `import { z } from 'zod'; export { key as config } from '../../core/index.ts'; export { z };`,
  'src/ground/redis/redis.ts': `import { Redis } from 'ioredis'; export { config } from '../config/config.ts'; export { Redis };`,
  'src/kubeconfig/cluster-access.ts': `import '@kubernetes/client-node'; import 'yaml'; export { key as access } from '../core/index.ts';`,
  'src/create/project.ts': `import 'node:fs'; export { key as project } from '../core/index.ts';`,
  'src/memory/index.ts': `import 'node:v8'; export const memory = 1;`,
  'src/profiler/profiler.ts': `import 'node:inspector'; export { gzipSync as profiler } from '../contract/node/codec.ts';`,
  'src/ground/apiserver/credentials.ts': `export { access as credentials } from '../../kubeconfig/cluster-access.ts';`,
  'src/gateway/informer/cache/index.ts': `import type { Redis } from 'ioredis'; export { credentials } from '../../../ground/apiserver/credentials.ts'; export type { Redis };`,
  'src/gateway/controller/workqueue/worker/bullmq-jobs.ts': `import { Queue } from 'bullmq'; export { Queue };`,
  'src/gateway/process/metrics.ts': `import 'prom-client'; import 'pino'; export const metrics = 1;`,
  'src/gateway/http/server/gateway-server.ts': `export const dashboard = 1;`,
  'src/gateway/gateway.ts': `export { dashboard as gateway } from './http/server/gateway-server.ts'; import './informer/cache/index.ts'; import 'ioredis';`,
  'src/testing/index.ts': `export { gateway } from '../gateway/index.ts'; export { app } from '../function/index.ts'; import 'ioredis';`,
  'src/cli/levelhook.ts': `import { Command } from 'commander'; export { gateway } from '../gateway/index.ts'; export { Command };`,
  'functions/hello/index.ts': `import { serve } from '@hono/node-server'; import { app } from 'levelhook/function'; import './own.ts'; serve(app);`,
  'functions/hello/own.ts': `export { shared as own } from '../lib/shared.ts';`,
  'functions/lib/shared.ts': `export const shared = 1;`,
  'functions/examples/01-minimal/index.ts': `export { app } from 'levelhook/function'; import 'hono';`,
};

/** `rule` must be reported for an import of `to` in the new file `from`. */
interface Violation {
  rule: string;
  from: string;
  to: string;
}

const gatewayFlow = [
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
];

const violations: Violation[] = [
  { rule: 'core-imports-nothing', from: 'src/core/a.ts', to: 'node:fs' },
  { rule: 'core-imports-nothing', from: 'src/core/b.ts', to: 'hono' },
  { rule: 'core-imports-nothing', from: 'src/core/c.ts', to: '../contract/index.ts' },
  { rule: 'contract-imports-core', from: 'src/contract/a.ts', to: 'node:crypto' },
  { rule: 'contract-imports-core', from: 'src/contract/b.ts', to: 'hono' },
  { rule: 'contract-imports-core', from: 'src/contract/c.ts', to: '../ground/config/config.ts' },
  { rule: 'ground-imports-core', from: 'src/ground/config/a.ts', to: '../../gateway/gateway.ts' },
  { rule: 'ground-is-not-for-functions', from: 'src/function/node/d.ts', to: '../../ground/config/config.ts' },
  { rule: 'contract-is-not-for-node', from: 'src/contract/d.ts', to: './node/codec.ts' },
  { rule: 'contract-node-imports-contract', from: 'src/contract/node/a.ts', to: '../../function/index.ts' },
  { rule: 'contract-node-imports-contract', from: 'src/contract/node/b.ts', to: 'pino' },
  {
    rule: 'gateway-and-function-never-meet',
    from: 'src/gateway/controller/dispatch/a.ts',
    to: '../../../function/index.ts',
  },
  { rule: 'gateway-and-function-never-meet', from: 'src/function/a.ts', to: '../gateway/gateway.ts' },
  { rule: 'gateway-and-function-never-meet', from: 'src/function/node/a.ts', to: '../../gateway/process/metrics.ts' },
  ...['ioredis', 'bullmq', '@kubernetes/client-node', 'prom-client', 'pino', 'undici', 'zod', 'node:crypto'].map(
    (to, index) => ({ rule: 'function-runs-at-the-edge', from: `src/function/edge-${index}.ts`, to }),
  ),
  { rule: 'function-is-not-for-node', from: 'src/function/b.ts', to: './node/index.ts' },
  { rule: 'function-is-not-for-node', from: 'src/function/c.ts', to: '../contract/node/codec.ts' },
  {
    rule: 'webhooks-are-an-entry-of-their-own',
    from: 'src/function/f.ts',
    to: './webhooks/index.ts',
  },
  { rule: 'kubeconfig-imports-core', from: 'src/kubeconfig/a.ts', to: '../contract/index.ts' },
  { rule: 'home-of-kubeconfig', from: 'src/gateway/informer/cache/b.ts', to: '../../../kubeconfig/cluster-access.ts' },
  { rule: 'home-of-kubeconfig', from: 'src/function/e.ts', to: '../kubeconfig/cluster-access.ts' },
  { rule: 'memory-imports-nothing', from: 'src/memory/a.ts', to: '../core/index.ts' },
  { rule: 'home-of-memory', from: 'src/gateway/informer/cache/c.ts', to: '../../../memory/index.ts' },
  { rule: 'home-of-memory', from: 'src/function/node/a.ts', to: '../../memory/index.ts' },
  { rule: 'profiler-imports-contract', from: 'src/profiler/a.ts', to: '../memory/index.ts' },
  { rule: 'profiler-imports-contract', from: 'src/profiler/b.ts', to: 'pino' },
  { rule: 'home-of-profiler', from: 'src/gateway/informer/cache/d.ts', to: '../../../profiler/profiler.ts' },
  { rule: 'home-of-profiler', from: 'src/function/f.ts', to: '../profiler/profiler.ts' },
  { rule: 'testing-and-cli-on-top', from: 'src/gateway/informer/cache/a.ts', to: '../../../testing/index.ts' },
  { rule: 'testing-and-cli-on-top', from: 'src/function/d.ts', to: '../cli/levelhook.ts' },
  { rule: 'cli-above-testing', from: 'src/testing/a.ts', to: '../cli/levelhook.ts' },
  { rule: 'ground-flow-config', from: 'src/ground/config/later.ts', to: '../apiserver/credentials.ts' },
  { rule: 'ground-flow-listener', from: 'src/ground/listener.ts', to: './redis/redis.ts' },
  { rule: 'ground-flow-client-connections', from: 'src/ground/client-connections.ts', to: './redis/redis.ts' },
  { rule: 'ground-flow-handshake-rates', from: 'src/ground/handshake-rates.ts', to: './redis/redis.ts' },
  { rule: 'ground-flow-json-weight', from: 'src/ground/json-weight.ts', to: './redis/redis.ts' },
  { rule: 'ground-flow-time-slice', from: 'src/ground/time-slice.ts', to: './redis/redis.ts' },
  { rule: 'ground-flow-redis', from: 'src/ground/redis/later.ts', to: '../apiserver/credentials.ts' },
  { rule: 'ground-flow-unknown-part', from: 'src/ground/misc/a.ts', to: '../config/config.ts' },
  ...gatewayFlow.map((part) => ({
    rule: `gateway-flow-${part.replace('/', '-')}`,
    from: `src/gateway/${part}/later.ts`,
    to: `${part.includes('/') ? '../..' : '..'}/http/server/gateway-server.ts`,
  })),
  {
    rule: 'gateway-flow-controller-handlers',
    from: 'src/gateway/controller/handlers/next.ts',
    to: '../workqueue/worker/bullmq-jobs.ts',
  },
  { rule: 'gateway-flow-http-server', from: 'src/gateway/http/server/a.ts', to: '../../gateway.ts' },
  { rule: 'gateway-flow-gateway', from: 'src/gateway/gateway.ts', to: './index.ts' },
  { rule: 'gateway-flow-unknown-part', from: 'src/gateway/misc/a.ts', to: '../../ground/config/config.ts' },
  { rule: 'home-of-ioredis', from: 'src/gateway/controller/dispatch/b.ts', to: 'ioredis' },
  { rule: 'home-of-bullmq', from: 'src/gateway/controller/workqueue/a.ts', to: 'bullmq' },
  { rule: 'home-of-kubernetes-client-node', from: 'src/ground/apiserver/a.ts', to: '@kubernetes/client-node' },
  { rule: 'home-of-prom-client', from: 'src/gateway/http/server/b.ts', to: 'prom-client' },
  { rule: 'home-of-bufbuild', from: 'src/gateway/controller/handlers/b.ts', to: '@bufbuild/cel' },
  { rule: 'home-of-commander', from: 'src/gateway/http/server/c.ts', to: 'commander' },
  { rule: 'home-of-rfc6902', from: 'src/function/webhooks/a.ts', to: 'rfc6902' },
  { rule: 'create-imports-core', from: 'src/create/a.ts', to: '../contract/index.ts' },
  { rule: 'home-of-create', from: 'src/testing/c.ts', to: '../create/project.ts' },
  { rule: 'home-of-ts-json-schema-generator', from: 'src/cli/other.ts', to: 'ts-json-schema-generator' },
  { rule: 'home-of-json-schema-to-typescript', from: 'src/cli/other.ts', to: 'json-schema-to-typescript' },
  { rule: 'home-of-opentelemetry', from: 'src/gateway/http/server/f.ts', to: '@opentelemetry/api' },
  { rule: 'home-of-pprof-format', from: 'src/gateway/http/server/e.ts', to: 'pprof-format' },
  { rule: 'home-of-zod', from: 'src/contract/e.ts', to: 'zod' },
  { rule: 'functions-own-folder-only', from: 'functions/hello/a.ts', to: 'node:fs' },
  { rule: 'functions-own-folder-only', from: 'functions/hello/b.ts', to: 'undici' },
  { rule: 'functions-own-folder-only', from: 'functions/other/a.ts', to: '../hello/own.ts' },
  { rule: 'functions-own-folder-only', from: 'functions/lib/a.ts', to: '../hello/own.ts' },
  { rule: 'examples-need-no-lib', from: 'functions/examples/02-next/b.ts', to: '../../lib/shared.ts' },
  { rule: 'functions-own-folder-only', from: 'functions/examples/02-next/a.ts', to: '../01-minimal/index.ts' },
  { rule: 'functions-import-by-package-name', from: 'functions/hello/c.ts', to: '../../src/function/index.ts' },
  { rule: 'no-cycles', from: 'src/core/cycle-a.ts', to: './cycle-b.ts' },
  { rule: 'no-unresolvable', from: 'src/core/d.ts', to: './nowhere.ts' },
  { rule: 'no-unresolvable', from: 'functions/hello/d.ts', to: 'levelhook/nowhere' },
  { rule: 'no-dev-dependencies', from: 'src/testing/b.ts', to: 'vitest' },
  { rule: 'no-test-imports', from: 'src/core/e.ts', to: './key.test.ts' },
];

function checkImports(files: Record<string, string>): Finished {
  using repository = new TempRepository(files);
  return repository.run('infra/checks/check-imports.ts');
}

function planted(statement: (to: string) => string): Record<string, string> {
  const files: Record<string, string> = { ...clean, 'src/core/cycle-b.ts': `import './cycle-a.ts';` };
  for (const { from, to } of violations) files[from] = `${files[from] ?? ''}\n${statement(to)}`;
  return files;
}

test('a tree that keeps to the layers passes', () => {
  const { output, exitCode } = checkImports(clean);
  expect(output).toMatch(/^import rules: \d+ modules, \d+ imports\n$/);
  expect(exitCode).toBe(0);
});

test('every rule has a planted violation', () => {
  const names = new Set(rules.forbidden?.map(({ name }) => name));
  expect(new Set(violations.map(({ rule }) => rule))).toEqual(names);
});

test.each([
  ['an import', (to: string) => `import '${to}';`],
  ['a type-only import', (to: string) => `import type {} from '${to}';`],
  ['a re-export', (to: string) => `export * from '${to}';`],
  ['a dynamic import', (to: string) => `await import('${to}');`],
])('each planted violation is reported by name, as %s', (_, statement) => {
  const { output, exitCode } = checkImports(planted(statement));
  const missed = violations.filter(({ rule, from }) => !output.includes(`${rule}: ${from} -> `));
  expect(missed).toEqual([]);
  expect(exitCode).toBe(1);
});

test('a tree without modules does not pass', () => {
  const { output, exitCode } = checkImports({});
  expect(output).toContain('no-modules');
  expect(exitCode).toBe(1);
});

test('a file that was not read does not pass', () => {
  // What a missing parser looks like: the files are there, but none of them was understood.
  using repository = new TempRepository(clean);
  const { output, exitCode } = repository.run(
    '--input-type=module',
    '--eval',
    `import rules from './infra/checks/import-rules.cjs';
     rules.options.exclude = { path: '^src/ground/' };
     await import('./infra/checks/check-imports.ts');`,
  );
  expect(output).toContain('unread-module: src/ground/config/config.ts');
  expect(exitCode).toBe(1);
});
