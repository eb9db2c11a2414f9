import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';

import { z } from 'zod';

import { systemClock } from '../../core/clock.ts';
import { isAlive, startTimeOf } from '../process/process-identity.ts';

const ownerSchema = z.object({ pid: z.number(), startTime: z.string(), host: z.string(), id: z.string() });

const pollMs = 250;
/** A lock this old is stale even if its owner's process cannot be checked: a build takes minutes, never an hour. */
const foreignStaleMs = 3_600_000;
/** Removing a stale lock takes a few system calls. */
const removalStaleMs = 30_000;

/**
 * Runs `work` while no other process on this cache directory runs work of the same `name`. A lock whose owner was
 * killed is removed. Rejects with the reason of `signal`, and with any error of `work`.
 */
export async function withBuildLock<T>(
  cache: string,
  name: string,
  { onProgress, signal }: { onProgress?: (line: string) => void; signal?: AbortSignal },
  work: () => Promise<T>,
): Promise<T> {
  await mkdir(cache, { recursive: true });
  const lock = join(cache, `.${name}.lock`);
  let told = false;
  while (!(await tryLock(lock))) {
    signal?.throwIfAborted();
    if (!told) onProgress?.(`waiting for another process that is fetching or building it too (${lock})`);
    told = true;
    if (await isStale(lock)) await removeStale(lock);
    else await systemClock.sleep(pollMs, signal);
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

/**
 * Creates the lock with its content in one step (link fails if it exists), so that no process ever reads half of it.
 */
async function tryLock(lock: string): Promise<boolean> {
  const id = randomUUID();
  const owner = { pid: process.pid, startTime: startTimeOf(process.pid) ?? '', host: hostname(), id };
  const prepared = `${lock}.${id}`;
  await writeFile(prepared, JSON.stringify(owner));
  try {
    await link(prepared, lock);
    return true;
  } catch (error) {
    if (isCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await rm(prepared, { force: true });
  }
}

async function isStale(lock: string): Promise<boolean> {
  try {
    const owner = ownerSchema.parse(JSON.parse(await readFile(lock, 'utf8')));
    return owner.host === hostname() ? !isAlive(owner) : await isOlder(lock, foreignStaleMs);
  } catch (error) {
    // The lock was released between the attempt and this read.
    if (isCode(error, 'ENOENT')) return false;
    throw error;
  }
}

/**
 * Removes a stale lock, one process at a time. Otherwise, if two processes saw it, the slower one could remove the lock
 * that the faster one has taken since.
 */
async function removeStale(lock: string): Promise<void> {
  const removal = `${lock}.removal`;
  try {
    await mkdir(removal);
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error;
    if (await isOlder(removal, removalStaleMs)) await rm(removal, { recursive: true, force: true });
    await systemClock.sleep(pollMs);
    return;
  }
  try {
    if (await isStale(lock)) await rm(lock, { force: true });
  } finally {
    await rm(removal, { recursive: true, force: true });
  }
}

async function isOlder(path: string, ms: number): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && systemClock.now() - found.mtimeMs > ms;
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
