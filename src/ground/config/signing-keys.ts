import { messageOf, UserError } from '../../core/index.ts';
import { type SigningKey } from '../../contract/index.ts';
import { importExtractableSecret } from '../../contract/signature.ts';
import { KeyRing } from '../../contract/node/key-ring.ts';
import { variableOf } from './config.ts';

/** The keys that sign the triggers of the configured functions. @throws UserError, without showing a secret. */
export async function readSigningKeys(config: {
  readonly functionUrls: readonly string[];
  readonly signingSecrets: readonly string[];
}): Promise<SigningKey[]> {
  const { functionUrls, signingSecrets } = config;
  if (functionUrls.length > 0 && signingSecrets.length === 0) {
    throw new UserError(`${variableOf('signingSecrets')} is not set: functions accept signed triggers only.`);
  }
  try {
    return await Promise.all(signingSecrets.map(importExtractableSecret));
  } catch (error) {
    throw new UserError(`${variableOf('signingSecrets')} is wrong: ${messageOf(error)}.`);
  }
}

/**
 * Keys that follow from these, and are no others' to know: HMAC-SHA256 of texts that no signature is made over (those
 * begin with the message's id). Undefined when there are none.
 */
export async function ringOfSigningKeys(keys: readonly SigningKey[]): Promise<KeyRing | undefined> {
  const derived = async (key: SigningKey, text: string): Promise<Buffer> =>
    Buffer.from(await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(`levelhook:${text}:v1\n`)));
  const entries = await Promise.all(
    keys.map(async (key) => {
      const id = (await derived(key, 'key-id')).toString('base64url', 0, 9);
      return [id, { id, bytes: new Uint8Array(await derived(key, 'key-ring')) }] as const;
    }),
  );
  // A secret may be named twice.
  const ring = [...new Map(entries).values()];
  return ring.length === 0 ? undefined : new KeyRing(ring);
}
