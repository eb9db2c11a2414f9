import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { generateSecret, LEVELHOOK_HEADER } from '../../../contract/index.ts';
import { importExtractableSecret } from '../../../contract/signature.ts';
import { SocketServer } from '../../../../test/harness/socket-server.ts';
import { type Answer, Endpoint } from './endpoint.ts';

const MEBIBYTE = 1024 * 1024;
const OK = `HTTP/1.1 200 OK\r\n${LEVELHOOK_HEADER}: v1\r\n`;
const WHOLE = `${OK}content-length: 2\r\n\r\n{}`;
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;
const END = '0\r\n\r\n';

const inChunks = (chunks: readonly string[]): string =>
  chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('') + END;

describe('an answer that takes the time of the parser', () => {
  let answer: (socket: Socket) => void;
  let server: SocketServer;
  let endpoint: Endpoint;
  /** Milliseconds. */
  let charged: number;

  beforeEach(async () => {
    charged = 0;
    server = new SocketServer((socket) => void socket.on('error', () => {}).on('data', () => answer(socket)));
    endpoint = new Endpoint(await server.open(), [await importExtractableSecret(generateSecret())], { connections: 1 });
  });

  afterEach(async () => {
    await endpoint.close();
    server.close();
  });

  const send = (): Promise<Answer> =>
    endpoint.send({ body: '{}', id: 'msg', timeoutMs: 20_000, charge: (ms) => (charged += ms) });
  const answered = (text: string): Promise<Answer> => {
    answer = (socket) => void socket.write(text);
    return send();
  };

  it('is not read after more than 8 informational answers', async () => {
    const hint = `HTTP/1.1 103 \r\n${LEVELHOOK_HEADER}: v0\r\n\r\n`;
    const found = await answered(hint.repeat(8) + WHOLE);
    expect(found).toMatchObject({ kind: 'answered', status: 200, body: '{}', headers: { [LEVELHOOK_HEADER]: 'v1' } });
    expect(await answered(hint.repeat(9) + WHOLE)).toEqual({
      kind: 'failed',
      reason: 'too-large',
      message: 'the answer comes after more than 8 informational answers',
    });
  });

  it.each([
    ['line breaks before it', `${'\r\n'.repeat(MEBIBYTE / 2)}${WHOLE}`],
    ['a long reason phrase', WHOLE.replace('OK', 'x'.repeat(MEBIBYTE))],
    ['a long chunk extension', `${CHUNKED}1;${'x'.repeat(MEBIBYTE)}\r\nx\r\n${END}`],
    ['a chunk extension for each chunk', `${CHUNKED}${`1;${'x'.repeat(8192)}\r\nx\r\n`.repeat(128)}${END}`],
    ['a long length of a chunk', `${CHUNKED}${'0'.repeat(MEBIBYTE)}1\r\nx\r\n${END}`],
  ])('is not read to its end when it has %s', async (_what, text) => {
    expect(await answered(text)).toEqual({
      kind: 'failed',
      reason: 'too-large',
      message: 'the answer has more than 64 KiB, and a quarter of its body, outside its body',
    });
  });

  it('is read to its end when it comes as servers send it', async () => {
    for (const chunks of [
      Array.from({ length: 200 }, () => 'x'),
      Array.from({ length: 256 }, () => 'x'.repeat(4096)),
      Array.from({ length: 4096 }, () => 'x'.repeat(256)),
    ]) {
      expect(await answered(CHUNKED + inChunks(chunks))).toMatchObject({ kind: 'answered', body: chunks.join('') });
    }
  });

  it('is charged by its chunks, bytes and headers, and an ordinary one is free', async () => {
    await answered(WHOLE);
    await answered(CHUNKED + inChunks(Array.from({ length: 20 }, () => 'x')));
    expect(charged).toBe(0);
    const busy = `HTTP/1.1 429 \r\n${LEVELHOOK_HEADER}: v1\r\ntransfer-encoding: chunked\r\n\r\n`;
    expect(await answered(busy + inChunks(Array.from({ length: 250 }, () => 'x')))).toMatchObject({ status: 429 });
    expect(charged).toBeGreaterThan(0.2);
    charged = 0;
    await answered(OK + 'a:\r\n'.repeat(1000) + 'content-length: 0\r\n\r\n');
    expect(charged).toBeGreaterThan(0.9);
    charged = 0;
    await answered(`${OK}content-length: ${MEBIBYTE}\r\n\r\n${'x'.repeat(MEBIBYTE)}`);
    expect(charged).toBeGreaterThan(0.9);
    charged = 0;
    await answered(CHUNKED + inChunks(Array.from({ length: 1000 }, () => 'x')));
    expect(charged).toBeGreaterThan(0.2);
  });

  it.each([429, 500, 503])('has ended with %s, whatever follows in a body that nothing reads', async (status) => {
    let closed = false;
    answer = (socket) => {
      const more = (): void => {
        // The function never ends its answer.
        if (!closed) socket.write('x'.repeat(1024), () => setImmediate(more));
      };
      socket.on('close', () => (closed = true));
      socket.write(`HTTP/1.1 ${status} \r\n${LEVELHOOK_HEADER}: v1\r\ncontent-length: ${64 * MEBIBYTE}\r\n\r\n`, more);
    };
    expect(await send()).toMatchObject({ kind: 'answered', status, headers: { [LEVELHOOK_HEADER]: 'v1' }, body: '' });
    answer = (socket) => void socket.write(WHOLE);
    expect(await send()).toMatchObject({ kind: 'answered', status: 200 });
    const reason = JSON.stringify({ error: 'x'.repeat(4000) });
    const refusal = `HTTP/1.1 ${status} \r\n${LEVELHOOK_HEADER}: v1\r\ncontent-length: ${reason.length}\r\n\r\n${reason}`;
    expect(await answered(refusal)).toMatchObject({ kind: 'answered', status, body: reason });
  });
});

describe('the answer to a request for a profile', () => {
  it.each([
    [
      'informational answers',
      `HTTP/1.1 103 \r\n\r\n`.repeat(9) + WHOLE,
      'the answer comes after more than 8 informational answers',
    ],
    [
      'bytes outside its body',
      `${'\r\n'.repeat(MEBIBYTE / 2)}${WHOLE}`,
      'the answer has more than 64 KiB, and a quarter of its body, outside its body',
    ],
    [
      'small chunks',
      CHUNKED + inChunks(Array.from({ length: 1000 }, () => 'x')),
      'the answer comes in more than 256 chunks of less than 256 bytes',
    ],
  ])('is not read to its end when it has many %s', async (_what, text, message) => {
    const server = new SocketServer((socket) => void socket.on('error', () => {}).on('data', () => socket.write(text)));
    const endpoint = new Endpoint(await server.open(), [await importExtractableSecret(generateSecret())], {
      connections: 1,
    });
    const { signal } = new AbortController();
    const request = { id: 'msg', body: '{}', timeoutMs: 20_000, maxAnswerBytes: MEBIBYTE, signal };
    expect(await endpoint.postBelow('/profile', request)).toEqual({ kind: 'failed', reason: 'too-large', message });
    await endpoint.close();
    server.close();
  });
});
