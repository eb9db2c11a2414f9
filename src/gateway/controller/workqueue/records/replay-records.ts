import { z } from 'zod';
import type { Clock } from '../../../../core/index.ts';
import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import type { RedisLocation } from '../../../../ground/redis/redis-location.ts';

/** A replay of many dead letters of one controller. Times are those of the gateways' clock, in milliseconds. */
export interface Replay {
  readonly id: string;
  readonly controller: string;
  /** Which dead letters, in words. */
  readonly label: string;
  /** The host of the gateway that does it. */
  readonly gateway: string;
  readonly startedMs: number;
  /** Undefined until it is known how many there are. */
  readonly total?: number | undefined;
  /** How many of them are queued. */
  readonly done: number;
  /** When its gateway last updated the record. */
  readonly seenMs: number;
  readonly endedMs?: number | undefined;
  readonly error?: string | undefined;
}

/** A replay without an update for longer than this has stopped, with its gateway, and another replay may begin. */
export const SILENT_MS = 60_000;
const KEPT_MS = 10 * 60_000;

const replays = z.object({
  id: z.string(),
  controller: z.string(),
  label: z.string(),
  gateway: z.string(),
  startedMs: z.number(),
  total: z.number().optional(),
  done: z.number(),
  seenMs: z.number(),
  endedMs: z.number().optional(),
  error: z.string().optional(),
});

/**
 * The last replay of each controller, in a HASH that all gateways of the deployment read, so the page of each of them
 * shows the progress. Redis deletes the HASH ten minutes after the last news of a replay. A replay ends with its
 * gateway: its dead letters that were not queued stay dead letters, and a minute later another replay may begin.
 */
export class ReplayRecords {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #script: Script;

  constructor({ redis, replaysKey }: Pick<RedisLocation, 'redis' | 'replaysKey'>, clock: Pick<Clock, 'now'>) {
    this.#redis = redis;
    this.#key = replaysKey;
    this.#clock = clock;
    this.#script = loadScript(redis, import.meta.url, 'replay');
  }

  /** @returns false when a replay of this controller is under way on a gateway: nothing was changed. */
  async begin(replay: Omit<Replay, 'seenMs'>): Promise<boolean> {
    return (await this.#write(replay, '1')) === 1;
  }

  /** Records how far it is, or its end. Does nothing when another replay of the controller has begun since. */
  async report(replay: Omit<Replay, 'seenMs'>): Promise<void> {
    await this.#write(replay, '');
  }

  /** The replays of all gateways that run, or had news in the last ten minutes; the newest first. */
  async recent(): Promise<Replay[]> {
    const sinceMs = this.#clock.now() - KEPT_MS;
    return (await this.#redis.hvals(this.#key))
      .flatMap((text) => decoded(text))
      .filter(({ seenMs }) => seenMs > sinceMs)
      .toSorted((a, b) => b.startedMs - a.startedMs);
  }

  #write(replay: Omit<Replay, 'seenMs'>, isBegin: '1' | ''): Promise<unknown> {
    const now = this.#clock.now();
    const text = JSON.stringify({ ...replay, seenMs: now });
    const times = [now, SILENT_MS, KEPT_MS];
    return this.#script([this.#key], [replay.controller, replay.id, text, isBegin, ...times]);
  }
}

function decoded(text: string): Replay[] {
  try {
    const parsed = replays.safeParse(JSON.parse(text));
    return parsed.success ? [parsed.data] : [];
  } catch {
    return [];
  }
}
