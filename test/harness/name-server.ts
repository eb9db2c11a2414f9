import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv4 } from 'node:net';
import type { Started } from './started.ts';

const HEAD_BYTES = 12;
const [TYPE_A, CLASS_IN, TTL_SECONDS] = [1, 1, 60];
/** A response to a recursive query, without an error. */
const FLAGS = 0x81_80;

/**
 * A server of names at port 53 of an address of the test's own, which needs root.
 * @param names their IPv4 addresses. It is silent about all others.
 */
export async function startNameServer(
  started: Started,
  address: string,
  names: Readonly<Record<string, string>>,
): Promise<void> {
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address: client }) => {
    const { name, type, end } = questionOf(query);
    const found = names[name];
    if (found === undefined || !isIPv4(found)) return;
    const answer = Buffer.from(query.subarray(0, end));
    answer.writeUInt16BE(FLAGS, 2);
    answer.writeUInt16BE(type === TYPE_A ? 1 : 0, 6);
    answer.writeUInt32BE(0, 8);
    // The name is that of the question, at the end of the head.
    const record = Buffer.from([0xc0, HEAD_BYTES, 0, TYPE_A, 0, CLASS_IN, 0, 0, 0, TTL_SECONDS, 0, 4]);
    const records = type === TYPE_A ? [record, Buffer.from(found.split('.').map(Number))] : [];
    socket.send(Buffer.concat([answer, ...records]), port, client);
  });
  socket.bind(53, address);
  await once(socket, 'listening');
  started.add(async () => void socket.close());
}

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = HEAD_BYTES;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.subarray(at + 1, at + 1 + length).toString());
    at += length + 1;
  }
  return { name: labels.join('.'), type: query.readUInt16BE(at + 1), end: at + 5 };
}
