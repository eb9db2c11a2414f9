import { type Context, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { boundedText, type Clock, type Logger, messageOf } from '../../core/index.ts';
import {
  type CallbackBody,
  CONTRACT_VERSION,
  LEVELHOOK_HEADER,
  SignatureError,
  type SigningKey,
  verify,
} from '../../contract/index.ts';
import { callbackSchema } from '../../contract/callback-schema.ts';
import type { CallbackEnd } from '../dispatch/callbacks.ts';

export interface CallbackApiOptions {
  /** Whether the queues can be trusted now. */
  readonly healthy: () => boolean;
  /** Whether a controller that is not here may come yet: its function has not been asked what it is. */
  readonly starting: () => boolean;
  /** Undefined when there is no such controller. */
  readonly controller: (name: string) => CallbackTaker | undefined;
  readonly logger: Logger;
  /** The verifier's. */
  readonly clock: Pick<Clock, 'wallNow'>;
}

/** A controller, as far as callbacks are concerned. */
export interface CallbackTaker {
  /** What its function calls it. */
  readonly functionName: string;
  /** What its callbacks are signed with, as its triggers are. */
  readonly keys: readonly SigningKey[];
  callback(body: CallbackBody): Promise<CallbackEnd>;
}

/** As an answer to a trigger. */
const MAX_BODY_BYTES = 1024 * 1024;

/**
 * `POST /<controller>`: the outcome of a run that went on after its 202, signed as a trigger is. Nothing is parsed
 * before the signature of the raw body is found right. The contract's README has the answers.
 */
export function callbackApi(options: CallbackApiOptions): Hono {
  const { clock, logger } = options;
  const app = new Hono();
  app.use(bodyLimit({ maxSize: MAX_BODY_BYTES, onError: (context) => refuse(context, 413, 'the body is over 1 MiB') }));

  app.post('/:controller', async (context) => {
    const name = context.req.param('controller');
    const taker = options.controller(name);
    if (!taker && options.starting()) return later(context, `the controller "${name}" is not there yet`);
    if (!taker) return refuse(context, 404, `there is no controller "${name}" here`);
    const text = await context.req.text();
    try {
      await verify(taker.keys, { headers: context.req.raw.headers, nowMs: clock.wallNow(), body: text });
    } catch (error) {
      if (!(error instanceof SignatureError)) throw error;
      logger.warn({ controller: name, reason: error.message }, 'a callback was refused');
      return refuse(context, 401, error.message);
    }
    const parsed = callbackSchema.safeParse(parsedJson(text));
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return refuse(context, 400, `the callback is wrong at ${issue?.path.join('.')}: ${issue?.message}`);
    }
    // The path is not signed: what was meant for another controller must not end a run of this one.
    if (parsed.data.controller !== taker.functionName)
      return refuse(context, 400, `the callback is for ${parsed.data.controller}`);
    if (!options.healthy()) return later(context, 'the gateway is not ready: see /readyz');
    try {
      return answer(context, await taker.callback(parsed.data));
    } catch (error) {
      logger.warn({ controller: name, error: messageOf(error) }, 'a callback could not be taken');
      return later(context, 'the outcome could not be stored');
    }
  });
  app.all('/:controller', (context) => refuse(context, 405, 'POST only'));
  return app;
}

function answer(context: Context, end: CallbackEnd): Response {
  switch (end.kind) {
    case 'taken':
      context.header(LEVELHOOK_HEADER, CONTRACT_VERSION);
      return context.json(end.withinMs === undefined ? {} : { withinSeconds: end.withinMs / 1000 });
    case 'superseded':
      return refuse(context, 409, end.message);
    case 'over':
      return refuse(context, 410, end.message);
  }
}

/** Carries the header, so that a proxy's answer is not taken for it. */
function refuse(context: Context, status: 400 | 401 | 404 | 405 | 409 | 410 | 413 | 503, error: string): Response {
  context.header(LEVELHOOK_HEADER, CONTRACT_VERSION);
  // It may quote what was sent.
  return context.json({ error: boundedText(error, 1024) }, status);
}

function later(context: Context, error: string): Response {
  context.header('retry-after', '1');
  return refuse(context, 503, error);
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
