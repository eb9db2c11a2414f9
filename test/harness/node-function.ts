import { type Controller, createFunctionApp } from '../../src/function/index.ts';
import { createTriggerServer } from '../../src/function/node/trigger-server.ts';
import type { Trigger } from '../../src/contract/index.ts';
import { silentLogger } from '../../src/core/index.ts';
import { LoopbackServer } from './loopback-server.ts';

/**
 * A function on Node in the test's own process, as `serveFunction` serves it, that was given its secret and nothing
 * else: no kubeconfig, no Redis.
 */
export class NodeFunction extends LoopbackServer {
  /** As they arrived. */
  readonly triggers: Trigger[] = [];

  constructor(controller: Controller, secret: string) {
    const server = createTriggerServer(createFunctionApp(controller, { secrets: [secret], logger: silentLogger }));
    super(server);
    server.prependListener('request', (request) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        if (request.method === 'POST') this.triggers.push(JSON.parse(Buffer.concat(chunks).toString()) as Trigger);
      });
    });
  }
}
