import type { SigningKey } from '../../contract/index.ts';
import type { KeyRing } from '../../contract/node/key-ring.ts';
import { type AdminToken, readAdminTokens } from './admin-tokens.ts';
import { type CacheSettings, readCacheSettings } from './cache-file.ts';
import { checkSharedKeys, readCacheKeys } from './cache-keys.ts';
import { readCertificates } from './certificates.ts';
import type { GatewayConfig } from './config.ts';
import { readSigningKeys, ringOfSigningKeys } from './signing-keys.ts';

/** The contents of the files that the settings name, and the keys that are in the settings themselves. */
export interface ConfiguredFiles {
  /** Sign the triggers of configured functions. */
  readonly keys: readonly SigningKey[];
  /** See `EndpointOptions`. */
  readonly ca: string | undefined;
  readonly cache: CacheSettings;
  /** Undefined: Secrets cannot be encrypted, and no other gateway takes the tokens that this one makes. */
  readonly keyRing: KeyRing | undefined;
  /** Signs the tokens of callbacks without `keyRing`. Undefined: no function has its URL in the settings. */
  readonly callbackRing: KeyRing | undefined;
  /** The tokens that let people read and change non-public data. */
  readonly adminTokens: readonly AdminToken[];
}

/** @throws UserError for the first that cannot be used. */
export async function readConfiguredFiles(config: GatewayConfig): Promise<ConfiguredFiles> {
  const keys = await readSigningKeys(config);
  const ca =
    config.functionCaFile === undefined ? undefined : readCertificates(config.functionCaFile, 'functionCaFile');
  const cache = await readCacheSettings(config.cacheFile);
  const keyRing = readCacheKeys(config.cacheKeys, config.cacheKeysFile);
  checkSharedKeys(config, keyRing);
  const callbackRing = await ringOfSigningKeys(keys);
  return {
    keys,
    ca,
    cache,
    keyRing,
    callbackRing,
    adminTokens: readAdminTokens(config.adminTokens, config.adminTokensFile),
  };
}
