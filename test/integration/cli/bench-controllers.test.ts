import { afterEach, expect, it } from 'vitest';
import { benchCommand, resultsOf } from '../../harness/bench-command.ts';
import type { UserCommand } from '../../harness/user-command.ts';

const ARMS = ['kube-controller-manager', 'levelhook'];
let command: UserCommand | undefined;
afterEach(() => command?.clean());

it.each([
  {
    name: 'rollout',
    load: { BENCH_DEPLOYMENTS: '2', BENCH_REPLICAS: '2', BENCH_NODES: '2' },
    rows: ['until all pods are available, s', 'CPU, s', 'writes', 'of them pods'],
  },
  {
    name: 'namespaces',
    load: { BENCH_NAMESPACES: '2' },
    rows: ['until the last one is gone, s', 'CPU, s', 'writes', 'of them deletecollection'],
  },
  {
    name: 'endpoints',
    load: { BENCH_SERVICES: '4', BENCH_PODS: '20', BENCH_NODES: '2', BENCH_CHANGES: '1' },
    rows: ['until all endpoints are right, s', 'CPU, s', 'writes', 'slices'],
  },
  {
    name: 'nodes',
    load: { BENCH_NODES: '3' },
    rows: [
      'one zone silent: until all its nodes are Unknown, s',
      'until all their pods are evicted, s',
      'all back: until no taint is left, s',
      'writes',
    ],
  },
])(
  'npm run bench $name has figures of both arms, and leaves no process',
  { timeout: 600_000 },
  async ({ name, load, rows }) => {
    command = benchCommand(name, load);
    const [table, plot] = await resultsOf(name, command);
    expect(table.get('')?.slice(0, 2)).toEqual(ARMS);
    for (const label of rows) {
      for (const value of table.get(label)?.slice(0, 3) ?? [undefined]) expect(Number(value), label).toBeGreaterThan(0);
    }
    for (const arm of ARMS) expect(plot).toContain(`>${arm}</text>`);
  },
);
