import { messageOf, UserError } from '../../core/index.ts';
import { type CacheKey, KeyRing } from '../../contract/node/key-ring.ts';
import { type GatewayConfig, variableOf } from './config.ts';
import { readWords } from './words.ts';

const SETTING = { texts: 'cacheKeys', file: 'cacheKeysFile', what: 'key' } as const;

/**
 * The keys of encrypted views: `ID:BASE64` each, of 32 bytes; in a file separated by blanks or lines. Undefined when
 * there are none.
 * @throws UserError naming the variable or the file, and the place of the wrong key. Never shows a key.
 */
export function readCacheKeys(texts: readonly string[], file: string | undefined): KeyRing | undefined {
  const { words, where } = readWords(SETTING, texts, file);
  return words.length === 0 ? undefined : keyRingOf(words, where);
}

/**
 * Each gateway must take the tokens of the others when functions reach them all at one address, and tokens are signed
 * with keys that follow from those of the cache. The names of Redis users follow from them, too, or from the signing
 * secrets in the settings.
 * @throws UserError when there are no keys.
 */
export function checkSharedKeys(
  config: Pick<GatewayConfig, 'cacheUrl' | 'redisUsers' | 'signingSecrets'>,
  ring: KeyRing | undefined,
): void {
  if (ring) return;
  const { cacheUrl, redisUsers, signingSecrets } = config;
  const keys = `${variableOf('cacheKeys')}, the same for all gateways`;
  const how = 'set it to an id, ":" and base64 of 32 random bytes';
  if (cacheUrl !== undefined) {
    throw new UserError(
      `${variableOf('cacheUrl')} needs ${keys}, since any gateway may be sent a token there: ${how}.`,
    );
  }
  if (redisUsers.length > 0 && signingSecrets.length === 0) {
    throw new UserError(
      `${variableOf('redisUsers')} needs ${keys}, since the names of the users follow from it: ${how}.`,
    );
  }
}

function keyRingOf(texts: readonly string[], where: string): KeyRing {
  try {
    return new KeyRing(texts.map((text, at) => keyOf(text, `key ${at + 1} of ${texts.length}`)));
  } catch (error) {
    throw new UserError(`${where} is wrong: ${messageOf(error)}.`);
  }
}

function keyOf(text: string, which: string): CacheKey {
  const colon = text.indexOf(':');
  // Not shown: without a colon it may be the key alone.
  if (colon < 1) throw new TypeError(`${which} must be an id, ":" and base64 of 32 bytes`);
  const base64 = text.slice(colon + 1);
  const bytes = Buffer.from(base64, 'base64');
  // Node skips characters that are not base64.
  if (bytes.toString('base64').replace(/=+$/, '') !== base64.replace(/=+$/, '')) {
    throw new TypeError(`${which} must have base64 behind its id`);
  }
  return { id: text.slice(0, colon), bytes };
}
