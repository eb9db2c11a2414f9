import type { Context as HonoContext, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { Hono as TinyHono } from 'hono/tiny';
import { type Logger, messageOf } from '../core/index.ts';
import { CONTRACT_VERSION, LEVELHOOK_HEADER } from '../contract/index.ts';
import type { ApiTransport } from './api-transport.ts';
import type { OpenCache } from './cache-reader.ts';
import { consoleLogger } from './console-logger.ts';
import type { Controller } from './controller.ts';
import { type HangUp, hangUpOf } from './run-scope.ts';
import { createTriggerHandler, type FunctionAnswer, type LineSink, type TriggerHandler } from './trigger-handler.ts';

export interface FunctionAppOptions {
  /**
   * The secrets that triggers are signed with: one, or two during a rotation. A wrong secret in a list throws at once.
   * A function is called at the first request, since edge platforms have no environment before it.
   */
  readonly secrets: readonly string[] | (() => readonly string[] | Promise<readonly string[]>);
  /** Opens the cache that a trigger names. Default: the gateway's cache API, which needs nothing but the trigger. */
  readonly cache?: OpenCache;
  /**
   * Reaches the apiserver with the function's own credentials. The triggers of a ReconcileFunction with `credentials:
   * token` or `proxy` bring credentials that are used instead. Default: only the triggers' credentials.
   */
  readonly api?: ApiTransport;
  /** Default: JSON lines on the console. */
  readonly logger?: Logger;
  /**
   * How many of the last lines of a run its result has, 100 at most, and whether it has the stack of its error: with 0
   * it has neither. The run writes a line with `context.log`. Each read of the cache adds a line with the changes since
   * the last run in this process, and each request to the apiserver one with its time and the changes of a write. These
   * lines have no values of Secrets and of encrypted kinds. Of runs that end well 50 a second have
   * lines. People see them in the dashboard and with `levelhook explain`, where everybody may read them who may look at
   * the dashboard. The gateway keeps some 1.5 KiB of a run, without what looks like a credential. Default 20.
   */
  readonly logLines?: number;
  /** The clock for signatures and deadlines, in milliseconds. Default `Date.now`. */
  readonly now?: () => number;
  /**
   * Takes reviews from the apiserver without the gateway: `POST /webhooks/NAME`. They are not signed, so any client
   * that reaches this address can query a webhook's decisions, and they come without the cache. Default false.
   */
  readonly unsignedReviews?: boolean;
}

/** A Hono app. A server without web `Request`s may call its trigger handlers instead. */
export interface FunctionApp extends Hono {
  /** Trigger handlers by path. */
  readonly triggerHandlers: ReadonlyMap<string, TriggerHandler>;
}

/** The reason for refusing a larger body. */
export const tooLargeFor = (maxBytes: number): string => `the body is larger than ${maxBytes / 2 ** 20} MiB`;

const HEADERS = { [LEVELHOOK_HEADER]: CONTRACT_VERSION };

/**
 * The HTTP handler of one controller: `POST /` runs a trigger or answers a review of one of its webhooks, `GET /`
 * describes the controller. All requests must be signed, except with `unsignedReviews`. The handler verifies the
 * signature of the raw body before it parses it, and has no option to skip that. A trigger that comes a second time in
 * the same process, or after its deadline, is answered with 409 and not run. The results of a trigger of several keys
 * are streamed as the runs end, if the gateway asks for that.
 * @throws UserError when the list of secrets is empty or has a malformed one, when two webhooks have one name, or for
 *   wrong `logLines`.
 */
export function createFunctionApp(controller: Controller, options: FunctionAppOptions): FunctionApp {
  const { secrets, cache, api, logger = consoleLogger, logLines, now = Date.now, unsignedReviews = false } = options;
  const handler = createTriggerHandler(controller, { secrets, cache, api, logger, logLines, now });
  const log = logger.child({ controller: controller.name });
  // Three routes need no large router: that would add 5 KB to every function's cold start.
  const app: Hono = new TinyHono();

  const { maxBytes: maxSize } = handler;
  const tooLarge = (context: HonoContext): Response => context.json({ error: tooLargeFor(maxSize) }, 413, HEADERS);
  app.use('/', bodyLimit({ maxSize, onError: tooLarge }));
  app.on(['GET', 'POST'], '/', async ({ req }) => {
    const { headers, signal } = req.raw;
    // When the caller hangs up, the platform aborts the request's signal, or cancels the stream of lines, or both.
    let hungUp = (): void => {};
    const hangUp: HangUp = (listener) => {
      hungUp = listener;
      hangUpOf(signal)(listener);
    };
    const method = req.method === 'POST' ? 'POST' : 'GET';
    const answer = await handler.answer({ method, headers, body: await req.text(), hangUp });
    return responseOf(answer, () => hungUp());
  });

  if (unsignedReviews) {
    app.post('/webhooks/:name', bodyLimit({ maxSize, onError: tooLarge }), async ({ req }) => {
      const webhook = req.param('name');
      const timeout = req.query('timeout');
      const hangUp = hangUpOf(req.raw.signal);
      return responseOf(await handler.answerUnsigned({ webhook, timeout, body: await req.text(), hangUp }), () => {});
    });
  }

  app.onError((error, context) => {
    // The body is incomplete: the client has hung up, or was too slow, and no answer reaches it.
    if (context.req.raw.signal.aborted) return context.json({ error: 'the request is incomplete' }, 408, HEADERS);
    log.error({ error: messageOf(error) }, 'a request failed');
    return context.json({ error: 'internal error' }, 500, HEADERS);
  });
  return Object.assign(app, { triggerHandlers: new Map([['/', handler]]) });
}

function responseOf({ status, headers, body }: FunctionAnswer, hungUp: () => void): Response {
  return new Response(typeof body === 'string' ? body : streamOf(body, hungUp), { status, headers });
}

function streamOf(start: (sink: LineSink) => void, hungUp: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let isOpen = true;
  return new ReadableStream<Uint8Array>({
    start(stream) {
      const write = (lines: string): void => {
        if (isOpen) stream.enqueue(encoder.encode(lines));
      };
      const end = (lines: string): void => {
        write(lines);
        if (isOpen) stream.close();
      };
      start({ write, end });
    },
    cancel() {
      isOpen = false;
      hungUp();
    },
  });
}
