import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { generateSecret, LEVELHOOK_HEADER, RESULT_STREAM } from '../../../contract/index.ts';
import { importExtractableSecret } from '../../../contract/signature.ts';
import { SocketServer } from '../../../../test/harness/socket-server.ts';
import { Endpoint } from './endpoint.ts';
import { HeldBytes } from './held-bytes.ts';

const MEBIBYTE = 1024 * 1024;
const JSON_TYPE = 'application/json';

/** A function that sends its answer in chunks of these texts. */
class ChunkServer extends SocketServer {
  chunks: readonly string[] = [];
  type = JSON_TYPE;

  constructor() {
    super((socket) => {
      const pieces = this.chunks.map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`);
      const head = `HTTP/1.1 200 OK\r\n${LEVELHOOK_HEADER}: 1\r\ncontent-type: ${this.type}\r\nconnection: close\r\n`;
      const answer = `${head}transfer-encoding: chunked\r\n\r\n${pieces.join('')}0\r\n\r\n`;
      socket.on('error', () => {}).once('data', () => socket.end(answer));
    });
  }
}

describe('an answer that comes in small chunks', () => {
  let server: ChunkServer;
  let endpoint: Endpoint;

  beforeEach(async () => {
    server = new ChunkServer();
    endpoint = new Endpoint(await server.open(), [await importExtractableSecret(generateSecret())], { connections: 1 });
  });

  afterEach(async () => {
    await endpoint.close();
    server.close();
  });

  const request = { body: '{}', id: 'msg', timeoutMs: 60_000 } as const;

  it('is read whole when they are few', async () => {
    const text = `{"text":"${'ö€'.repeat(100)}"}`;
    server.chunks = text.split('');
    expect(await endpoint.send(request)).toMatchObject({ kind: 'answered', body: text });
  });

  it('gives each line of a stream of results as it was sent', async () => {
    const lines = Array.from({ length: 10 }, (_, at) => `{"${at}":"${'ö'.repeat(at)}"}`);
    server.type = RESULT_STREAM;
    const found: string[] = [];
    for (const size of [1, 7, 100]) {
      const text = `${lines.join('\n')}\n`;
      server.chunks = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
      await endpoint.send({ ...request, onLine: (line) => void found.push(line) });
    }
    expect(found).toEqual([...lines, ...lines, ...lines]);
  });

  it.each([JSON_TYPE, RESULT_STREAM])('of type %s is not read to its end when they are many', async (type) => {
    server.chunks = Array.from({ length: MEBIBYTE }, () => 'x');
    server.type = type;
    const held = new HeldBytes({ perOwner: 2 * MEBIBYTE, total: 2 * MEBIBYTE, reserved: 0 });
    let taken = 0;
    const hold = held.open('tenant');
    const counting = { add: (bytes: number) => hold.add(bytes) && (taken += bytes) > 0, release: () => hold.release() };
    const answer = await endpoint.send({ ...request, hold: counting, onLine: () => undefined });
    expect(answer).toMatchObject({ kind: 'failed', reason: 'too-large' });
    expect(answer).toHaveProperty('message', 'the answer comes in more than 256 chunks of less than 256 bytes');
    expect(taken).toBeLessThan(500);
  });
});
