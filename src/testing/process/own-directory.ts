import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { UserError } from '../../core/errors.ts';

/** A directory of one's own for data and logs, and how to be rid of it. */
export interface OwnDirectory {
  readonly path: string;
  /** Removes it if it is a temporary one; a directory that was asked for stays. */
  remove(): Promise<void>;
}

/** The directory asked for, made if need be, else a temporary one. Throws `UserError` if it is not empty. */
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
