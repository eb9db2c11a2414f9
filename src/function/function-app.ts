import type { Context as HonoContext, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { Hono as TinyHono } from 'hono/tiny';
import { type Logger, messageOf, systemClock, UserError } from '../core/index.ts';
import {
  CONTRACT_VERSION,
  ContractError,
  decodeTrigger,
  type Description,
  importSecret,
  LEVELHOOK_HEADER,
  type OutcomeBody,
  SignatureError,
  type SigningKey,
  verify,
} from '../contract/index.ts';
import { decodeSecret } from '../contract/signature.ts';
import type { ApiTransport } from './api-transport.ts';
import type { OpenCache } from './cache-reader.ts';
import { consoleLogger } from './console-logger.ts';
import type { Controller } from './controller.ts';
import { httpCache } from './http-reader.ts';
import { runTrigger } from './runtime.ts';
import { SeenTriggers } from './seen-triggers.ts';
import { describeSource } from './source.ts';

export interface FunctionAppOptions {
  /**
   * The secrets that a trigger may be signed with: one, or two while one is being rotated. Wrong ones in a list are
   * told at once. A function is asked for them at the first request, since edge platforms have no environment before
   * one.
   */
  readonly secrets: readonly string[] | (() => readonly string[] | Promise<readonly string[]>);
  /**
   * Opens the cache that a trigger points to. Default: the gateway's cache API, which needs nothing but the trigger.
   */
  readonly cache?: OpenCache;
  /** Reaches the apiserver with the function's own rights. */
  readonly api: ApiTransport;
  /** Default: JSON lines on the console. */
  readonly logger?: Logger;
  /** The verifier's clock, in milliseconds. Default `Date.now`. */
  readonly now?: () => number;
}

/** No trigger comes near this. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** On refusals too: the gateway shows the reason in them, and a proxy's page is not taken for one. */
const HEADERS = { [LEVELHOOK_HEADER]: CONTRACT_VERSION };

/**
 * The HTTP handler of one controller: `POST /` runs a trigger, `GET /` describes the controller. Both must be signed.
 * The handler verifies the signature of the raw body before it parses it, and has no option to skip that. A trigger
 * that comes a second time in the same process, or after its deadline, is answered with 409 and not run.
 * @throws UserError when a secret of the list is malformed, or there is none.
 */
export function createFunctionApp(controller: Controller, options: FunctionAppOptions): Hono {
  const { logger = consoleLogger, now = Date.now, cache = httpCache() } = options;
  const log = logger.child({ controller: controller.name });
  if (typeof options.secrets !== 'function') checkSecrets(options.secrets);
  const seen = new SeenTriggers();
  const keys = onceResolved(() => readKeys(options.secrets));
  // Two routes: the routers for many are 5 KB of every function's cold start.
  const app: Hono = new TinyHono();

  const tooLarge = (context: HonoContext): Response => refuse(context, 413, 'the body is larger than 4 MiB');
  app.use('/', bodyLimit({ maxSize: MAX_BODY_BYTES, onError: tooLarge }));
  app.use('/', async (context, next) => {
    try {
      await verify(await keys(), { headers: context.req.raw.headers, nowMs: now(), body: await context.req.text() });
    } catch (error) {
      if (!(error instanceof SignatureError)) throw error;
      log.warn({ reason: error.message }, 'a request was refused');
      return refuse(context, 401, error.message);
    }
    await next();
  });

  app.get('/', (context) => context.json(describe(controller)));

  app.post('/', async (context) => {
    // Hono keeps the text that was verified; this does not read the body again.
    const trigger = decodeTrigger(await context.req.text());
    // Several functions may share a secret: a trigger that was meant for another must not run a key of that name here.
    if (trigger.controller !== controller.name) {
      throw new ContractError(`the trigger is for ${trigger.controller}, and this is ${controller.name}`);
    }
    const id = context.req.header('webhook-id') ?? '';
    const leftMs = Date.parse(trigger.deadline) - now();
    if (leftMs <= 0) {
      log.warn(
        { reconcileID: id },
        'a trigger came after its deadline: it was late, or the clock here is ahead of the gateway',
      );
      return refuse(context, 409, 'the deadline of the trigger has passed');
    }
    const known = seen.add(id, leftMs, systemClock.now());
    if (known === 'seen') {
      log.warn({ reconcileID: id }, 'a trigger came a second time, and was not run again');
      return refuse(context, 409, 'the trigger was received before');
    }
    if (known === 'full') {
      context.header('retry-after', '1');
      return refuse(context, 503, 'too many triggers: no room to remember another id');
    }
    const results = await runTrigger(controller, trigger, {
      cache: (signal) => cache(trigger.cache, { signal }),
      api: options.api,
      log,
      reconcileId: id,
      hangUp: context.req.raw.signal,
      wallNow: now,
    });
    const body: OutcomeBody = { version: CONTRACT_VERSION, results };
    const goesOn = results.some(({ status }) => status === 'accepted');
    return context.json(body, goesOn ? 202 : 200, HEADERS);
  });

  app.onError((error, context) => {
    if (error instanceof ContractError) return context.json({ error: error.message }, 400, HEADERS);
    // Its body did not come: the client has hung up, or was too slow, and no answer reaches it.
    if (context.req.raw.signal.aborted) return refuse(context, 408, 'the request is incomplete');
    log.error({ error: messageOf(error) }, 'a request failed');
    // The caller may not have signed: the reason is for the log.
    return context.json({ error: 'internal error' }, 500, HEADERS);
  });
  return app;
}

function refuse(context: HonoContext, status: 401 | 408 | 409 | 413 | 503, error: string): Response {
  return context.json({ error }, status, HEADERS);
}

function describe(controller: Controller): Description {
  return {
    version: CONTRACT_VERSION,
    name: controller.name,
    for: describeSource(controller.for),
    owns: (controller.owns ?? []).map(describeSource),
    watches: (controller.watches ?? []).map(describeSource),
    reads: (controller.reads ?? []).map(describeSource),
    indexes: (controller.indexes ?? []).map(describeSource),
    concurrency: controller.concurrency ?? 1,
    timeoutSeconds: controller.timeoutSeconds ?? 15,
    ...(controller.maxBatch === undefined ? {} : { maxBatch: controller.maxBatch }),
    ...(controller.callbackSeconds === undefined ? {} : { callbackSeconds: controller.callbackSeconds }),
    ...(controller.queue ? { queue: controller.queue } : {}),
  };
}

async function readKeys(secrets: FunctionAppOptions['secrets']): Promise<readonly SigningKey[]> {
  const texts = typeof secrets === 'function' ? await secrets() : secrets;
  checkSecrets(texts);
  return Promise.all(texts.map(importSecret));
}

/** Told as numbers: a secret, even a wrong one, is not for the log. */
function checkSecrets(secrets: readonly string[]): void {
  if (secrets.length === 0) throw new UserError('a function needs at least one signing secret, and was given none.');
  for (const [at, secret] of secrets.entries()) {
    try {
      decodeSecret(secret);
    } catch (error) {
      throw new UserError(`signing secret ${at + 1} of ${secrets.length} is malformed: ${messageOf(error)}.`);
    }
  }
}

/** Asks once, but asks again after a failure. */
function onceResolved<T>(ask: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined;
  return () =>
    (answer ??= ask().catch((error: unknown) => {
      answer = undefined;
      throw error;
    }));
}
