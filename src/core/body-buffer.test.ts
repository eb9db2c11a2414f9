import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { memoryUse } from '../../test/harness/memory-use.ts';
import { BodyBuffer } from './body-buffer.ts';

describe('a buffer of a body', () => {
  it('gives back what came in any chunks, and then what comes after that', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.uint8Array({ maxLength: 3000 }))), (bodies) => {
        const buffer = new BodyBuffer();
        for (const chunks of bodies) {
          for (const chunk of chunks) buffer.add(chunk);
          const whole = Buffer.concat(chunks);
          expect(buffer.length).toBe(whole.length);
          expect(Buffer.from(buffer.take()).equals(whole)).toBe(true);
          expect(buffer.length).toBe(0);
        }
      }),
    );
  });

  it('decodes characters that chunks divide, and keeps a byte order mark', () => {
    const buffer = new BodyBuffer();
    for (const byte of Buffer.from('\ufeff{"a":"ö€😀"}')) buffer.add(Uint8Array.of(byte));
    expect(buffer.takeText()).toBe('\ufeff{"a":"ö€😀"}');
  });

  it('tells a body of many small chunks, and none whose chunks have 256 bytes', () => {
    const small = new BodyBuffer();
    let count = 0;
    for (; !small.isScattered; count += 1) small.add(Uint8Array.of(1));
    expect(count).toBe(258);
    const usual = new BodyBuffer();
    for (let at = 0; at < 50_000; at += 1) usual.add(new Uint8Array(256));
    expect(usual.isScattered).toBe(false);
  });

  it('takes at most twice the memory of its bytes, however small the chunks are and whatever they are part of', async () => {
    const before = await memoryUse();
    // Node reads 64 KiB from a connection, and each chunk is a part of that.
    const held = Array.from({ length: 300 }, () => {
      const buffer = new BodyBuffer();
      for (let at = 0; at < 4000; at += 1) {
        const read = new Uint8Array(at % 100 === 0 ? 65_536 : 16);
        buffer.add(read.subarray(0, 3));
      }
      return buffer;
    });
    const bytes = held.reduce((sum, { length }) => sum + length, 0);
    expect(bytes).toBe(3_600_000);
    expect((await memoryUse()) - before).toBeLessThan(2.2 * bytes);
    expect(held).toHaveLength(300);
  });
});
