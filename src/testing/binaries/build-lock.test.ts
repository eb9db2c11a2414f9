import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { withBuildLock } from './build-lock.ts';

let cache: string;

beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), 'levelhook-lock-'));
});

afterEach(() => rm(cache, { recursive: true }));

/** Lets `count` callers take the lock at once. Returns the most that held it at the same time. */
async function mostAtOnce(count: number): Promise<number> {
  let holders = 0;
  let most = 0;
  await Promise.all(
    Array.from({ length: count }, () =>
      withBuildLock(cache, 'kwok', {}, async () => {
        most = Math.max(most, (holders += 1));
        await sleep(5);
        holders -= 1;
      }),
    ),
  );
  return most;
}

async function leaveLock(owner: { pid: number; startTime: string; host: string }): Promise<void> {
  await writeFile(join(cache, '.kwok.lock'), JSON.stringify({ ...owner, id: 'x' }));
}

describe('withBuildLock', () => {
  it('lets one in at a time and leaves nothing behind', async () => {
    expect(await mostAtOnce(5)).toBe(1);
    expect(await readdir(cache)).toEqual([]);
  });

  it('removes the lock of a process that is gone, still letting one in at a time', async () => {
    const { pid } = spawnSync('true');
    await leaveLock({ pid, startTime: '1', host: hostname() });
    expect(await mostAtOnce(10)).toBe(1);
    expect(await readdir(cache)).toEqual([]);
  });

  it('removes the lock of a process whose pid is now another one', async () => {
    await leaveLock({ pid: process.pid, startTime: '1', host: hostname() });
    expect(await withBuildLock(cache, 'kwok', {}, async () => 'done')).toBe('done');
  });

  it('waits for a lock of another machine, tells so, and can be aborted', async () => {
    await leaveLock({ pid: 1, startTime: '1', host: 'elsewhere' });
    const lines: string[] = [];
    const given = new AbortController();
    const onProgress = (line: string): void => {
      lines.push(line);
      setTimeout(() => given.abort(), 20);
    };
    const options = { signal: given.signal, onProgress };
    await expect(withBuildLock(cache, 'kwok', options, async () => 'done')).rejects.toThrow(/aborted/);
    expect(lines).toEqual([
      `waiting for another process that is fetching or building it too (${join(cache, '.kwok.lock')})`,
    ]);
  });

  it('is released when the work throws', async () => {
    const failed = withBuildLock(cache, 'kwok', {}, async () => Promise.reject(new Error('no')));
    await expect(failed).rejects.toThrow('no');
    expect(await readdir(cache)).toEqual([]);
  });
});
