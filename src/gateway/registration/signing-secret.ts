import {
  ApiError,
  type KubernetesObject,
  messageOf,
  orUndefined,
  ownValue,
  resource,
  resourcePath,
} from '../../core/index.ts';
import { type SigningKey } from '../../contract/index.ts';
import { importExtractableSecret } from '../../contract/signature.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';

interface Secret extends KubernetesObject {
  readonly data?: Readonly<Record<string, string>>;
}

const Secret = resource<Secret>('v1', 'Secret');

/** The keys that sign a function's triggers, and a text that changes with them and reveals nothing of them. */
export interface SigningSecret {
  readonly keys: readonly SigningKey[];
  readonly version: string;
}

/** Each trigger is signed with every one of them. */
const MAX_SECRETS = 4;
/** Characters of the value in base64: four secrets have 500. No longer value is decoded. */
const MAX_VALUE = 4096;

/**
 * Reads the Secret that a ReconcileFunction names, of its own namespace: one secret, or two while one is being rotated.
 * Read directly from the apiserver: it is in no cache.
 * @throws InvalidFunctionError, which shows nothing of the Secret; ApiError when the apiserver does not answer.
 */
export async function readSigningSecret(
  client: ApiClient,
  { namespace, name, key }: { readonly namespace: string; readonly name: string; readonly key: string },
  signal: AbortSignal,
): Promise<SigningSecret> {
  const path = resourcePath(Secret, { namespace, name });
  const found = await orUndefined(client.json<Secret>({ path, signal })).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.code === 403)) throw error;
    throw new InvalidFunctionError(
      'Ready',
      'SecretForbidden',
      `spec.signingSecret.name: the gateway may not read the Secret ${name} in ${namespace}: grant it as infra/rbac/signing-secret.yaml does`,
    );
  });
  if (!found) {
    throw new InvalidFunctionError(
      'Ready',
      'SecretNotFound',
      `spec.signingSecret.name: there is no Secret ${name} in ${namespace}`,
    );
  }
  const value = ownValue(found.data, key);
  if (value === undefined) {
    throw new InvalidFunctionError(
      'Ready',
      'SecretKeyNotFound',
      `spec.signingSecret.key: the Secret ${name} has no key ${key}`,
    );
  }
  if (value.length > MAX_VALUE) {
    throw new InvalidFunctionError(
      'Ready',
      'SecretInvalid',
      `spec.signingSecret: the key ${key} of the Secret ${name} is longer than any ${MAX_SECRETS} signing secrets`,
    );
  }
  const words = Buffer.from(value, 'base64')
    .toString('utf8')
    .split(/[\s,]+/)
    .filter((word) => word !== '');
  const keys: SigningKey[] = [];
  for (const [at, word] of words.slice(0, MAX_SECRETS).entries()) {
    try {
      keys.push(await importExtractableSecret(word));
    } catch (error) {
      // Of a Secret that is none for signing not even how many words it has; behind a good one a number helps.
      const which = at > 0 ? ` ${at + 1}` : '';
      throw new InvalidFunctionError(
        'Ready',
        'SecretInvalid',
        `spec.signingSecret: the secret${which} in key ${key} of ${name} cannot be used: ${messageOf(error)}`,
      );
    }
  }
  if (words.length > MAX_SECRETS) {
    throw new InvalidFunctionError(
      'Ready',
      'TooManySecrets',
      `spec.signingSecret: the key ${key} of the Secret ${name} holds more than ${MAX_SECRETS} secrets`,
    );
  }
  if (keys.length === 0) {
    throw new InvalidFunctionError(
      'Ready',
      'SecretEmpty',
      `spec.signingSecret.key: the key ${key} of the Secret ${name} is empty`,
    );
  }
  return { keys, version: `${found.metadata.uid}/${found.metadata.resourceVersion}` };
}
