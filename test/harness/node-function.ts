import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Controller, createFunctionApp } from '../../src/function/index.ts';
import { createTriggerServer } from '../../src/function/node/trigger-server.ts';
import type { Trigger } from '../../src/contract/index.ts';
import { silentLogger } from '../../src/core/index.ts';

/**
 * A function on Node in the test's own process, as `serveFunction` serves it, that was given its secret and nothing
 * else: no kubeconfig, no Redis.
 */
export class NodeFunction {
  /** As they arrived. */
  readonly triggers: Trigger[] = [];
  readonly #server: Server;

  constructor(controller: Controller, secret: string) {
    this.#server = createTriggerServer(createFunctionApp(controller, { secrets: [secret], logger: silentLogger }));
    this.#server.prependListener('request', (request) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        if (request.method === 'POST') this.triggers.push(JSON.parse(Buffer.concat(chunks).toString()) as Trigger);
      });
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
