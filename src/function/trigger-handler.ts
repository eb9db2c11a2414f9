import { type Logger, messageOf, systemClock, UserError } from '../core/index.ts';
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
import type { ApiTransport } from './api-transport.ts';
import type { OpenCache } from './cache-reader.ts';
import type { Controller } from './controller.ts';
import { describe } from './describe.ts';
import { type CacheFetch, httpCache } from './http-reader.ts';
import type { HangUp } from './run-scope.ts';
import { allResults, type OnResult, prepareTrigger } from './runtime.ts';
import { SeenTriggers } from './seen-triggers.ts';

/** A request with its whole body, of any HTTP server. */
export interface SignedRequest {
  readonly method: 'GET' | 'POST';
  /** Names in small letters. */
  readonly headers: SignedMessage['headers'];
  readonly body: string;
  readonly hangUp: HangUp;
}

/** What is answered: a whole body, or lines that come until the last. */
export interface FunctionAnswer {
  readonly status: 200 | 202 | 400 | 401 | 409 | 500 | 503;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | ((lines: LineSink) => void);
}

/** Takes the lines of an answer. Text of one call is sent together. */
export interface LineSink {
  write(lines: string): void;
  /** The last of them: the answer is complete. */
  end(lines: string): void;
}

/** Verifies a message, or throws a SignatureError. */
export type Verifier = (message: SignedMessage) => void | Promise<void>;

/** The parts that a platform may have better ones for. */
export interface Platform {
  /** @param secrets well-formed ones, at least one. */
  createVerifier(secrets: readonly string[]): Verifier | Promise<Verifier>;
  /** For the cache API. Undefined: the platform's `fetch`. */
  readonly fetch?: CacheFetch;
  /** Calls back when all that is ready now has been done. */
  readonly defer: (callback: () => void) => void;
}

/** WebCrypto, `fetch` and timers, which every platform has. */
const ANYWHERE: Platform = {
  async createVerifier(secrets) {
    const keys = await Promise.all(secrets.map(importSecret));
    return (message) => verify(keys, message);
  },
  defer: (callback) => void setTimeout(callback, 0),
};

export interface TriggerHandlerOptions {
  readonly secrets: readonly string[] | (() => readonly string[] | Promise<readonly string[]>);
  readonly cache?: OpenCache | undefined;
  readonly api: ApiTransport;
  readonly logger: Logger;
  readonly now: () => number;
}

/** On refusals too: the gateway shows the reason in them, and a proxy's page is not taken for one. */
const JSON_HEADERS = { 'content-type': 'application/json', [LEVELHOOK_HEADER]: CONTRACT_VERSION };
const LINES_HEADERS = { ...JSON_HEADERS, 'content-type': RESULT_STREAM };

/** Answers the signed requests of one controller, whatever HTTP server they come by. */
export interface TriggerHandler {
  /** Never rejects. */
  answer(request: SignedRequest): Promise<FunctionAnswer>;
  /** Uses a platform's own parts from now on. */
  runOn(platform: Platform): void;
}

/**
 * A handler that verifies the signature of the raw body before it parses it, and has no option to skip that.
 * @throws UserError when a secret of the list is malformed, or there is none.
 */
export function createTriggerHandler(controller: Controller, options: TriggerHandlerOptions): TriggerHandler {
  const { api, now, secrets } = options;
  if (typeof secrets !== 'function') checkSecrets(secrets);
  const log = options.logger.child({ controller: controller.name });
  const seen = new SeenTriggers();
  let platform = ANYWHERE;
  let cache = options.cache;
  let verifier: Verifier | undefined;
  let creating: Promise<Verifier> | undefined;

  /** Asks for the secrets once, but asks again after a failure. */
  const createVerifier = (): Promise<Verifier> =>
    (creating ??= (async () => {
      try {
        const texts = typeof secrets === 'function' ? await secrets() : secrets;
        checkSecrets(texts);
        return (verifier = await platform.createVerifier(texts));
      } finally {
        creating = undefined;
      }
    })());

  const refusal = (status: 409 | 503, error: string, reconcileID: string, message: string): FunctionAnswer => {
    log.warn({ reconcileID }, message);
    return whole(status, { error });
  };

  const run = async (trigger: Trigger, { headers, hangUp }: SignedRequest): Promise<FunctionAnswer> => {
    // Several functions may share a secret: a trigger that was meant for another must not run a key of that name here.
    if (trigger.controller !== controller.name) {
      throw new ContractError(`the trigger is for ${trigger.controller}, and this is ${controller.name}`);
    }
    const reconcileId = headers.get('webhook-id') ?? '';
    const leftMs = Date.parse(trigger.deadline) - now();
    // Not a time, too.
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
    const open = (cache ??= httpCache(platform.fetch && { fetch: platform.fetch }));
    const start = prepareTrigger(controller, trigger, {
      cache: (scope) => open(trigger.cache, scope),
      api,
      log,
      reconcileId,
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

  return {
    async answer(request) {
      try {
        const { headers, body } = request;
        await (verifier ?? (await createVerifier()))({ headers, nowMs: now(), body });
        if (request.method === 'GET') return whole(200, describe(controller));
        return await run(decodeTrigger(body), request);
      } catch (error) {
        if (error instanceof ContractError) return whole(400, { error: error.message });
        if (error instanceof SignatureError) {
          log.warn({ reason: error.message }, 'a request was refused');
          return whole(401, { error: error.message });
        }
        log.error({ error: messageOf(error) }, 'a request failed');
        // The caller may not have signed: the reason is for the log.
        return whole(500, { error: 'internal error' });
      }
    },
    runOn(better) {
      platform = better;
      verifier = undefined;
      cache = options.cache;
    },
  };
}

/** Lines of results that come at the same time are written together. */
function linesOf({ requests }: Trigger, sink: LineSink, defer: Platform['defer']): OnResult {
  let left = requests.length;
  let waiting = '';
  const flush = (): void => {
    // Nothing waits when the last one has come meanwhile.
    if (waiting !== '') sink.write(waiting);
    waiting = '';
  };
  return (result, at) => {
    const line: ResultLine = { run: requests[at]?.run ?? 0, result };
    const isFirst = waiting === '';
    waiting += `${JSON.stringify(line)}\n`;
    left -= 1;
    if (left === 0) {
      sink.end(waiting);
      waiting = '';
    } else if (isFirst) defer(flush);
  };
}

function whole(status: FunctionAnswer['status'], body: object): FunctionAnswer & { readonly body: string } {
  return { status, headers: JSON_HEADERS, body: JSON.stringify(body) };
}

function accepts(header: string | null, type: string): boolean {
  return header?.split(',').some((range) => range.split(';', 1)[0]?.trim() === type) ?? false;
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
