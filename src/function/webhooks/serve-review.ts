import { formatKind, messageOf, ownValue, shown, systemClock } from '../../core/index.ts';
import { ContractError, type Review } from '../../contract/index.ts';
import { decodeReviewRequest, isReview } from '../../contract/webhook.ts';
import { ApiWriter } from '../api-writer.ts';
import type { CacheReader } from '../cache-reader.ts';
import { HUNG_UP, RunScope } from '../run-scope.ts';
import type { ReviewContext, Webhook, WebhookAnswer, WebhookApp, WebhookRequest } from '../webhook.ts';
import { parseGoDuration } from './go-duration.ts';

/** A webhook that answers requests with the response of its `review`. */
export function webhookWith(parts: Pick<Webhook, 'for' | 'description' | 'review'>): Webhook {
  return {
    ...parts,
    async serve(request, app) {
      try {
        const asked = request.unsigned
          ? unsignedReview(request.body, request.unsigned.timeout ?? DEFAULT_TIMEOUTS[this.description.type])
          : signedReview(request.body, app);
        return asked === 'late' ? late(app) : await answerOf(this, asked, { ...app, ...request });
      } catch (error) {
        if (!(error instanceof ContractError)) throw error;
        app.log.warn({ webhook: this.description.name, reason: error.message }, 'a review was refused');
        return { status: 400, error: error.message };
      }
    },
  };
}

/** A review, and the data for answering it. */
interface Asked {
  readonly review: Review;
  readonly authenticated: boolean;
  readonly remainingMs: number;
  /** By `apiVersion/Kind`. */
  readonly cacheAgeSeconds: Readonly<Record<string, number>>;
  /** Opens the cache. The getter of `run.signal` creates the signal. */
  readonly cache: (run: Run) => CacheReader;
}

type Run = Parameters<WebhookApp['cache']>[1];

/** A repeated review is answered again, within its deadline, because a review decides and writes nothing. */
function signedReview(body: unknown, { controller, cache, now }: WebhookApp): Asked | 'late' {
  const request = decodeReviewRequest(body);
  // Several functions may share a secret.
  if (request.controller !== controller) {
    throw new ContractError(`the review is for ${request.controller}, and this is ${controller}`);
  }
  const leftMs = Date.parse(request.deadline) - now();
  // Also for a deadline that is not a time.
  if (!(leftMs > 0)) return 'late';
  const { review, cacheAgeSeconds } = request;
  const remainingMs = Math.min(leftMs, request.remainingSeconds * 1000);
  const { authenticated = false } = request;
  // An older gateway does not send the field, and gives the cache to all.
  const open = request.authenticated === false ? () => UNKNOWN_SENDER : (run: Run) => cache(request.cache, run);
  return { review, authenticated, remainingMs, cacheAgeSeconds, cache: open };
}

function late({ log }: WebhookApp): WebhookAnswer {
  log.warn({}, 'a review came after its deadline: it was late, or the clock here is ahead of the gateway');
  return { status: 409, error: 'the deadline of the review has passed' };
}

/** The apiserver's timeout when a webhook sets none. For a conversion it names no time. */
const DEFAULT_TIMEOUTS = { validating: '10s', mutating: '10s', conversion: '30s' } as const;
/** The longest timeout of the apiserver. */
const MAX_TIMEOUT_MS = 30_000;

function unsignedReview(review: unknown, timeout: string): Asked {
  const timeoutMs = parseGoDuration(timeout);
  if (!timeoutMs) throw new ContractError(`the timeout ${shown(timeout)} is no time, such as 10s`);
  if (!isReview(review)) throw new ContractError('the body is no review whose request has a uid');
  const remainingMs = Math.min(timeoutMs, MAX_TIMEOUT_MS);
  return { review, authenticated: false, remainingMs, cacheAgeSeconds: {}, cache: () => NO_CACHE };
}

const NO_CACHE = withoutCache('a review that comes without the gateway has no cache: read with context.api');
const UNKNOWN_SENDER = withoutCache(
  'the gateway does not know that an apiserver has sent this review, so it comes without the cache: tell the gateway ' +
    "the CA of the apiserver's client certificate",
);

function withoutCache(reason: string): CacheReader {
  const reject = (): Promise<never> => Promise.reject(new Error(reason));
  return { get: reject, list: reject, secondsUnchanged: reject };
}

/**
 * An answer is sent this long before the deadline even if the webhook has none, so that the caller learns the reason.
 */
const ANSWER_MS = 500;

/**
 * After an error in the webhook's code there is no decision: the answer is 500, and the failure policy applies. Only
 * the log has the error, which may contain data that the apiserver's client must not see.
 */
async function answerOf(
  webhook: Webhook,
  { review, remainingMs, ...asked }: Asked,
  { log: appLog, hangUp, api }: Pick<WebhookApp, 'log' | 'api'> & Pick<WebhookRequest, 'hangUp'>,
): Promise<WebhookAnswer> {
  const { name } = webhook.description;
  const log = appLog.child({ webhook: name, uid: review.request.uid });
  const runMs = remainingMs - Math.min(ANSWER_MS, remainingMs / 10);
  const scope = new RunScope(systemClock.now() + runMs, hangUp);
  const over = new Promise<string>((resolve) => scope.onOver(resolve));
  let cache: CacheReader | undefined;
  // Getters, because few webhooks use all of it.
  const context: ReviewContext = {
    get cache() {
      return (cache ??= asked.cache(scope));
    },
    authenticated: asked.authenticated,
    api: new ApiWriter(api, scope),
    cacheAgeSeconds: (resource) => ownValue(asked.cacheAgeSeconds, formatKind(resource)),
    log,
    get signal() {
      return scope.signal;
    },
  };
  try {
    const response = await Promise.race([webhook.review(review, context), over]);
    if (typeof response !== 'string') {
      const { apiVersion, kind, request } = review;
      return { status: 200, body: { apiVersion, kind, response: { uid: request.uid, ...response } } };
    }
    if (response === HUNG_UP) {
      log.warn({}, 'the caller has hung up before a webhook answered');
      return { status: 504, error: HUNG_UP };
    }
    const seconds = Math.round(runMs / 100) / 10;
    log.warn({ seconds }, 'a webhook did not answer before the deadline');
    return { status: 504, error: `the webhook ${name} did not answer within ${seconds} s` };
  } catch (error) {
    if (error instanceof ContractError) throw error;
    log.error({ error: messageOf(error), stack: error instanceof Error ? error.stack : undefined }, 'a webhook failed');
    return { status: 500, error: `the webhook ${name} failed: the log of its function has the reason` };
  } finally {
    scope.close();
  }
}
