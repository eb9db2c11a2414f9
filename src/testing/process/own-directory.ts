import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { UserError } from '../../core/errors.ts';

/** A private directory for data and logs. */
export interface OwnDirectory {
  readonly path: string;
  /** Removes the directory if it is temporary; a directory of the caller's choice stays. */
  remove(): Promise<void>;
}

/**
 * Uses the given directory, and creates it if it is absent; otherwise creates a temporary one. Throws `UserError` if
 * the directory is not empty.
 */
export async function ownDirectory(asked: string | undefined, temporaryPrefix: string): Promise<OwnDirectory> {
  if (asked === undefined) {
    const path = await mkdtemp(join(tmpdir(), temporaryPrefix));
    return { path, remove: () => rm(path, { recursive: true, force: true }) };
  }
  const path = resolve(asked);
  await mkdir(path, { recursive: true, mode: 0o700 });
  if ((await readdir(path)).length > 0)
    throw new UserError(`${path} is not empty: name another directory, or empty it`);
  return { path, remove: async () => {} };
}
