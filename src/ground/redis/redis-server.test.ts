import { describe, expect, it } from 'vitest';
import { problemsOf, serverFacts } from './redis-server.ts';

const HEALTHY = {
  redis_version: '7.0.15',
  role: 'master',
  used_memory: '50000000',
  maxmemory: '100000000',
  mem_not_counted_for_evict: '0',
  maxmemory_policy: 'noeviction',
  aof_enabled: '1',
  rdb_last_bgsave_status: 'ok',
  aof_last_bgrewrite_status: 'ok',
  aof_last_write_status: 'ok',
};
const CONFIG = { policy: 'noeviction', save: '' };

function found(
  fields: Readonly<Record<string, string | undefined>>,
  config: Partial<typeof CONFIG> | { save: undefined } = {},
): string[] {
  const lines = Object.entries({ ...HEALTHY, ...fields }).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}:${value}`],
  );
  const facts = serverFacts(`# Server\r\n${lines.join('\r\n')}\r\n`, { ...CONFIG, ...config });
  return problemsOf(facts).map(({ problem, stops, reason }) => `${problem}${stops ? ' stops' : ''}: ${reason}`);
}

describe('what is wrong with a Redis server', () => {
  it('is nothing when it does not evict, writes to disk, and has memory', () => {
    expect(found({})).toEqual([]);
    expect(found({ aof_enabled: '0' }, { save: '3600 1 300 100' })).toEqual([]);
  });

  it.each(['5.0.14', '6.0.16', '6.1.240'])('is its version %s, which lacks a command', (version) => {
    expect(found({ redis_version: version })).toEqual([
      `version stops: Redis is version ${version}, and levelhook needs 6.2.0 or later: update it`,
    ]);
  });

  it.each(['6.2.0', '6.2.14', '7.0.0', '8.0-rc1', '10.0.0'])('is not its version %s', (version) => {
    expect(found({ redis_version: version })).toEqual([]);
  });

  it('names Valkey by its own name and version', () => {
    const facts = serverFacts('redis_version:7.2.4\nvalkey_version:8.1.0\nrole:master\n', CONFIG);
    expect(facts).toMatchObject({ product: 'Valkey', version: '8.1.0', redisVersion: '7.2.4' });
    expect(problemsOf(facts)).toEqual([]);
  });

  it('is that it is a replica', () => {
    expect(found({ role: 'slave', master_host: '10.0.0.1', master_port: '6379' })).toEqual([
      'role stops: Redis is a replica of 10.0.0.1:6379: name the master in REDIS_URL',
    ]);
  });

  it('is a policy under which it evicts', () => {
    expect(found({}, { policy: 'allkeys-lru' })).toEqual([
      'eviction stops: maxmemory-policy is allkeys-lru, under which Redis deletes data: set it to noeviction',
    ]);
  });

  it('is that it keeps nothing on disk, if it says so', () => {
    const nothing = [
      'persistence: Redis keeps no data on disk, and a restart loses all backoffs and dead letters: set appendonly to yes',
    ];
    expect(found({ aof_enabled: '0' })).toEqual(nothing);
    // A hosted Redis hides its configuration.
    expect(found({ aof_enabled: '0' }, { save: undefined })).toEqual([]);
  });

  it.each(['rdb_last_bgsave_status', 'aof_last_bgrewrite_status', 'aof_last_write_status'])(
    'is that it failed to write to disk: %s',
    (name) => {
      expect(found({ [name]: 'err' })).toEqual([
        `persistence: Redis failed to write its data to disk (${name}): look at its log and its disk`,
      ]);
    },
  );

  it.each([
    ['89999999', []],
    [
      '90000000',
      [
        'memory: Redis uses 90 % of its memory (85.8 MiB of maxmemory 95.4 MiB): raise maxmemory or free some before the gateway has to pause',
      ],
    ],
  ])('is memory from 90 %% of the limit: %s of 100000000 bytes', (used, expected) => {
    expect(found({ used_memory: used })).toEqual(expected);
  });

  it('counts no buffers of replicas, and needs no limit', () => {
    expect(found({ used_memory: '95000000', mem_not_counted_for_evict: '10000000' })).toEqual([]);
    expect(found({ used_memory: '95000000', maxmemory: '0' })).toEqual([]);
  });

  it('is nothing that the server does not tell', () => {
    expect(problemsOf(serverFacts('', { policy: undefined, save: undefined }))).toEqual([]);
  });
});
