import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { UserError } from '../../core/errors.ts';
import { findRedis } from './find-redis.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'levelhook-find-redis-'));
});

afterEach(() => rm(directory, { recursive: true }));

describe('findRedis', () => {
  it('takes redis-server from PATH, else valkey-server', async () => {
    const PATH = `${join(directory, 'absent')}:${directory}`;
    await writeFile(join(directory, 'valkey-server'), '', { mode: 0o755 });
    expect(await findRedis({ PATH })).toBe(join(directory, 'valkey-server'));
    await writeFile(join(directory, 'redis-server'), '', { mode: 0o755 });
    expect(await findRedis({ PATH })).toBe(join(directory, 'redis-server'));
  });

  it('says what to do when there is none and it cannot be installed', async () => {
    const failed = findRedis({ PATH: directory });
    await expect(failed).rejects.toThrow(UserError);
    await expect(failed).rejects.toThrow(
      'There is no Redis: set REDIS_URL to a running one, or install redis-server or valkey-server so that it is on PATH',
    );
  });
});
