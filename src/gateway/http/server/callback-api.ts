import { KeyObject } from 'node:crypto';
import { type Context, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { boundedText, type Clock, LimitedLines, type Logger, messageOf, tenantOf } from '../../../core/index.ts';
import {
  type CallbackBody,
  CONTRACT_VERSION,
  LEVELHOOK_HEADER,
  SignatureError,
  type SigningKey,
} from '../../../contract/index.ts';
import { decodeCallback } from '../../../contract/callback-schema.ts';
import { verifySync } from '../../../contract/node/signature.ts';
import { NO_MATCH, signedParts } from '../../../contract/signature.ts';
import { TimeLimitError } from '../../controller/cel/time-limit.ts';
import type { CallbackEnd } from '../../controller/dispatch/callbacks.ts';
import type { ControllerBounds } from '../../controller/dispatch/dispatcher.ts';
import { sourceOf } from '../login/request.ts';
import { boundedRequests } from './bounded-requests.ts';
import { UnverifiedBodies, type UnverifiedBody } from './unverified-bodies.ts';

export interface CallbackApiOptions {
  /** Whether the queues can be trusted now. */
  readonly healthy: () => boolean;
  /** Whether a controller that is not here may still come: its function has not described it, or waits. */
  readonly mayCome: (name: string) => boolean;
  /** Undefined when there is no such controller. */
  readonly controller: (name: string) => CallbackTaker | undefined;
  readonly logger: Logger;
  /** The verifier's. */
  readonly clock: Pick<Clock, 'now' | 'wallNow'>;
}

/** A controller, as far as callbacks are concerned. */
export interface CallbackTaker {
  /** The function's own name for it. */
  readonly functionName: string;
  /** The keys that sign its callbacks, as they sign its triggers. */
  readonly keys: readonly SigningKey[];
  readonly bounds: Pick<ControllerBounds, 'admitLine' | 'budget' | 'openHold'>;
  callback(body: CallbackBody): Promise<CallbackEnd>;
}

/** Hono's environment of the handlers of a callback. */
export interface CallbackEnv {
  Variables: { taker: CallbackTaker; unverified: UnverifiedBody };
}

/** As an answer to a trigger. */
const MAX_BODY_BYTES = 1024 * 1024;

/** How long a callback waits for its controller's budget; then its function sends it again. */
const TURN_MS = 5000;

/** A larger body is not read while its controller has no processor time. */
const LARGE_BYTES = 16 * 1024;
const TOO_MANY = 'too many callbacks of this controller wait to be read';
/** Of the thread for a KiB: to read it, and to hash it with one key. Measured 1 to 3 ms, and 1.2 ms, for a MiB. */
const READ_MS = 0.002;
const HASH_MS = 0.0012;

/**
 * `POST /<controller>`: the outcome of a run that went on after its 202, signed as a trigger is. Nothing is parsed
 * before the signature of the raw body is found right, and no body is read before the headers allow it. Large bodies
 * that are signed wrongly bound what their source may send for a while (`UnverifiedBodies`), since each is hashed for
 * each key. The contract's README has the answers.
 */
export function callbackApi(options: CallbackApiOptions): Hono<CallbackEnv> {
  const { clock, logger } = options;
  /** Lines about refused signatures, by tenant. */
  const lines = new LimitedLines(clock);
  const unverified = new UnverifiedBodies(clock);
  const app = new Hono<CallbackEnv>();

  const refuseSignature = (context: Context, controller: string, { message: reason }: SignatureError): Response => {
    lines.write(tenantOf(controller), (more) => logger.warn({ controller, reason, ...more }, 'a callback was refused'));
    return refuse(context, 401, reason);
  };
  const limit = bodyLimit({
    maxSize: MAX_BODY_BYTES,
    onError: (context) => refuse(context, 413, 'the body is over 1 MiB'),
  });

  app.use(boundedRequests((context, reason) => later(context, reason)));

  // Before the limit, which may read the body.
  app.post('/:controller', async (context, next) => {
    const name = context.req.param('controller');
    const taker = options.controller(name);
    if (!taker && options.mayCome(name)) return later(context, `the controller "${name}" is not there yet`);
    if (!taker) return refuse(context, 404, `there is no controller "${name}" here`);
    try {
      const { headers } = context.req.raw;
      const { signatures } = signedParts({ headers, nowMs: clock.wallNow(), body: '' });
      if (signatures.length === 0) throw new SignatureError(NO_MATCH);
    } catch (error) {
      if (!(error instanceof SignatureError)) throw error;
      return refuseSignature(context, name, error);
    }
    const announced = announcedBytes(context);
    // Its controller pays for reading and hashing what is signed rightly, and it has no time. Who has sent this is not
    // known yet, so the question changes no account.
    if (announced > LARGE_BYTES && taker.bounds.budget.isUsedUp) return later(context, TOO_MANY);
    const body = unverified.open(sourceOf(context), announced);
    if (!body) return later(context, 'too many callbacks are being read, or were signed wrongly');
    context.set('taker', taker);
    context.set('unverified', body);
    try {
      await next();
    } finally {
      body.end();
    }
    return undefined;
  });

  app.post('/:controller', limit, async (context) => {
    const name = context.req.param('controller');
    const { taker, unverified: body } = context.var;
    const text = await context.req.text();
    try {
      const keys = taker.keys.map((key) => KeyObject.from(key));
      verifySync(keys, { headers: context.req.raw.headers, nowMs: clock.wallNow(), body: text });
    } catch (error) {
      if (!(error instanceof SignatureError)) throw error;
      body.wrong(Buffer.byteLength(text));
      return refuseSignature(context, name, error);
    }
    // From here on the callback counts for its tenant, and no longer for the unverified callbacks.
    body.end();
    taker.bounds.budget.charge((Buffer.byteLength(text) / 1024) * (READ_MS + HASH_MS * taker.keys.length));
    const callback = await decoded(text, taker);
    if (!callback) return later(context, TOO_MANY);
    if (callback instanceof TypeError) return refuse(context, 400, `the callback is wrong at ${callback.message}`);
    // The path is not signed: a callback for another controller must not end a run of this one.
    if (callback.controller !== taker.functionName)
      return refuse(context, 400, `the callback is for ${callback.controller}`);
    if (!options.healthy()) return later(context, 'the gateway is not ready: see /readyz');
    try {
      return answer(context, await taker.callback(callback));
    } catch (error) {
      const admitted = taker.bounds.admitLine('callbacks');
      const fields = { controller: name, error: messageOf(error), ...admitted };
      if (admitted) logger.warn(fields, 'a callback could not be taken');
      return later(context, 'the outcome could not be stored');
    }
  });
  app.all('/:controller', (context) => refuse(context, 405, 'POST only'));
  return app;
}

/** Decodes a body that is verified in the controller's budget. @returns undefined when there is no room or no time. */
async function decoded(text: string, { bounds }: CallbackTaker): Promise<CallbackBody | TypeError | undefined> {
  const hold = bounds.openHold();
  try {
    if (!hold.add(Buffer.byteLength(text))) return undefined;
    return await bounds.budget.inTurn(() => decodeCallback(parsedJson(text)), TURN_MS);
  } catch (error) {
    if (error instanceof TimeLimitError) return undefined;
    throw error;
  } finally {
    hold.release();
  }
}

/** The most that the body may have. */
function announcedBytes(context: Context): number {
  const announced = Number(context.req.header('content-length') ?? MAX_BODY_BYTES);
  return announced >= 0 && announced < MAX_BODY_BYTES ? announced : MAX_BODY_BYTES;
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
  // The message may quote the request.
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
