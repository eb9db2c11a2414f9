import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import { eventually } from './eventually.ts';

/**
 * Waits until the append-only file holds all that Redis has answered. Redis keeps writes back for up to two seconds
 * while it syncs the file, and a kill loses them.
 */
export async function untilWritten(redis: Redis): Promise<void> {
  const isWritten = async (): Promise<void> =>
    expect(await redis.info('persistence')).toMatch(/^aof_buffer_length:0\s/m);
  await eventually(isWritten, 60_000, 10);
}
