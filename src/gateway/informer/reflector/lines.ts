import type { Readable } from 'node:stream';

const NEWLINE = 10;

/**
 * The complete lines of a stream, without their line ends, in arrays as they arrive. A last unended line is dropped.
 */
export async function* lines(stream: Readable): AsyncGenerator<Buffer[]> {
  let rest: Buffer[] = [];
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const found: Buffer[] = [];
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      const piece = chunk.subarray(from, end);
      // A line that began in earlier chunks is joined once, here: joining at every chunk is quadratic for a large
      // object.
      found.push(rest.length > 0 ? Buffer.concat([...rest, piece]) : piece);
      rest = [];
      from = end + 1;
    }
    if (from < chunk.length) rest.push(chunk.subarray(from));
    if (found.length > 0) yield found;
  }
}
