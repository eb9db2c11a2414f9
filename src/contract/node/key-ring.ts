import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** The first byte of an encrypted object. */
export const ENCRYPTED = 'e'.charCodeAt(0);

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_ID = /^[A-Za-z0-9_.-]{1,64}$/;

/** A key and the id that encrypted objects name it by. */
export interface CacheKey {
  readonly id: string;
  /** 32 random bytes. */
  readonly bytes: Uint8Array;
}

/**
 * The keys of encrypted views, AES-256-GCM. The signing keys of tokens are derived from them. The first key encrypts,
 * all keys decrypt. To rotate, put a new key before the old one, and remove the old one once a gateway has started with
 * both. If you remove it at once, the gateway lists the resource again.
 *
 * An encrypted object: `e`, the length of the key's id (one byte), the id, 12 random bytes (nonce), 16 bytes (tag),
 * ciphertext. The bytes before the nonce, and the additional data of the caller, are authenticated with it.
 */
export class KeyRing {
  readonly #keys: ReadonlyMap<string, Uint8Array>;
  readonly #first: CacheKey;

  /** @throws TypeError with the reason, which never shows a key. */
  constructor(keys: readonly CacheKey[]) {
    const [first] = keys;
    if (!first) throw new TypeError('there is no key');
    const known = new Map<string, Uint8Array>();
    for (const { id, bytes } of keys) {
      if (!KEY_ID.test(id)) throw new TypeError('the id of a key has 1 to 64 letters, digits, dots, - and _');
      if (bytes.length !== KEY_BYTES) throw new TypeError(`the key "${id}" must have 32 bytes and has ${bytes.length}`);
      if (known.has(id)) throw new TypeError(`two keys have the id "${id}"`);
      for (const [other, same] of known) {
        if (Buffer.compare(same, bytes) === 0) throw new TypeError(`"${other}" and "${id}" are the same key`);
      }
      known.set(id, bytes);
    }
    this.#keys = known;
    this.#first = first;
  }

  /** Names the first key by its id and a fingerprint, so another key with the same id has another name. */
  get writer(): string {
    const { id, bytes } = this.#first;
    const print = hkdfSync('sha256', bytes, '', 'levelhook cache key fingerprint', 9);
    return `${id}:${Buffer.from(print).toString('base64url')}`;
  }

  /**
   * Derives from each key, in order, a key for this purpose alone. It reveals neither the original key nor the keys for
   * other purposes.
   */
  derived(purpose: string): readonly CacheKey[] {
    return [...this.#keys].map(([id, bytes]) => ({
      id,
      bytes: new Uint8Array(hkdfSync('sha256', bytes, '', `levelhook ${purpose}`, KEY_BYTES)),
    }));
  }

  encrypt(plain: Buffer, binding: Buffer): Buffer {
    const { id, bytes } = this.#first;
    const head = Buffer.concat([Buffer.of(ENCRYPTED, id.length), Buffer.from(id, 'latin1')]);
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, bytes, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(Buffer.concat([head, binding]));
    const text = Buffer.concat([cipher.update(plain), cipher.final()]);
    return Buffer.concat([head, nonce, cipher.getAuthTag(), text]);
  }

  /** @throws Error for an unknown key, and for bytes that were altered or belong to another place. */
  decrypt(encrypted: Buffer, binding: Buffer): Buffer {
    const nonceAt = 2 + (encrypted[1] ?? 0);
    const textAt = nonceAt + NONCE_BYTES + TAG_BYTES;
    const id = encrypted.toString('latin1', 2, nonceAt);
    if (encrypted[0] !== ENCRYPTED || encrypted.length < textAt || !KEY_ID.test(id)) throw new Error('it was altered');
    const bytes = this.#keys.get(id);
    if (!bytes) throw new Error(`the key "${id}" is not known here`);
    const nonce = encrypted.subarray(nonceAt, nonceAt + NONCE_BYTES);
    const decipher = createDecipheriv(CIPHER, bytes, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(Buffer.concat([encrypted.subarray(0, nonceAt), binding]));
    decipher.setAuthTag(encrypted.subarray(nonceAt + NONCE_BYTES, textAt));
    try {
      return Buffer.concat([decipher.update(encrypted.subarray(textAt)), decipher.final()]);
    } catch {
      throw new Error(`it was altered, moved, or written with another key "${id}"`);
    }
  }
}
