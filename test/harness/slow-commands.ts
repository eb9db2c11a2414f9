import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { expect } from 'vitest';
import { measureSlowdown } from './pace.ts';
import type { Redis } from '../../src/ground/redis/redis.ts';

/** A command in Redis' SLOWLOG. */
export interface SlowCommand {
  /** Name and first arguments: of a script its hash, its key and five more. */
  readonly what: string;
  /** What Redis took to execute it. */
  readonly us: number;
  /** When, in whole seconds of Redis' clock. */
  readonly atMs: number;
  /** The name of the gateway's script; the hash of another program's; undefined: it is no script. */
  readonly script: string | undefined;
  /** The name of the connection; '' if it has none. */
  readonly connection: string;
}

type Entry = readonly [
  id: number,
  atSeconds: number,
  us: number,
  args: readonly string[],
  address: string,
  name: string,
];

const MOST = 10_000;

/** From now on Redis notes each command that it executes for longer. */
export async function watchSlowCommands(redis: Redis, longerThanUs: number): Promise<void> {
  await redis.config('SET', 'slowlog-max-len', String(MOST));
  await redis.config('SET', 'slowlog-log-slower-than', String(longerThanUs));
}

/** The commands of all clients that Redis has noted since this was last called. */
export async function takeSlowCommands(redis: Redis): Promise<SlowCommand[]> {
  const entries = (await redis.call('SLOWLOG', 'GET', String(MOST))) as Entry[];
  await redis.call('SLOWLOG', 'RESET');
  return entries.map(([, atSeconds, us, args, , connection]) => {
    const [name = '', hash = ''] = args;
    const isScript = /^(eval|evalsha|fcall)$/i.test(name);
    const script = isScript ? (scripts.get(hash) ?? hash.slice(0, 40)) : undefined;
    return { what: args.slice(0, 9).join(' '), us, atMs: atSeconds * 1000, script, connection };
  });
}

/** Runs `work`, and returns the commands of all clients that Redis has noted meanwhile, the slowest first. */
export async function slowCommandsOf(redis: Redis, work: () => Promise<unknown>): Promise<SlowCommand[]> {
  await redis.call('SLOWLOG', 'RESET');
  await work();
  return (await takeSlowCommands(redis)).toSorted((one, other) => other.us - one.us);
}

/** No command of the gateway takes longer, on a machine that does nothing else. */
export const LONGEST_COMMAND_MS = 50;

const ROUNDS = 3;

/**
 * Fails when Redis takes longer than `mostMs` for a command in each of three rounds of `work`, on a machine as fast as
 * this one would be alone. In one round another program may have taken the processor in the middle of a command.
 * @param redis a server of the test's own: the commands of others count, too.
 * @param prepare goes before each round, and does not count.
 * @param counts which commands count. Default: all.
 */
export async function expectShortCommands(
  redis: Redis,
  work: (round: number) => Promise<unknown>,
  mostMs = LONGEST_COMMAND_MS,
  prepare: () => Promise<void> = async () => {},
  counts: (command: SlowCommand) => boolean = () => true,
): Promise<void> {
  await watchSlowCommands(redis, 0);
  const longest: number[] = [];
  for (let round = 1; round <= ROUNDS; round += 1) {
    await prepare();
    longest.push(await longestCommandMs(redis, () => work(round), counts));
    if (Math.min(...longest) < mostMs) return;
  }
  expect.fail(`a command takes more than ${mostMs} ms in each round: ${longest.map(Math.round).join(', ')}`);
}

/** As `expectShortCommands`, for scripts alone. */
export async function expectShortScripts(
  redis: Redis,
  work: (round: number) => Promise<unknown>,
  prepare?: () => Promise<void>,
): Promise<void> {
  await expectShortCommands(redis, work, LONGEST_COMMAND_MS, prepare, ({ script }) => script !== undefined);
}

/** In milliseconds, divided by the slowdown of the machine: the greatest of those before, after and of Redis itself. */
async function longestCommandMs(
  redis: Redis,
  work: () => Promise<unknown>,
  counts: (command: SlowCommand) => boolean,
): Promise<number> {
  const before = measureSlowdown();
  const fromMs = await processorMs(redis);
  const commands = await slowCommandsOf(redis, work);
  const meanwhile = sumOf(commands) / 1000 / ((await processorMs(redis)) - fromMs);
  const longestMs = Math.max(0, ...commands.filter(counts).map(({ us }) => us)) / 1000;
  return longestMs / Math.max(before, meanwhile, measureSlowdown());
}

function sumOf(commands: readonly SlowCommand[]): number {
  return commands.reduce((sum, { us }) => sum + us, 0);
}

/** The processor time of the thread in which Redis executes commands. */
async function processorMs(redis: Redis): Promise<number> {
  const info = await redis.info('cpu');
  const secondsOf = (field: string): number => Number(new RegExp(`^${field}:([0-9.]+)`, 'm').exec(info)?.[1]);
  return 1000 * (secondsOf('used_cpu_sys_main_thread') + secondsOf('used_cpu_user_main_thread'));
}

const root = resolve(import.meta.dirname, '../..');
/** By hash. */
const scripts = new Map(
  globSync('src/**/*.lua', { cwd: root }).map((path) => {
    const hash = createHash('sha1')
      .update(readFileSync(resolve(root, path)))
      .digest('hex');
    return [hash, basename(path)];
  }),
);
