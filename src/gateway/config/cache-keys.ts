import { readFileSync } from 'node:fs';
import { messageOf, UserError } from '../../core/index.ts';
import { type CacheKey, KeyRing } from '../../contract/node/key-ring.ts';
import { variableOf } from './config.ts';

const KEYS = variableOf('cacheKeys');
const FILE = variableOf('cacheKeysFile');

/**
 * The keys of encrypted views: `ID:BASE64` each, of 32 bytes; in a file separated by blanks or lines. Undefined when
 * there are none.
 * @throws UserError naming the variable or the file, and the place of the wrong key. Never shows a key.
 */
export function readCacheKeys(texts: readonly string[], file: string | undefined): KeyRing | undefined {
  if (file !== undefined && texts.length > 0) throw new UserError(`${KEYS} and ${FILE} are both set: set one of them.`);
  if (file === undefined) return texts.length === 0 ? undefined : keyRingOf(texts, KEYS);
  let content: string;
  try {
    content = readFileSync(file, 'utf8');
  } catch (error) {
    throw new UserError(`${FILE} ${file} cannot be read (${messageOf(error)}).`);
  }
  const words = content.split(/[\s,]+/).filter((word) => word !== '');
  if (words.length === 0) throw new UserError(`${FILE} ${file} holds no key.`);
  return keyRingOf(words, `${FILE} ${file}`);
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
  // Node skips over what is not base64.
  if (bytes.toString('base64').replace(/=+$/, '') !== base64.replace(/=+$/, '')) {
    throw new TypeError(`${which} must have base64 behind its id`);
  }
  return { id: text.slice(0, colon), bytes };
}
