import { formatJson, type Logger, messageOf, parseJson, shown, systemClock, UserError } from '../core/index.ts';
import {
  CONTRACT_VERSION,
  ContractError,
  decodeTrigger,
  importSecret,
  LEVELHOOK_HEADER,
  type OutcomeBody,
  RESULT_STREAM,
  type ResultLine,
  SignatureError,
  type Trigger,
  verify,
} from '../contract/index.ts';
import { decodeSecret, type SignedMessage } from '../contract/signature.ts';
import { isReviewRequest } from '../contract/webhook.ts';
import type { ApiTransport } from './api-transport.ts';
import type { OpenCache } from './cache-reader.ts';
import type { Controller } from './controller.ts';
import { describe } from './describe.ts';
import { type CacheFetch, httpCache } from './http-reader.ts';
import type { HangUp } from './run-scope.ts';
import { allResults, type OnResult, prepareTrigger } from './runtime.ts';
import { SeenTriggers } from './seen-triggers.ts';
import { checkLogLines, DEFAULT_LOG_LINES, ReportedLogs } from './run-log.ts';
import { maxReviewBytes, type WebhookAnswer, type WebhookRequest, webhooksByName } from './webhook.ts';
import { fetchKubernetes, type OpenKubernetes } from './trigger-kubernetes.ts';

/** A request with its whole body, from any HTTP server. */
export interface SignedRequest {
  readonly method: 'GET' | 'POST';
  /** Called with lower-case names. */
  readonly headers: SignedMessage['headers'];
  readonly body: string;
  readonly hangUp: HangUp;
}

/** A review that comes without the gateway, and so without a signature. */
export interface UnsignedReview {
  /** The name of the webhook. */
  readonly webhook: string;
  /** The apiserver's `timeout` parameter: `10s`. */
  readonly timeout: string | undefined;
  readonly body: string;
  readonly hangUp: HangUp;
}

/** The answer. Its body is a text, or a function that writes lines to a sink. */
export interface FunctionAnswer {
  readonly status: 200 | 202 | 400 | 401 | 404 | 409 | 429 | 500 | 501 | 503 | 504;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | ((lines: LineSink) => void);
}

/** Receives the lines of an answer. The text of one call is sent together. */
export interface LineSink {
  write(lines: string): void;
  /** Writes the last lines and completes the answer. */
  end(lines: string): void;
}

/** Throws a SignatureError unless the signature of the message is valid. */
export type Verifier = (message: SignedMessage) => void | Promise<void>;

/** Functions that a platform may replace by faster ones. */
export interface Platform {
  /** @param secrets at least one; they are well-formed. */
  createVerifier(secrets: readonly string[]): Verifier | Promise<Verifier>;
  /** For the cache API. Default: the platform's `fetch`. */
  readonly fetch?: CacheFetch;
  /** Reaches the apiserver that a trigger names. */
  readonly kubernetes: OpenKubernetes;
  /** Calls back when the event loop has done all work that is ready now. */
  readonly defer: (callback: () => void) => void;
}

/** WebCrypto, `fetch` and timers, which every platform has. */
const WEB_PLATFORM: Platform = {
  async createVerifier(secrets) {
    const keys = await Promise.all(secrets.map(importSecret));
    return (message) => verify(keys, message);
  },
  kubernetes: fetchKubernetes,
  defer: (callback) => void setTimeout(callback, 0),
};

export interface TriggerHandlerOptions {
  readonly secrets: readonly string[] | (() => readonly string[] | Promise<readonly string[]>);
  readonly cache?: OpenCache | undefined;
  readonly api: ApiTransport | undefined;
  readonly logger: Logger;
  /** See `FunctionAppOptions`. */
  readonly logLines?: number | undefined;
  readonly now: () => number;
}

const NO_APISERVER: ApiTransport = () =>
  Promise.reject(
    new Error(
      'the function has no credentials: give createFunctionApp the option api, or declare the ReconcileFunction with credentials: token or proxy',
    ),
  );

/**
 * Answers a request that was signed for this controller. `now` is the verifier's clock. It may throw a ContractError.
 */
export type VerifiedHandler = (
  controller: Pick<Controller, 'name'>,
  log: Logger,
  now: () => number,
) => Promise<FunctionAnswer>;

