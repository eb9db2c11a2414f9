import * as fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { messageOf } from '../core/index.ts';
import { generateSecret, importSecret, sign, SignatureError, TOLERANCE_SECONDS, verify } from './signature.ts';

// The example of the specification (spec/standard-webhooks.md); its signature is the published package's.
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const ID = 'msg_p5jXN8AQM9LWM0D4loKWxJek';
const AT_SECONDS = 1_614_265_330;
const PAYLOAD = '{"test": 2432232314}';

const text = fc.string({ unit: 'binary', maxLength: 500 });
const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/);
const plain = (headers: object): Record<string, string> => ({ ...headers });
const key = (secret = SECRET) => importSecret(secret);

/** Verifies at `nowMs` a message signed at the example's time, with `headers` instead of the right ones. */
async function check(headers: Record<string, string | undefined> = {}, nowMs = AT_SECONDS * 1000, body = PAYLOAD) {
  const keys = [await key()];
  const right = await sign(keys, { id: ID, nowMs: AT_SECONDS * 1000, body: PAYLOAD });
  const sent = new Headers();
  for (const [name, value] of Object.entries({ ...right, ...headers })) if (value !== undefined) sent.set(name, value);
  await verify(keys, { headers: sent, nowMs, body });
}

describe('sign', () => {
  it('makes the signature of the specification', async () => {
    const signed = await sign([await key()], { id: ID, nowMs: AT_SECONDS * 1000 + 999, body: PAYLOAD });
    const published = new Webhook(SECRET).sign(ID, new Date(AT_SECONDS * 1000), PAYLOAD);
    expect(signed).toEqual({
      'webhook-id': ID,
      'webhook-timestamp': String(AT_SECONDS),
      'webhook-signature': published,
    });
    expect(published).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  });

  it('is verified by the published package, whatever the body', async () => {
    await fc.assert(
      fc.asyncProperty(text, id, async (body, id) => {
        const secret = generateSecret();
        const signed = await sign([await key(secret)], { id, nowMs: Date.now(), body });
        // Throws when the signature does not match; an empty body is verified too.
        new Webhook(secret).verify(body, plain(signed), { jsonParse: false });
        if (body !== '') {
          expect(() => new Webhook(secret).verify(`${body}x`, plain(signed), { jsonParse: false })).toThrow();
        }
      }),
    );
  });

  it('signs with each secret while one is being rotated', async () => {
    const secrets = [generateSecret(), generateSecret()];
    const keys = await Promise.all(secrets.map(key));
    const signed = await sign(keys, { id: ID, nowMs: Date.now(), body: PAYLOAD });
    expect(signed['webhook-signature'].split(' ')).toHaveLength(2);
    for (const secret of secrets) new Webhook(secret).verify(PAYLOAD, plain(signed));
  });
});

