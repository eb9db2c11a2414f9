import { randomBytes } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ObjectCodec, UnreadableObjectError } from './codec.ts';
import { type CacheKey, KeyRing } from './key-ring.ts';

const prefix = '{levelhook:v1:c:v1/Secret:hash}';
const newKey = (id: string): CacheKey => ({ id, bytes: randomBytes(32) });
const [old, fresh] = [newKey('2025'), newKey('2026')];
const encrypting = (keys: readonly CacheKey[], compressAbove?: number): ObjectCodec =>
  new ObjectCodec({ prefix, keyRing: new KeyRing(keys), compressAbove });
const formats: Readonly<Record<string, ObjectCodec>> = {
  plain: new ObjectCodec({ prefix, compressAbove: Infinity }),
  compressed: new ObjectCodec({ prefix, compressAbove: 0 }),
  encrypted: encrypting([fresh, old], Infinity),
  'compressed and encrypted': encrypting([fresh], 0),
};
const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()).map((value) => JSON.stringify(value));
const bytesOf = (stored: string | Buffer): Buffer => Buffer.from(stored as string);
const large = JSON.stringify({ data: { text: 'all work and no play '.repeat(1000) } });

describe.each(Object.entries(formats))('an object that is %s', (_, codec) => {
  it('is what it was, whatever it holds', () => {
    fc.assert(
      fc.property(object, fc.string(), (json, key) => {
        expect(String(codec.decode(key, bytesOf(codec.encode(key, json))))).toBe(json);
      }),
    );
  });
});

it('the form of a stored value is told by its first byte', () => {
  expect(Object.values(formats).map((codec) => bytesOf(codec.encode('a/b', large)).toString('latin1', 0, 1))).toEqual([
    '{',
    'z',
    'e',
    'e',
  ]);
});

it('a stored value is compressed above the threshold, and only where that makes it smaller', () => {
  const codec = new ObjectCodec({ prefix });
  expect(codec.encode('k', large).length).toBeLessThan(large.length / 10);
  const small = JSON.stringify({ a: 'x'.repeat(16 * 1024 - '{"a":""}'.length) });
  expect(codec.encode('k', small)).toBe(small);
  const noise = JSON.stringify({
    a: String.fromCodePoint(...Array.from(randomBytes(20_000), (byte) => 0x4e00 + byte)),
  });
  expect(bytesOf(codec.encode('k', noise)).length).toBeLessThanOrEqual(Buffer.byteLength(noise));
  const tiny = new ObjectCodec({ prefix, compressAbove: 0 });
  expect(tiny.encode('k', '{"a":1}')).toBe('{"a":1}');
});

describe('an encrypted object', () => {
  const codec = encrypting([fresh]);
  const json = '{"data":{"password":"aHVudGVyMg=="}}';
  const encrypted = bytesOf(codec.encode('a/b', json));

  it('is refused when any of its bytes is altered, and when it is cut off or longer', () => {
    fc.assert(
      fc.property(fc.nat(encrypted.length - 1), fc.integer({ min: 1, max: 255 }), (at, difference) => {
        const altered = Buffer.from(encrypted);
        altered[at] = (altered[at] ?? 0) ^ difference;
        expect(() => codec.decode('a/b', altered)).toThrow(UnreadableObjectError);
      }),
    );
    for (let length = 0; length < encrypted.length; length += 1) {
      expect(() => codec.decode('a/b', encrypted.subarray(0, length))).toThrow(UnreadableObjectError);
    }
    expect(() => codec.decode('a/b', Buffer.concat([encrypted, Buffer.of(0)]))).toThrow(UnreadableObjectError);
  });

  it('is refused under another key of the view, and in another view', () => {
    expect(() => codec.decode('a/c', encrypted)).toThrow('altered, moved');
    const other = new ObjectCodec({ prefix: '{other}', keyRing: new KeyRing([fresh]) });
    expect(() => other.decode('a/b', encrypted)).toThrow('altered, moved');
    // The same text, with another boundary between prefix and key.
    const shifted = new ObjectCodec({ prefix: `${prefix}\na/b`, keyRing: new KeyRing([fresh]) });
    expect(() => shifted.decode('', encrypted)).toThrow('altered, moved');
  });

  it('is read by every key of the ring, and written by the first', () => {
    const before = bytesOf(encrypting([old]).encode('a/b', json));
    expect(String(encrypting([fresh, old]).decode('a/b', before))).toBe(json);
    expect(String(codec.decode('a/b', bytesOf(encrypting([fresh, old]).encode('a/b', json))))).toBe(json);
    expect(() => codec.decode('a/b', before)).toThrow(
      'the object a/b cannot be decrypted (the key "2025" is not known here)',
    );
    expect(() => encrypting([{ ...newKey('2026') }]).decode('a/b', encrypted)).toThrow('another key "2026"');
  });

  it('is never the same twice, and shows nothing of what it holds', () => {
    expect(bytesOf(codec.encode('a/b', json)).equals(encrypted)).toBe(false);
    expect(encrypted.includes('password')).toBe(false);
    try {
      codec.decode('a/c', encrypted);
    } catch (error) {
      expect(String(error)).not.toContain('aHVudGVyMg');
    }
  });

  it('cannot be read without keys, and cannot be replaced by one that is not encrypted', () => {
    expect(() => new ObjectCodec({ prefix }).decode('a/b', encrypted)).toThrow(
      'read it through the cache API (httpCache)',
    );
    expect(() => codec.decode('a/b', Buffer.from(json))).toThrow('is not encrypted');
  });
});

