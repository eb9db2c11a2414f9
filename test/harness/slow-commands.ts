import type { Redis } from '../../src/gateway/redis/redis.ts';

/** A command in Redis' SLOWLOG. */
export interface SlowCommand {
  /** Name and first arguments: of a script its hash, its key and five more. */
  readonly what: string;
  /** What Redis took to execute it. */
  readonly us: number;
}

const MOST = 10_000;

/** From now on Redis notes each command that it executes for longer. */
export async function watchSlowCommands(redis: Redis, longerThanUs: number): Promise<void> {
  await redis.config('SET', 'slowlog-max-len', String(MOST));
  await redis.config('SET', 'slowlog-log-slower-than', String(longerThanUs));
}

/** Runs `work`, and returns the commands of all clients that Redis has noted meanwhile, the slowest first. */
export async function slowCommandsOf(redis: Redis, work: () => Promise<unknown>): Promise<SlowCommand[]> {
  await redis.call('SLOWLOG', 'RESET');
  await work();
  const entries = (await redis.call('SLOWLOG', 'GET', String(MOST))) as [number, number, number, string[]][];
  return entries
    .map(([, , us, args]) => ({ what: args.slice(0, 9).join(' '), us }))
    .toSorted((one, other) => other.us - one.us);
}
