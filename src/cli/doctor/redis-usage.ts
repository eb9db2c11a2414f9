import { masters } from '../../ground/redis/cluster.ts';
import type { Redis } from '../../ground/redis/redis.ts';
import { KEY_KINDS, type KeyKind, kindOf } from './key-kinds.ts';

/** The size of one kind of key. */
export interface KindUsage {
  readonly kind: KeyKind;
  readonly keys: number;
  readonly bytes: number;
}

export interface RedisUsage {
  /** Kinds that have keys, in the order of `KEY_KINDS`. */
  readonly kinds: readonly KindUsage[];
  /** Keys in Redis. */
  readonly total: number;
  /** Keys whose names were read. With fewer than `total` the numbers of keys are extrapolated. */
  readonly scanned: number;
  /** Keys whose memory was measured. With fewer than `scanned` the bytes are extrapolated. */
  readonly measured: number;
}

export interface UsageLimits {
  /** Names to read, at most. Default 1,000,000. */
  readonly scan: number;
  /** Keys of each kind to measure, at most. Default 100. */
  readonly sample: number;
}

/** A key, and its server. */
interface Sampled {
  readonly server: Redis;
  readonly key: string;
}

const LIMITS: UsageLimits = { scan: 1_000_000, sample: 100 };

/**
 * Counts the keys of each kind with SCAN and measures the memory of a sample with MEMORY USAGE: both have bounded cost
 * for Redis. SCAN returns keys in the order of their hashes, so the first keys of each kind are a fair sample.
 */
export async function readUsage(
  redis: Redis,
  scope: { readonly keyPrefix: string; readonly clusterId: string | undefined },
  limits: UsageLimits = LIMITS,
): Promise<RedisUsage> {
  const counts = new Map<KeyKind, number>();
  const samples = new Map<KeyKind, Sampled[]>();
  let [scanned, total] = [0, 0];
  const servers = masters(redis);
  for (const server of servers) {
    let [cursor, here] = ['0', 0];
    do {
      const [next, keys] = await server.scan(cursor, 'COUNT', 1000);
      cursor = next;
      here += keys.length;
      for (const key of keys) {
        const kind = kindOf(key, scope.keyPrefix, scope.clusterId);
        counts.set(kind, (counts.get(kind) ?? 0) + 1);
        const sample = samples.get(kind) ?? [];
        samples.set(kind, sample);
        if (sample.length < limits.sample) sample.push({ server, key });
      }
    } while (cursor !== '0' && here < limits.scan / servers.length);
    scanned += here;
    total += cursor === '0' ? here : Math.max(here, await server.dbsize());
  }
  const kinds: KindUsage[] = [];
  let measured = 0;
  for (const kind of KEY_KINDS) {
    const found = counts.get(kind) ?? 0;
    if (found === 0) continue;
    const sizes = await measure(samples.get(kind) ?? []);
    measured += sizes.length;
    const keys = Math.round((found / scanned) * total);
    const sum = sizes.reduce((all, size) => all + size, 0);
    kinds.push({ kind, keys, bytes: sizes.length === 0 ? 0 : Math.round((sum / sizes.length) * keys) });
  }
  return { kinds, total, scanned, measured };
}

/** Bytes of each key that still exists. Redis itself samples five fields of a hash or a set. */
async function measure(sampled: readonly Sampled[]): Promise<number[]> {
  const sizes = await Promise.all(sampled.map(({ server, key }) => server.memory('USAGE', key)));
  return sizes.filter((size) => size !== null);
}
