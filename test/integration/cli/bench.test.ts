import { afterEach, expect, it } from 'vitest';
import { benchCommand, type BenchResults, resultsOf } from '../../harness/bench-command.ts';
import type { UserCommand } from '../../harness/user-command.ts';

let command: UserCommand | undefined;
afterEach(() => command?.clean());

async function run(name: string, env: Readonly<Record<string, string>>): Promise<BenchResults> {
  command = benchCommand(name, env);
  return resultsOf(name, command);
}

it('npm run bench line has figures of all arms and parts, and leaves no process', async () => {
  const [table, plot] = await run('line', { BENCH_OBJECTS: '200', BENCH_SECONDS: '1' });
  const arms = ['prototype', 'controller-runtime', 'informer', 'levelhook'];
  expect(table.get('')?.slice(0, 4)).toEqual(arms);
  const single = [
    '**Start** with 100 objects: first key after, s',
    '**Burst**: each of 200 reconciled after, s',
    'CPU with start-up, s',
    '**200 changes with a write each**: all written after, s',
    'peak memory of the whole run, all, MB',
  ];
  for (const label of single) {
    for (const value of table.get(label)?.slice(0, 4) ?? [undefined]) expect(Number(value), label).toBeGreaterThan(0);
  }
  for (const value of table.get('p99, ms')?.slice(0, 4) ?? []) expect(value).toMatch(/^-?\d/);
  // One script at least applies the objects, and three figures are those of Redis.
  const redis = table.get('for each key: Redis scripts, commands, reads') ?? [];
  expect(redis.slice(0, 4).map((cell) => cell.split(', ').length)).toEqual([3, 1, 1, 3]);
  for (const arm of arms) expect(plot).toContain(`>${arm}</text>`);
}, 900_000);

it('npm run bench failover has figures of both arms, loses nothing, and leaves no process', async () => {
  const [table] = await run('failover', { BENCH_OBJECTS: '200', BENCH_SECONDS: '1' });
  expect(table.get('')?.slice(0, 2)).toEqual(['controller-runtime', 'levelhook']);
  for (const signal of ['SIGKILL', 'SIGTERM']) {
    const waits = table.get(`${signal} of the leader: longest wait of a change, s`) ?? [];
    for (const wait of waits.slice(0, 2)) expect(Number(wait), signal).toBeGreaterThan(0);
  }
  const [listsOfOther = '', lists = ''] = table.get('lists of all objects') ?? [];
  expect([Number(listsOfOther) > 0, Number(lists)]).toEqual([true, 0]);
  const [, lost = ''] = table.get('changes that no run has seen') ?? [];
  expect([lost, Number(lost)]).toEqual([expect.stringMatching(/^0/), 0]);
}, 600_000);

it('npm run bench replicas has figures of one, two and three replicas, and leaves no process', async () => {
  const [table] = await run('replicas', { BENCH_OBJECTS: '200', BENCH_SECONDS: '1' });
  expect(table.get('')?.slice(0, 3)).toEqual(['one replica', '2 replicas', '3 replicas']);
  for (const rate of table.get('keys a second')?.slice(0, 3) ?? [undefined]) expect(Number(rate)).toBeGreaterThan(0);
}, 600_000);

it('npm run bench rest has figures of gateway and operators, no request, and leaves no process', async () => {
  const [table] = await run('rest', { BENCH_FUNCTIONS: '3', BENCH_OPERATORS: '1', BENCH_SECONDS: '1' });
  expect(table.get('')?.slice(0, 2)).toEqual(['controller-runtime, 1 operators', 'levelhook, 3 functions']);
  expect(table.get('requests to functions')?.[1]).toBe('0.00');
  const memory = table.get('memory, MB: of all operators; of gateway and Redis') ?? [];
  for (const value of memory.slice(0, 2)) expect(Number(value)).toBeGreaterThan(0);
}, 600_000);

it('npm run bench webhooks has figures of all arms, and leaves no process', async () => {
  const [table] = await run('webhooks', { BENCH_REVIEWS: '20' });
  const arms = ['no webhook', 'controller-runtime', 'direct', 'through the gateway'];
  expect(table.get('')?.slice(0, 4)).toEqual(arms);
  for (const value of table.get('a dry-run create, p50, ms')?.slice(0, 4) ?? [undefined]) {
    expect(Number(value)).toBeGreaterThan(0);
  }
  for (const value of table.get('added by the webhook, p50, ms')?.slice(1, 4) ?? []) expect(value).toMatch(/^-?\d/);
}, 600_000);
