import { createHash, timingSafeEqual } from 'node:crypto';
import { type Context, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { z } from 'zod';
import { boundedText, type Clock, type Logger, messageOf, TokenBucket, UserError } from '../../../core/index.ts';
import { namedName, namespace, withOwnKeys } from '../../../contract/name-schema.ts';
import { isSelector, labelSelector } from '../../../contract/source-schema.ts';
import { variableOf } from '../../../ground/config/config.ts';
import type { RequeueRequest } from '../../controller/running/requeue.ts';

export interface ReconcileApiOptions {
  /** Bearer tokens that may ask: several while one is rotated. None: every request is refused. */
  readonly tokens: readonly string[];
  /** Undefined when there is no such controller. */
  readonly controller: (name: string) => { requeue(request: RequeueRequest): Promise<number> } | undefined;
  /** Whether the queues can be trusted now. */
  readonly healthy: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

const MAX_BODY_BYTES = 512 * 1024;
const MAX_KEYS = 1000;
/** Requests of all bearer tokens together. */
const RATE = { burst: 20, perSecond: 10 };

const shared = {
  // A namespace, a dot and a name.
  controller: z.string().min(1).max(320),
  reason: z.string().max(200).exactOptional(),
  priority: z.enum(['high', 'low']).exactOptional(),
};
/** Strict: with a misspelt `labelSelector` a selection would be everything. */
const schema = withOwnKeys(
  z.union([
    z.strictObject({
      ...shared,
      keys: z
        .array(z.strictObject({ namespace: namespace.exactOptional(), name: namedName }))
        .min(1)
        .max(MAX_KEYS),
    }),
    z.strictObject({
      ...shared,
      selection: z.strictObject({
        namespace: namespace.exactOptional(),
        labelSelector: labelSelector
          .refine(isSelector, 'must be a label selector that Kubernetes accepts')
          .exactOptional(),
      }),
    }),
    z.strictObject({ ...shared, all: z.literal(true) }),
  ]),
);

/** `POST /`: queues keys of a controller, a selection of them, or all. The README of this folder has the forms. */
export function reconcileApi(options: ReconcileApiOptions): Hono {
  const { clock, controller, healthy, logger } = options;
  const requests = new TokenBucket(RATE, () => clock.now());
  /** Controllers that a selection is being read for: one at a time. */
  const reading = new Set<string>();
  const app = new Hono();

  app.use(async (context, next) => {
    if (options.tokens.length === 0) return refuse(context, 403, `set ${variableOf('apiTokens')} to allow this`);
    if (!hasToken(context.req.header('authorization'), options.tokens)) {
      context.header('www-authenticate', 'Bearer');
      return refuse(context, 401, 'the bearer token is missing or wrong');
    }
    if (!requests.take()) return later(context, 429, 'too many requests');
    return next();
  });
  app.use(bodyLimit({ maxSize: MAX_BODY_BYTES, onError: (context) => refuse(context, 413, 'the body is too large') }));

  app.post('/', async (context) => {
    const parsed = schema.safeParse(await context.req.json().catch(() => undefined));
    if (!parsed.success) return refuse(context, 400, `the body is wrong: ${z.prettifyError(parsed.error)}`);
    const { controller: named, reason: message, ...given } = parsed.data;
    const found = controller(named);
    if (!found) return refuse(context, 404, `there is no controller "${named}" here`);
    if (!healthy()) return later(context, 503, 'the gateway is not ready: see /readyz');
    const byName = 'keys' in given;
    if (!byName && reading.has(named)) return later(context, 429, `a selection of "${named}" is being queued already`);
    const which = byName ? { keys: given.keys } : { selection: 'selection' in given ? given.selection : {} };
    // Few keys that a client waits for, or many that can wait.
    const priority = given.priority ?? (byName ? 'high' : 'low');
    if (!byName) reading.add(named);
    try {
      const queued = await found.requeue({ which, priority, ...(message === undefined ? {} : { message }) });
      logger.info({ controller: named, keys: queued, priority, reason: message }, 'queued requested keys');
      return context.json({ queued, priority }, 202);
    } catch (error) {
      if (error instanceof UserError) return refuse(context, 400, error.message);
      logger.warn({ controller: named, error: messageOf(error) }, 'requested keys could not be queued');
      return later(context, 503, 'the keys could not be queued');
    } finally {
      if (!byName) reading.delete(named);
    }
  });
  app.all('/', (context) => refuse(context, 405, 'POST only'));
  return app;
}

function refuse(context: Context, status: 400 | 401 | 403 | 404 | 405 | 413 | 429 | 503, error: string): Response {
  // The message may quote the request.
  return context.json({ error: boundedText(error, 1024) }, status);
}

function later(context: Context, status: 429 | 503, error: string): Response {
  context.header('retry-after', '1');
  return refuse(context, status, error);
}

/** Hashes are of one length, so that comparing takes the same time for every guess. */
function hasToken(header: string | undefined, tokens: readonly string[]): boolean {
  const given = hash(/^Bearer (.+)$/i.exec(header ?? '')?.[1] ?? '');
  return tokens.filter((token) => timingSafeEqual(given, hash(token))).length > 0;
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