/** Refusals have the header, too, so that the gateway can tell them from the page of a proxy and show their reason. */
export const JSON_HEADERS = { 'content-type': 'application/json', [LEVELHOOK_HEADER]: CONTRACT_VERSION };
const LINES_HEADERS = { ...JSON_HEADERS, 'content-type': RESULT_STREAM };

/** The limit of a request's body. Triggers are far smaller. */
const MAX_TRIGGER_BYTES = 4 * 1024 * 1024;

/** Answers the signed requests to one controller, for any HTTP server. */
export interface TriggerHandler {
  /** The limit of the body: 4 MiB, or the limit of reviews for a controller with webhooks. A larger body gets 413. */
  readonly maxBytes: number;
  /**
   * Never rejects.
   * @param handle answers instead of the controller, once the signature is verified. For requests to the platform
   *   itself.
   */
  answer(request: SignedRequest, handle?: VerifiedHandler): Promise<FunctionAnswer>;
  /** Answers a review without a signature, only for an app with `unsignedReviews`. Never rejects. */
  answerUnsigned(review: UnsignedReview): Promise<FunctionAnswer>;
  /** Uses the functions of this platform from now on. */
  runOn(platform: Platform): void;
}

/**
 * A handler that verifies the signature of the raw body before it parses it, and has no option to skip that.
 * @throws UserError when the list of secrets is empty or has a malformed one, when two webhooks have one name, or for
 *   wrong `logLines`.
 */
