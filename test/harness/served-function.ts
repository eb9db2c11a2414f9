import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { type Controller, createFunctionApp, type FunctionAppOptions } from 'levelhook/function';
import { kubeConfigTransport } from 'levelhook/function/node';
import type { OutcomeBody, Trigger } from '../../src/contract/index.ts';
import { silentLogger } from '../../src/core/index.ts';
import type { Setting } from './levelhook.ts';
import { LoopbackServer } from './loopback-server.ts';

/** What became of a trigger, on its way back: the answer as it is, another one, or none at all. */
export type OnAnswer = (outcome: OutcomeBody, trigger: Trigger) => OutcomeBody | Promise<OutcomeBody>;

/** A function of the SDK in the test's own process, whose answers the test may see and change on their way. */
export class ServedFunction extends LoopbackServer {
  /** As they arrived. */
  readonly triggers: Trigger[] = [];
  /** Default: each outcome is streamed as its run ends. */
  onAnswer: OnAnswer | undefined;

  /** @param cache how it reads. Default: through the gateway's cache API, as a function that was given nothing does. */
  constructor(controller: Controller, { kubeconfig, secret }: Setting, cache?: FunctionAppOptions['cache']) {
    super(createServer());
    const app = createFunctionApp(controller, {
      secrets: [secret],
      ...(cache && { cache }),
      api: kubeConfigTransport(kubeconfig),
      logger: silentLogger,
    });
    const fetch = async (request: Request): Promise<Response> => {
      if (request.method !== 'POST') return app.fetch(request);
      const given = await request.text();
      const trigger = JSON.parse(given) as Trigger;
      this.triggers.push(trigger);
      const { url, signal } = request;
      const accepting = new Headers(request.headers);
      // `onAnswer` changes whole answers, so the request must not ask for a stream.
      if (this.onAnswer) accepting.set('accept', 'application/json');
      const answer = await app.fetch(new Request(url, { method: 'POST', headers: accepting, body: given, signal }));
      if (!this.onAnswer) return answer;
      const { status, headers, body } = answer;
      const outcome = (await new Response(body).json()) as OutcomeBody;
      return new Response(JSON.stringify(await this.onAnswer(outcome, trigger)), { status, headers });
    };
    this.answerBy(getRequestListener(fetch));
  }
}