describe('what was written before', () => {
  const key = { id: 'k1', bytes: Buffer.alloc(32, 7) };
  const reader = new ObjectCodec({ prefix: '{p}' });
  // Do not change these bytes: Redis servers in use hold them.
  const json = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","resourceVersion":"1","uid":"u"}}';
  const compressed =
    'engBRcwhDoAwDEDRu3w9g51FY/ENK6Qh68jYMIS7ExQHeO9GDpu1nlacyDUQ2M0TkbH4atskB4GsTZI0Id64ZCXiBKqepddF/+Dz3T7eeZ4XswUeUA==';
  const encrypted =
    'ZQJrMaKYOlbGJG+w+qjX4drBliTzVDPyiUkdeMKczDPZkKunjexJZWDYuBrARcDsBL3iNH2RZB3G5KpuCdwYtAUQeDoJbgh1qk6e5KWq+2SYF0LVeuh0shi4Yj0l4A4zQD4hemBDDCWVYuONxztstKeCqh6rXo2ymVcSL/+s';

  it('in format 1 is read', () => {
    expect(String(reader.decode('n', Buffer.from(json)))).toBe(json);
  });

  it('compressed is read', () => {
    expect(String(reader.decode('n', Buffer.from(compressed, 'base64')))).toBe(json);
  });

  it('encrypted is read', () => {
    const codec = new ObjectCodec({ prefix: '{p}', keyRing: new KeyRing([key]) });
    expect(String(codec.decode('n', Buffer.from(encrypted, 'base64')))).toBe(json);
  });

  it('in a format of the future is refused, and so is nothing at all', () => {
    for (const format of ['f', '[', '\u0000', 'é', '']) {
      const refused = (): Buffer => reader.decode('a/b', Buffer.from(`${format}anything`.slice(0, 5 * format.length)));
      expect(refused).toThrow(TypeError);
      expect(refused).toThrow('unknown format');
    }
    expect(() => reader.decode('a/b', Buffer.from('znot zlib'))).toThrow('cannot be decompressed');
  });
});

describe('KeyRing', () => {
  it('refuses keys that are none, in one sentence that shows no key', () => {
    const bytes = randomBytes(32);
    const wrong: [readonly CacheKey[], string][] = [
      [[], 'there is no key'],
      [[{ id: '', bytes }], 'letters, digits'],
      [[{ id: 'a b', bytes }], 'letters, digits'],
      [[{ id: 'x'.repeat(65), bytes }], 'letters, digits'],
      [[{ id: 'a', bytes: bytes.subarray(1) }], 'the key "a" must have 32 bytes and has 31'],
      [[{ id: 'a', bytes }, newKey('a')], 'two keys have the id "a"'],
      [
        [
          { id: 'a', bytes },
          { id: 'b', bytes },
        ],
        '"a" and "b" are the same key',
      ],
    ];
    for (const [keys, message] of wrong) {
      expect(() => new KeyRing(keys)).toThrow(message);
      expect(() => new KeyRing(keys)).toThrow(TypeError);
    }
  });

  it('names its first key, and another key of that id otherwise', () => {
    const ring = new KeyRing([fresh, old]);
    expect(ring.writer).toBe(new KeyRing([fresh]).writer);
    expect(ring.writer).not.toBe(new KeyRing([newKey(fresh.id)]).writer);
    expect(ring.writer).toMatch(/^2026:[\w-]{12}$/);
  });
});