export function createTriggerHandler(controller: Controller, options: TriggerHandlerOptions): TriggerHandler {
  const { api, now, secrets } = options;
  if (typeof secrets !== 'function') checkSecrets(secrets);
  const webhooks = webhooksByName(controller.name, controller.webhooks);
  const logs = new ReportedLogs(checkLogLines(options.logLines ?? DEFAULT_LOG_LINES));
  const log = options.logger.child({ controller: controller.name });
  const seen = new SeenTriggers();
  let platform = WEB_PLATFORM;
  let cache = options.cache;
  let verifier: Verifier | undefined;

  /**
   * Reads the secrets once, and again after a failure. Concurrent requests read them, too: on Workers a request must
   * not wait for another's input or output.
   */
  const createVerifier = async (): Promise<Verifier> => {
    const texts = typeof secrets === 'function' ? await secrets() : secrets;
    checkSecrets(texts);
    return (verifier = await platform.createVerifier(texts));
  };

  const refusal = (status: 409 | 503, error: string, reconcileID: string, message: string): FunctionAnswer => {
    log.warn({ reconcileID }, message);
    return whole(status, { error });
  };

  /** The trigger's credentials come first, because the function's declaration has asked for them. */
  const transportOf = ({ kubernetes }: Trigger): ((run: number) => ApiTransport) => {
    if (kubernetes) return (run) => platform.kubernetes(kubernetes, run);
    return () => api ?? NO_APISERVER;
  };

  const openCache = (): OpenCache => (cache ??= httpCache(platform.fetch && { fetch: platform.fetch }));

  const run = async (trigger: Trigger, { headers, hangUp }: SignedRequest): Promise<FunctionAnswer> => {
    // Several functions may share a secret. A trigger for another function must not run a key of the same name here.
    if (trigger.controller !== controller.name) {
      throw new ContractError(`the trigger is for ${trigger.controller}, and this is ${controller.name}`);
    }
    const reconcileId = headers.get('webhook-id') ?? '';
    const leftMs = Date.parse(trigger.deadline) - now();
    // Also refuses a deadline that is not a time.
    if (!(leftMs > 0)) {
      const message = 'a trigger came after its deadline: it was late, or the clock here is ahead of the gateway';
      return refusal(409, 'the deadline of the trigger has passed', reconcileId, message);
    }
    const known = seen.add(reconcileId, leftMs, systemClock.now());
    if (known === 'seen') {
      const message = 'a trigger came a second time, and was not run again';
      return refusal(409, 'the trigger was received before', reconcileId, message);
    }
    if (known === 'full') {
      const full = whole(503, { error: 'too many triggers: no room to remember another id' });
      return { ...full, headers: { ...full.headers, 'retry-after': '1' } };
    }
    const open = openCache();
    const start = prepareTrigger(controller, trigger, {
      cache: (scope) => open(trigger.cache, scope),
      api: transportOf(trigger),
      log,
      logs,
      reconcileId,
      traceparent: headers.get('traceparent') ?? undefined,
      hangUp,
      wallNow: now,
    });
    if (trigger.requests.length > 1 && accepts(headers.get('accept'), RESULT_STREAM)) {
      const { defer } = platform;
      return { status: 200, headers: LINES_HEADERS, body: (sink) => start(linesOf(trigger, sink, defer)) };
    }
    const results = await allResults(trigger, start);
    const goesOn = results.some(({ status }) => status === 'accepted');
    return whole(goesOn ? 202 : 200, { version: CONTRACT_VERSION, results } satisfies OutcomeBody);
  };

  const review = async (name: unknown, request: WebhookRequest): Promise<WebhookAnswer> => {
    const webhook = webhooks.get(name);
    if (!webhook) return { status: request.unsigned ? 404 : 400, error: `there is no webhook ${shown(name)}` };
    return webhook.serve(request, {
      controller: controller.name,
      cache: openCache(),
      api: api ?? NO_APISERVER,
      log,
      now,
    });
  };

  return {
    maxBytes: webhooks.size === 0 ? MAX_TRIGGER_BYTES : maxReviewBytes(webhooks.values()),
    async answer(request, handle) {
      try {
        const { headers, body } = request;
        await (verifier ?? (await createVerifier()))({ headers, nowMs: now(), body });
        if (handle) return await handle(controller, log, now);
        if (request.method === 'GET') return whole(200, describe(controller));
        if (webhooks.size > 0) {
          const value = parsed(body);
          if (isReviewRequest(value)) {
            const name = (value as { webhook: unknown }).webhook;
            const { status, ...answer } = await review(name, { body: value, hangUp: request.hangUp });
            return whole(status, 'body' in answer ? answer.body : answer);
          }
        }
        return await run(decodeTrigger(body), request);
      } catch (error) {
        if (error instanceof ContractError) return whole(400, { error: error.message });
        if (error instanceof SignatureError) {
          log.warn({ reason: error.message }, 'a request was refused');
          return whole(401, { error: error.message });
        }
        log.error({ error: messageOf(error) }, 'a request failed');
        // The signature may not have been verified, so only the log has the reason.
        return whole(500, { error: 'internal error' });
      }
    },
    async answerUnsigned({ webhook, timeout, body, hangUp }) {
      const answer = await review(webhook, { body: parsed(body), unsigned: { timeout }, hangUp });
      if (answer.status === 200) return whole(200, answer.body);
      // The apiserver shows its client plain text, and ignores JSON (client-go, rest/request.go).
      return { status: answer.status, headers: { 'content-type': 'text/plain' }, body: answer.error };
    },
    runOn(better) {
      platform = better;
      verifier = undefined;
      cache = options.cache;
    },
  };
}

/** Writes each result as a line. Lines of results that come in the same turn of the event loop are written together. */
function linesOf({ requests }: Trigger, sink: LineSink, defer: Platform['defer']): OnResult {
  let left = requests.length;
  let waiting = '';
  const flush = (): void => {
    // Empty if the last line has come in between, because `end` has written all lines.
    if (waiting !== '') sink.write(waiting);
    waiting = '';
  };
  return (result, at) => {
    const line: ResultLine = { run: requests[at]?.run ?? 0, result };
    const isFirst = waiting === '';
    waiting += `${formatJson(line)}\n`;
    left -= 1;
    if (left === 0) {
      sink.end(waiting);
      waiting = '';
    } else if (isFirst) defer(flush);
  };
}

/** An answer in JSON. */
export function whole(status: FunctionAnswer['status'], body: object): FunctionAnswer & { readonly body: string } {
  return { status, headers: JSON_HEADERS, body: formatJson(body) };
}

/** Undefined for invalid JSON. */
function parsed(body: string): unknown {
  try {
    return parseJson(body);
  } catch {
    return undefined;
  }
}

function accepts(header: string | null, type: string): boolean {
  return header?.split(',').some((range) => range.split(';', 1)[0]?.trim() === type) ?? false;
}

/** Errors identify secrets by number, because no secret, not even a wrong one, may reach the log. */
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
