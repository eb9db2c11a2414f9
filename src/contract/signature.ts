/**
 * Standard Webhooks signatures (https://github.com/standard-webhooks/standard-webhooks, v1 symmetric scheme):
 * HMAC-SHA256 over `id.timestamp.body`. On WebCrypto, so that it runs wherever a function does.
 */

const SECRET_PREFIX = 'whsec_';
/** How far a timestamp may lie from the verifier's clock, in seconds, either way. The specification's value. */
export const TOLERANCE_SECONDS = 300;

/** Each of a message costs an HMAC of its body for each key; a sender in the middle of a rotation has a few. */
export const MAX_SIGNATURES = 8;

/** An imported secret: a WebCrypto key, named without the DOM's types. */
export type SigningKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

export interface SignatureHeaders {
  /** Unique for each message; the same for each attempt to deliver it. */
  readonly 'webhook-id': string;
  /** Seconds since the epoch. */
  readonly 'webhook-timestamp': string;
  /** One `v1,<base64>` for each secret, separated by spaces: several while a secret is being rotated. */
  readonly 'webhook-signature': string;
}

/** The reason why a signature was refused, for the log and the 401. It never shows the right signature. */
export class SignatureError extends Error {
  override readonly name = 'SignatureError';
}

/**
 * Imports one secret: `whsec_` and base64 of 24 to 64 bytes, as the specification asks.
 * @throws TypeError with the reason, never with the secret.
 */
export function importSecret(secret: string): Promise<SigningKey> {
  return importKey(secret, false);
}

/** As `importSecret`, but node:crypto can use the key, too: `signSync` takes a tenth of WebCrypto's time. */
export function importExtractableSecret(secret: string): Promise<SigningKey> {
  return importKey(secret, true);
}

async function importKey(secret: string, extractable: boolean): Promise<SigningKey> {
  const bytes = decodeSecret(secret);
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, extractable, ['sign', 'verify']);
}

/** Decodes a secret, without a promise. @throws TypeError as `importSecret` does. */
export function decodeSecret(secret: string): Uint8Array<ArrayBuffer> {
  if (!secret.startsWith(SECRET_PREFIX)) throw new TypeError('a signing secret begins with "whsec_"');
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = fromBase64(secret.slice(SECRET_PREFIX.length));
  } catch {
    throw new TypeError('a signing secret is "whsec_" followed by base64');
  }
  if (bytes.length < 24 || bytes.length > 64) throw new TypeError('a signing secret holds 24 to 64 bytes');
  return bytes;
}

/** A new random secret of 32 bytes. */
export function generateSecret(): string {
  return SECRET_PREFIX + toBase64(crypto.getRandomValues(new Uint8Array(32)));
}

/** Signs `body` with each key: the receiver accepts any one of them. `nowMs` is the sender's clock. */
export async function sign(
  keys: readonly SigningKey[],
  message: { id: string; nowMs: number; body: string },
): Promise<SignatureHeaders> {
  const timestamp = String(Math.floor(message.nowMs / 1000));
  const content = encode(`${message.id}.${timestamp}.${message.body}`);
  const signatures = await Promise.all(
    keys.map(async (key) => `v1,${toBase64(new Uint8Array(await crypto.subtle.sign('HMAC', key, content)))}`),
  );
  return { 'webhook-id': message.id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
}

/** A received message. */
export interface SignedMessage {
  readonly headers: { get(name: string): string | null };
  /** The receiver's clock. */
  readonly nowMs: number;
  /** The raw body. */
  readonly body: string;
}

/**
 * Verifies the raw body before anything parses it: some signature must match some key, and the timestamp must lie
 * within `TOLERANCE_SECONDS` of `nowMs`. `crypto.subtle.verify` compares in constant time.
 * @throws SignatureError
 */
export async function verify(keys: readonly SigningKey[], message: SignedMessage): Promise<void> {
  const { content: text, signatures } = signedParts(message);
  const content = encode(text);
  for (const signature of signatures) {
    let bytes: Uint8Array<ArrayBuffer>;
    try {
      bytes = fromBase64(signature);
    } catch {
      continue;
    }
    for (const key of keys) {
      if (await crypto.subtle.verify('HMAC', key, bytes, content)) return;
    }
  }
  throw new SignatureError(NO_MATCH);
}

export const NO_MATCH = 'no signature matches';

/**
 * Returns the signed text and the signatures of version `v1` in base64, for `verify` and `verifySync`.
 * @throws SignatureError for a message that is too old or from the future, whose headers are missing, or that has more
 *   than `MAX_SIGNATURES`.
 */
export function signedParts(message: SignedMessage): { content: string; signatures: readonly string[] } {
  const id = message.headers.get('webhook-id');
  const timestamp = message.headers.get('webhook-timestamp');
  const signed = message.headers.get('webhook-signature');
  if (!id || !timestamp || !signed) throw new SignatureError('the signature headers are missing');
  if (!/^[0-9]{1,12}$/.test(timestamp)) throw new SignatureError('webhook-timestamp is not a number of seconds');
  const age = Math.floor(message.nowMs / 1000) - Number(timestamp);
  if (age > TOLERANCE_SECONDS) throw new SignatureError('the message is too old');
  if (age < -TOLERANCE_SECONDS) throw new SignatureError('the message has a timestamp in the future');
  const signatures: string[] = [];
  for (const candidate of signed.split(' ')) {
    const [version, text] = candidate.split(',', 2);
    if (version === 'v1' && text) signatures.push(text);
  }
  if (signatures.length > MAX_SIGNATURES) throw new SignatureError(`more than ${MAX_SIGNATURES} signatures`);
  return { content: `${id}.${timestamp}.${message.body}`, signatures };
}

const encoder = new TextEncoder();

function encode(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text);
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