describe('verify', () => {
  it('accepts what the published package has signed, and no other body, id or time', async () => {
    await fc.assert(
      fc.asyncProperty(text, text, id, async (body, other, id) => {
        const secret = generateSecret();
        const nowMs = AT_SECONDS * 1000;
        const headers = new Headers({
          'webhook-id': id,
          'webhook-timestamp': String(AT_SECONDS),
          'webhook-signature': new Webhook(secret).sign(id, new Date(nowMs), body),
        });
        const keys = [await key(secret)];
        await verify(keys, { headers, nowMs, body });
        if (other !== body) await expect(verify(keys, { headers, nowMs, body: other })).rejects.toThrow(SignatureError);
        const changed = new Headers(headers);
        changed.set('webhook-id', `${id}x`);
        await expect(verify(keys, { headers: changed, nowMs, body })).rejects.toThrow(SignatureError);
        changed.set('webhook-id', id);
        changed.set('webhook-timestamp', String(AT_SECONDS + 1));
        await expect(verify(keys, { headers: changed, nowMs, body })).rejects.toThrow(SignatureError);
      }),
    );
  });

  it('accepts either secret while one is being rotated, on both sides, and no third', async () => {
    const [old, fresh, foreign] = await Promise.all([generateSecret(), generateSecret(), generateSecret()].map(key));
    if (!old || !fresh || !foreign) throw new Error('unreachable');
    const nowMs = Date.now();
    const message = { id: ID, nowMs, body: PAYLOAD };
    const at = async (signers: (typeof old)[], verifiers: (typeof old)[]) =>
      verify(verifiers, { headers: new Headers(plain(await sign(signers, message))), nowMs, body: PAYLOAD });
    await at([old], [old, fresh]);
    await at([fresh], [old, fresh]);
    await at([old, fresh], [fresh]);
    await at([old, fresh], [old]);
    await expect(at([foreign], [old, fresh])).rejects.toThrow('no signature matches');
    await expect(at([old, fresh], [foreign])).rejects.toThrow('no signature matches');
    await expect(at([old], [])).rejects.toThrow('no signature matches');
  });

  it.each([
    [TOLERANCE_SECONDS, undefined],
    [TOLERANCE_SECONDS + 1, 'the message is too old'],
    [-TOLERANCE_SECONDS, undefined],
    [-TOLERANCE_SECONDS - 1, 'the message has a timestamp in the future'],
  ])('at %d s after the timestamp: %s', async (seconds, refusal) => {
    const checked = check({}, (AT_SECONDS + seconds) * 1000);
    await (refusal === undefined ? checked : expect(checked).rejects.toThrow(refusal));
  });

  it.each([
    ['webhook-id', undefined],
    ['webhook-timestamp', undefined],
    ['webhook-signature', undefined],
    ['webhook-id', ''],
    ['webhook-timestamp', 'soon'],
    ['webhook-timestamp', '-5'],
    ['webhook-timestamp', `${AT_SECONDS}.0`],
    ['webhook-timestamp', '1e9'],
    ['webhook-timestamp', '9'.repeat(40)],
    ['webhook-signature', 'v1'],
    ['webhook-signature', 'v1,'],
    ['webhook-signature', 'v1,?'],
    ['webhook-signature', 'v1,AAAA'],
    ['webhook-signature', 'g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='],
    ['webhook-signature', 'v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='],
    ['webhook-signature', 'v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='],
    ['webhook-signature', 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1O'],
  ])('refuses the header %s: %s', async (name, value) => {
    await expect(check({ [name]: value })).rejects.toThrow(SignatureError);
  });

  it('finds the right one among several signatures, of other versions and of nonsense', async () => {
    const right = new Webhook(SECRET).sign(ID, new Date(AT_SECONDS * 1000), PAYLOAD);
    await check({ 'webhook-signature': `v1a,AAAA v1,!!! v1 ${'v1,AAAA '.repeat(6)}${right} v2,x` });
  });

  it('looks at few signatures, because each costs an HMAC of the body', async () => {
    const right = new Webhook(SECRET).sign(ID, new Date(AT_SECONDS * 1000), PAYLOAD);
    const many = check({ 'webhook-signature': `${'v1,AAAA '.repeat(2600)}${right}` });
    await expect(many).rejects.toThrow('more than 8 signatures');
  });

  it('throws nothing but a SignatureError, whatever the headers are', async () => {
    const value = fc.oneof(fc.constant(undefined), fc.string(), fc.stringMatching(/^v1,[A-Za-z0-9+/=]{0,60}$/));
    await fc.assert(
      fc.asyncProperty(value, value, value, async (id, timestamp, signature) => {
        const given = new Map([
          ['webhook-id', id],
          ['webhook-timestamp', timestamp],
          ['webhook-signature', signature],
        ]);
        const headers = { get: (name: string) => given.get(name) ?? null };
        await expect(verify([await key()], { headers, nowMs: 0, body: '' })).rejects.toThrow(SignatureError);
      }),
    );
  });
});

describe('importSecret', () => {
  it.each([
    ['without its prefix', 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    ['of another kind', 'whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    ['that is not base64', 'whsec_MfKQ9r8GKYqr*wjUPD8ILPZIo2LaLaSw'],
    ['that is too short', `whsec_${btoa('hush-hush'.repeat(2))}`],
    ['that is too long', `whsec_${btoa('hush-hush'.repeat(8))}`],
    ['that is empty', 'whsec_'],
  ])('refuses a secret %s, and does not tell it', async (_what, secret) => {
    const error: unknown = await importSecret(secret).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(TypeError);
    const message = messageOf(error);
    expect(message).not.toContain(secret.slice(8) || '\0');
  });

  it("takes the specification's lengths, and its own", async () => {
    for (const length of [24, 32, 64]) await importSecret(`whsec_${btoa('x'.repeat(length))}`);
    expect(generateSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(generateSecret()).not.toBe(generateSecret());
  });

  it('gives a key that cannot be taken out again', async () => {
    expect((await importSecret(SECRET)).extractable).toBe(false);
  });
});
