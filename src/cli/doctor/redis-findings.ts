import { messageOf } from '../../core/index.ts';
import { readerUserPrefix } from '../../contract/node/reader-user.ts';
import { type Redis, withoutPassword } from '../../ground/redis/redis.ts';
import { mebibytes } from '../../ground/redis/redis-memory.ts';
import {
  type FoundProblem,
  problemsOf,
  readServer,
  type RedisProblem,
  type ServerFacts,
} from '../../ground/redis/redis-server.ts';
import type { Diagnoses } from './diagnosis.ts';
import { masters } from '../../ground/redis/cluster.ts';
import { readUsage, type RedisUsage } from './redis-usage.ts';

/** The part of Redis that belongs to one gateway. */
export interface RedisScope {
  readonly keyPrefix: string;
  /** Undefined when the apiserver does not answer it. */
  readonly clusterId: string | undefined;
}

/** Checks the configuration of the server. */
export async function checkServer(findings: Diagnoses, redis: Redis, url: string): Promise<void> {
  const startMs = performance.now();
  await redis.ping();
  const answerMs = performance.now() - startMs;
  findings.ok(`${withoutPassword(url)} answers in ${answerMs.toFixed(1)} ms`);
  const servers = masters(redis);
  for (const server of servers) {
    const { host, port } = server.options;
    if (servers.length > 1) findings.ok(`a master of the cluster at ${host}:${port}:`);
    judgeServer(findings, await readServer(server));
  }
}

/** Adds a finding for each checked setting. */
export function judgeServer(findings: Diagnoses, facts: ServerFacts): void {
  const found = new Map(problemsOf(facts).map((each) => [each.problem, each]));
  const line = (problem: RedisProblem, ok: string | undefined, unknown: string): void => {
    const wrong = found.get(problem);
    if (wrong) findings.add(levelOf(wrong), wrong.reason);
    else if (ok === undefined) findings.warning(`the server does not tell ${unknown}`);
    else findings.ok(ok);
  };
  const { product, version, role, policy, used, limit } = facts;
  line('version', version && `${product} ${version}`, 'its version');
  line('role', role && `its role is ${role}`, 'its role');
  line('eviction', policy && `maxmemory-policy is ${policy}`, 'its maxmemory-policy: it must be noeviction');
  line('persistence', persistence(facts), 'whether it keeps data on disk: check that with its provider');
  const memory = limit > 0 ? `${mebibytes(used)} of maxmemory ${mebibytes(limit)}` : `${mebibytes(used)}, no maxmemory`;
  line('memory', used > 0 ? `memory used: ${memory}` : undefined, 'its memory');
}

function levelOf({ stops }: FoundProblem): 'problem' | 'warning' {
  return stops ? 'problem' : 'warning';
}

function persistence({ persistence: { appendOnly, snapshots } }: ServerFacts): string | undefined {
  if (appendOnly) return 'it keeps an append-only file';
  return snapshots ? 'it saves snapshots' : undefined;
}

/** Reports the gateway's keys and their size. @returns undefined when the server forbids the commands. */
export async function checkUsage(
  findings: Diagnoses,
  redis: Redis,
  scope: RedisScope,
): Promise<RedisUsage | undefined> {
  let usage: RedisUsage;
  try {
    usage = await readUsage(redis, scope);
  } catch (error) {
    findings.warning(`the keys could not be counted (${messageOf(error)}): give the user the rights +scan +memory`);
    return undefined;
  }
  describeUsage(findings, usage);
  return usage;
}

export function describeUsage(findings: Diagnoses, { kinds, total, scanned, measured }: RedisUsage): void {
  const names = scanned < total ? `extrapolated from the names of ${scanned}` : 'all counted';
  const sizes = measured < total ? `memory extrapolated from a sample of ${measured}` : 'memory of all measured';
  findings.ok(total === 0 ? 'no keys' : `${total} keys, ${names}, ${sizes}:`);
  for (const { kind, keys, bytes } of kinds) {
    findings.ok(`- ${kind}: ${keys} ${keys === 1 ? 'key' : 'keys'}, ${mebibytes(bytes)}`);
  }
}

/** Redis keeps answers in its memory until they are read: without a limit one function can fill it. */
async function checkClientMemory(findings: Diagnoses, redis: Redis): Promise<void> {
  for (const server of masters(redis)) {
    // Redis before 7 and Valkey's forks without the setting give no value.
    const [, bound = '0'] = await server.config('GET', 'maxmemory-clients');
    if (bound !== '0') continue;
    findings.warning(
      'maxmemory-clients is 0: a function that does not read its answers can fill the memory, so set it to 10%',
    );
    return;
  }
}

/** The Redis users of functions. */
export async function checkUsers(findings: Diagnoses, redis: Redis, scope: RedisScope): Promise<void> {
  const { keyPrefix, clusterId } = scope;
  if (clusterId === undefined) return;
  try {
    const users = (await redis.call('ACL', 'USERS')) as string[];
    const own = users.filter((user) => user.startsWith(readerUserPrefix({ keyPrefix, clusterId })));
    findings.ok(`${own.length} Redis ${own.length === 1 ? 'user' : 'users'} of functions`);
    if (own.length > 0) await checkClientMemory(findings, redis);
  } catch (error) {
    findings.warning(
      `the Redis users of functions could not be read (${messageOf(error)}): functions need a user of their own`,
    );
  }
}
