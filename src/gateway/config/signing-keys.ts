import { messageOf, UserError } from '../../core/index.ts';
import { type SigningKey } from '../../contract/index.ts';
import { importExtractableSecret } from '../../contract/signature.ts';
import { variableOf } from './config.ts';

/** What triggers of the configured functions are signed with. @throws UserError, without showing a secret. */
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
