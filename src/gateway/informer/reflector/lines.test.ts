import { Readable } from 'node:stream';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lines } from './lines.ts';

async function read(chunks: Buffer[]): Promise<string[]> {
  const found: string[] = [];
  for await (const batch of lines(Readable.from(chunks))) found.push(...batch.map((line) => line.toString('utf8')));
  return found;
}

describe('lines', () => {
  it('are the same however the stream is cut into chunks', async () => {
    const line = fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\n', ' '));
    const cuts = fc.array(fc.nat(), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(fc.array(line), line, cuts, async (all, rest, at) => {
        const bytes = Buffer.from(all.map((text) => `${text}\n`).join('') + rest);
        const ends = at.map((cut) => (bytes.length ? cut % bytes.length : 0)).toSorted((a, b) => a - b);
        const chunks = [...ends, bytes.length].map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
        // The last line has no end: it is half of one, and dropped.
        expect(await read(chunks.filter(({ length }) => length > 0))).toEqual(all);
      }),
    );
  });
});
