import { randomUUID, X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';

import { z } from 'zod';

import { systemClock } from '../../core/clock.ts';
import { UserError } from '../../core/errors.ts';
import { createCertificates } from './certificates.ts';
import type { ControlPlaneUser } from './control-plane.ts';
import { createCredentials, type UserTokens } from './credentials.ts';
import type { PlaneFiles } from './plane-files.ts';

const schema = z.object({ etcdName: z.string(), tokens: z.record(z.string(), z.string()) });

/** What stays the same when a plane is started again in its directory, so that its clients and tokens stay valid. */
export interface KeptPlane {
  /** The certificate of the CA, as PEM. */
  readonly ca: string;
  readonly credentials: UserTokens;
  /** The name of this etcd, unique among all etcds. */
  readonly etcdName: string;
}

/**
 * Reads what an earlier start has left in the directory, or creates it. The file is written last: a start that was
 * broken off before it begins anew.
 * @throws UserError when the certificates are over.
 */
export async function keptPlane(files: PlaneFiles, users: readonly ControlPlaneUser[]): Promise<KeptPlane> {
  const kept = existsSync(files.kept) ? schema.parse(JSON.parse(await readFile(files.kept, 'utf8'))) : undefined;
  const ca = kept ? await validCa(files) : await createCertificates(files.pki);
  const credentials = createCredentials(users, kept?.tokens);
  const etcdName = kept?.etcdName ?? `levelhook-${randomUUID()}`;
  const tokens = Object.fromEntries([...credentials].map(([name, { token }]) => [name, token]));
  await writeFile(files.kept, JSON.stringify({ etcdName, tokens }), { mode: 0o600 });
  return { ca, credentials, etcdName };
}

async function validCa(files: PlaneFiles): Promise<string> {
  const ca = await readFile(files.key('ca.crt'), 'utf8');
  if (Date.parse(new X509Certificate(ca).validTo) > systemClock.wallNow()) return ca;
  throw new UserError(`the certificates in ${files.directory} are over a year old: remove the directory`);
}
