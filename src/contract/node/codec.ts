import { deflateSync, inflateSync } from 'node:zlib';
import { formatJson, type KubernetesObject, messageOf, parseJson } from '../../core/index.ts';
import { type KeyRing, ENCRYPTED } from './key-ring.ts';

/**
 * A stored object cannot be read: it was altered, or its format or key is unknown here. The message shows none of it.
 */
export class UnreadableObjectError extends TypeError {
  override readonly name = 'UnreadableObjectError';
  readonly code = 'ERR_LEVELHOOK_UNREADABLE_OBJECT';
}

/**
 * The cache holds a mark in place of this object, because the gateway cannot handle it: nested too deep, or too large.
 * The message names the key and the reason; `metadataOnly` is the gateway's knowledge of the object.
 */
export class ObjectKeptOutError extends Error {
  override readonly name = 'ObjectKeptOutError';
  readonly code = 'ERR_LEVELHOOK_OBJECT_KEPT_OUT';
  readonly key: string;
  readonly reason: string;
  readonly metadataOnly: KubernetesObject;

  constructor(key: string, { reason, object }: Mark) {
    super(`the object ${key} is kept out of the cache: ${reason}`);
    this.key = key;
    this.reason = reason;
    this.metadataOnly = object;
  }
}

/** Stands in the cache in place of an object that is kept out of it. */
export interface Mark {
  /** The reason in a few words: `it is nested more than 256 levels deep`. Shows none of the object's contents. */
  readonly reason: string;
  /** The object with its kind and its metadata alone. */
  readonly object: KubernetesObject;
}

/** By default, an object is compressed if its JSON has more bytes. */
export const COMPRESS_ABOVE = 16 * 1024;

export interface ObjectCodecOptions {
  /** Prefix of the view's keys: an encrypted object cannot be read in another view. */
  readonly prefix: string;
  /** Encrypts every object, and refuses to read an object that is not encrypted. Default: no encryption. */
  readonly keyRing?: KeyRing | undefined;
  /** Compresses JSON of more bytes than this. Default `COMPRESS_ABOVE`. */
  readonly compressAbove?: number | undefined;
}

/**
 * How the objects of one view are kept in Redis. The first byte is the format:
 *
 * - `{` (format 1): the JSON as the apiserver sent it, in UTF-8.
 * - `z`: compressed JSON, a zlib stream (RFC 1950) behind the `z`; only where it is smaller.
 * - `x`: a mark (JSON behind the `x`): the object is kept out of the cache.
 * - `e`: encrypted, see `KeyRing`; inside is one of the others.
 *
 * An older reader refuses a newer format by that byte.
 */
export class ObjectCodec {
  readonly #prefix: string;
  readonly #keyRing: KeyRing | undefined;
  readonly #compressAbove: number;

  constructor({ prefix, keyRing, compressAbove = COMPRESS_ABOVE }: ObjectCodecOptions) {
    this.#prefix = prefix;
    this.#keyRing = keyRing;
    this.#compressAbove = compressAbove;
  }

  /** Names the key that encrypts; undefined without encryption. */
  get encryptedBy(): string | undefined {
    return this.#keyRing?.writer;
  }

  /** @param key `namespace/name`, or `name`. @returns text for format 1, because ioredis sends it as it is. */
  encode(key: string, json: string): string | Buffer {
    return this.#encrypt(key, this.#compress(json));
  }

  /** Encodes a mark; `decode` throws an ObjectKeptOutError for it. @param key as for `encode`. */
  encodeMark(key: string, mark: Mark): string | Buffer {
    return this.#encrypt(key, `x${formatJson(mark)}`);
  }

  #encrypt(key: string, inner: string | Buffer): string | Buffer {
    return this.#keyRing ? this.#keyRing.encrypt(Buffer.from(inner), this.#binding(key)) : inner;
  }

  /**
   * The object's JSON, in UTF-8.
   * @throws UnreadableObjectError, ObjectKeptOutError
   */
  decode(key: string, stored: Buffer): Buffer {
    if (!this.#keyRing) {
      if (stored[0] === ENCRYPTED) {
        throw new UnreadableObjectError(
          `the object ${key} is encrypted in the cache: read it through the cache API (httpCache)`,
        );
      }
      return expand(key, stored);
    }
    // A client that can write to Redis must not be able to replace an encrypted object by an object of its own.
    if (stored[0] !== ENCRYPTED) throw new UnreadableObjectError(`the object ${key} is not encrypted in the cache`);
    let inner: Buffer;
    try {
      inner = this.#keyRing.decrypt(stored, this.#binding(key));
    } catch (error) {
      throw new UnreadableObjectError(`the object ${key} cannot be decrypted (${messageOf(error)})`);
    }
    return expand(key, inner);
  }

  #compress(json: string): string | Buffer {
    // A text has at least as many bytes as characters, and mostly exactly as many.
    if (json.length <= this.#compressAbove) return json;
    const packed = deflateSync(json, { level: 1 });
    return packed.length + 1 < Buffer.byteLength(json) ? Buffer.concat([Z, packed]) : json;
  }

  /** The place of the ciphertext, authenticated with it: decryption fails for another key or view. */
  #binding(key: string): Buffer {
    return Buffer.from(`${this.#prefix}\n${key}`);
  }
}

const PLAIN = '{'.charCodeAt(0);
const COMPRESSED = 'z'.charCodeAt(0);
const MARK = 'x'.charCodeAt(0);
const Z = Buffer.of(COMPRESSED);
/** Far above what etcd takes (1.5 MiB by default): a few bytes must not become gigabytes. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Whether a stored object is its JSON as it stands. */
export function isPlain(stored: Buffer): boolean {
  return stored[0] === PLAIN;
}

function expand(key: string, stored: Buffer): Buffer {
  if (isPlain(stored)) return stored;
  if (stored[0] === MARK) throw keptOut(key, stored);
  if (stored[0] !== COMPRESSED) {
    const format = stored.toString('latin1', 0, 1);
    throw new UnreadableObjectError(
      `the object ${key} is in the cache in the unknown format ${JSON.stringify(format)}: upgrade this reader`,
    );
  }
  try {
    return inflateSync(stored.subarray(1), { maxOutputLength: MAX_BYTES });
  } catch {
    throw new UnreadableObjectError(`the object ${key} cannot be decompressed: its bytes in the cache were altered`);
  }
}

function keptOut(key: string, stored: Buffer): Error {
  try {
    return new ObjectKeptOutError(key, parseJson(stored.toString('utf8', 1)) as Mark);
  } catch {
    return new UnreadableObjectError(
      `the mark in the place of ${key} cannot be read: its bytes in the cache were altered`,
    );
  }
}
