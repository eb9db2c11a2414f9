import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, inject, it } from 'vitest';
import { connectRedis } from '../../../src/ground/redis/redis.ts';
import { eventually } from '../../harness/eventually.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();

afterAll(() => started.stop());

it('a failover that is reported while the Sentinels are asked for the master does not end the connection', async () => {
  const { hostname, port } = new URL(inject('redisUrl'));
  const sentinel = await started.open(new ScriptedSentinel(hostname, port));
  const redis = await connectRedis(`redis+sentinel://127.0.0.1:${sentinel.port}/mymaster`);
  started.add(async () => redis.disconnect());
  const admin = await connectRedis(inject('redisUrl'));
  started.add(async () => admin.disconnect());
  await eventually(async () => expect(sentinel.subscribers.size).toBe(1));

  const [asked, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  sentinel.beforeAnswer = () => {
    asked.resolve();
    return goOn.promise;
  };
  // As a master that dies.
  await admin.client('KILL', 'ID', await redis.client('ID'));
  await asked.promise;
  sentinel.publishFailover();
  // The message has arrived.
  await sleep(100);
  goOn.resolve();
  expect(await redis.ping()).toBe('PONG');
});

/** Answers to other commands than the ones that matter; OK to the rest. Without HELLO messages come as in RESP 2. */
const OTHERS: ReadonlyMap<string, string> = new Map([
  ['hello', "-ERR unknown command 'HELLO'\r\n"],
  ['sentinel', '*0\r\n'],
  ['subscribe', `*3\r\n${bulk('subscribe')}${bulk('+switch-master')}:1\r\n`],
]);

/** Tells one address of the master, when the test lets it, and of failovers that have not happened. */
class ScriptedSentinel {
  /** Called when it was asked for the master. */
  beforeAnswer: () => Promise<void> = async () => {};
  readonly subscribers = new Set<Socket>();
  readonly #server: Server;
  readonly #master: string;

  constructor(host: string, port: string) {
    this.#master = `*2\r\n${bulk(host)}${bulk(port)}`;
    this.#server = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('close', () => this.subscribers.delete(socket));
      socket.on('data', (data) => void this.#answerAll(socket, data.toString()));
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    this.#server.close();
  }

  async #answerAll(socket: Socket, commands: string): Promise<void> {
    for (const [, command = ''] of commands.matchAll(/\*\d+\r\n((?:\$\d+\r\n[^\r]*\r\n)+)/g)) {
      const [name = '', ...args] = command.split('\r\n').filter((_, at) => at % 2 === 1);
      const isAboutMaster = args[0] === 'get-master-addr-by-name';
      if (name === 'subscribe') this.subscribers.add(socket);
      if (isAboutMaster) await this.beforeAnswer();
      socket.write(isAboutMaster ? this.#master : (OTHERS.get(name) ?? '+OK\r\n'));
    }
  }

  publishFailover(): void {
    const message = ['message', '+switch-master', 'mymaster 127.0.0.1 1 127.0.0.1 2'].map(bulk).join('');
    for (const socket of this.subscribers) socket.write(`*3\r\n${message}`);
  }
}

function bulk(text: string): string {
  return `$${text.length}\r\n${text}\r\n`;
}
