import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { z } from 'zod';

import { UserError } from '../../core/errors.ts';
import { isAlive, startTimeOf } from './process-identity.ts';
import { stopLeftovers } from './process-record.ts';

/** A private directory for data and logs. */
export interface OwnDirectory {
  readonly path: string;
  /** Removes the directory if it is temporary; a directory of the caller's choice stays for the next call. */
  release(): Promise<void>;
}

/** Names the process that uses a directory of the caller's choice. Such a file says that the directory is ours. */
const OWNER = 'owner.json';
const ownerSchema = z.object({ pid: z.number(), startTime: z.string() });
const NOBODY = { pid: 0, startTime: '' };

/**
 * Uses the given directory, which is absent, empty, or has the data of an earlier call; otherwise creates a temporary
 * one. Stops the processes that an earlier call has left in it because its process was killed.
 * @throws UserError if the directory has other contents, or a running process uses it.
 */
export async function ownDirectory(asked: string | undefined, temporaryPrefix: string): Promise<OwnDirectory> {
  if (asked === undefined) {
    const path = await mkdtemp(join(tmpdir(), temporaryPrefix));
    return { path, release: () => rm(path, { recursive: true, force: true }) };
  }
  const path = resolve(asked);
  await mkdir(path, { recursive: true, mode: 0o700 });
  const owner = join(path, OWNER);
  if (!existsSync(owner) && (await readdir(path)).length > 0)
    throw new UserError(`${path} is not empty: name another directory, or empty it`);
  refuseUsed(path);
  writeFileSync(owner, JSON.stringify({ pid: process.pid, startTime: startTimeOf(process.pid) ?? '' }));
  await stopLeftovers(path);
  return { path, release: async () => writeFileSync(owner, JSON.stringify(NOBODY)) };
}

/** Removes a directory that `ownDirectory` was given, with its data. @throws UserError if a running process uses it. */
export async function removeOwnDirectory(path: string): Promise<void> {
  refuseUsed(path);
  await stopLeftovers(path);
  await rm(path, { recursive: true, force: true });
}

function refuseUsed(path: string): void {
  const owner = join(path, OWNER);
  const user = existsSync(owner) ? ownerSchema.parse(JSON.parse(readFileSync(owner, 'utf8'))) : NOBODY;
  if (isAlive(user)) {
    throw new UserError(`${path} is in use by the process ${user.pid}: end it, or name another directory`);
  }
}
