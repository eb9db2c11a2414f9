import { LimitedLines, type LogFields, messageOf, type Resource, type Runtime, tenantOf } from '../../../core/index.ts';
import { RUN_HEADER } from '../../../contract/index.ts';
import type { CpuBudget } from '../../controller/cel/cpu-budget.ts';
import type { FunctionAccount } from '../../controller/access/account-tokens.ts';
import { TokenError, type TokenRuns } from '../../controller/access/token.ts';
import type { ApiClient, ForwardedAnswer, ForwardedRequest } from '../../../ground/apiserver/api-client.ts';
import {
  badRequest,
  HEADERS,
  StatusError,
  type StatusParts,
  statusResponse,
  tooManyRequests,
  unauthorized,
  unavailable,
} from '../cache-api/kubernetes-status.ts';
import type { ReadingTimes } from '../cache-api/reading-time.ts';
import type { WriteEntry, WriteTarget } from '../../controller/dispatch/recorded-writes.ts';
import type { UsedRights } from '../../controller/workqueue/records/used-rights.ts';
import type { BegunWrite, FencedRun, WriteRecords } from '../../controller/workqueue/records/write-records.ts';
import { noRoom, passOn, readBody, stream, type TakenAnswer, takeAnswer } from './bodies.ts';
import { HeldBytes, type Hold } from '../../controller/endpoint/held-bytes.ts';
import { type ProxiedRequest, proxiedRequest } from './proxied-request.ts';
import { recordedWrite, targetOf } from './recorded-write.ts';
import { requestOptions } from './request-options.ts';

/** A controller whose function writes through the gateway. */
export interface ProxiedController {
  readonly account: FunctionAccount;
  readonly writeRecords: WriteRecords;
  /** Gets each right that the apiserver has granted. */
  readonly usedRights: Pick<UsedRights, 'note'>;
  /** The kinds that it reads, as the cluster serves them. */
  readonly resources: readonly Resource[];
  /** Pays for decoding its requests and the answers to them. */
  readonly budget: Pick<CpuBudget, 'inTurn'>;
}

/** The bearer of a token. */
export interface ProxyClient {
  /** The id of its controller. */
  readonly controller: string;
  /**
   * Undefined when there is none at the moment, or not as the token names it, or its function has other credentials.
   */
  readonly proxied: ProxiedController | undefined;
  readonly runs: TokenRuns;
  /** Seconds since the epoch. */
  readonly expiresAt: number;
  /** Whether one of these runs is in flight. Rejects when Redis does not answer. @param runs default: all of them. */
  readonly goesOn: (runs?: TokenRuns) => Promise<boolean>;
  /** Whether its account is there, by UID: see `LiveAccounts.isThere`. */
  readonly hasAccount: () => Promise<boolean>;
}

export interface KubernetesApiOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly client: Pick<ApiClient, 'for'>;
  /** The times of the cache API: a tenant has one for its reads there and here. */
  readonly times: ReadingTimes;
  /** Checks a token. @throws TokenError */
  readonly verify: (token: string) => ProxyClient;
  /** Whether the queues can be trusted: Redis is there and has lost nothing. */
  readonly available: () => boolean;
  /** Whether a controller that is not known may still come. */
  readonly mayCome: (controller: string) => boolean;
}

/** Of a write. It is not passed on, so that no header of the caller says who writes. */
interface Asked {
  readonly controller: string;
  readonly proxied: ProxiedController;
  readonly user: string;
  readonly client: ApiClient;
  readonly caller: ProxyClient;
  readonly request: Request;
  readonly method: ForwardedRequest['method'];
  readonly what: ProxiedRequest;
}

/** The apiserver gives up a write at the deadline, and its answer takes its time. */
const ANSWER_MS = 2000;
/** A request takes about this much without its body, while it waits for its turn and for its answer. */
const REQUEST_BYTES = 16 * 1024;
/** 256 requests of a tenant, 4,096 in all, and 32 of each tenant beyond these: many tenants may let theirs wait. */
const UNDER_WAY = { perOwner: 256 * REQUEST_BYTES, total: 4096 * REQUEST_BYTES, reserved: 32 * REQUEST_BYTES };
/** A stream goes on for this much longer than the runs of its caller. */
const CHECK_MS = 1000;
/** Of what depends on the caller, if its token is valid for longer. */
const CALLER_MS = 60_000;
const OBJECT_TYPES = ['application/json'];
const PATCH_TYPES = [
  'application/merge-patch+json',
  'application/json-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
];
const ANSWERED_HEADERS = ['content-type', 'warning', 'retry-after', 'audit-id'];

/**
 * The Kubernetes API for functions that have no credentials: passes on a function's live reads and its writes, as its
 * ServiceAccount. A write is passed on for a run that is in flight, and goes on record with it, so that the run's
 * outcome need not name it ([ADR 0011](../../../infra/adr/0011-tokens-and-credentials.md)).
 */
export class KubernetesApi {
  readonly #options: KubernetesApiOptions;
  /** Bodies. */
  readonly #held = new HeldBytes();
  /** Requests without their bodies, so that requests that wait leave room for the bodies of these. */
  readonly #underWay = new HeldBytes(UNDER_WAY);
  /** By tenant. */
  readonly #lines: LimitedLines;
  readonly #writing = new Set<Promise<unknown>>();
  #stopping = false;

  constructor(options: KubernetesApiOptions) {
    this.#options = options;
    this.#lines = new LimitedLines(options.runtime.clock);
  }

  /** Never rejects. @param root the path under which the API is. */
  async handle(request: Request, root: string): Promise<Response> {
    const { metrics } = this.#options.runtime;
    const labels = { controller: '', verb: 'other' };
    let response: Response;
    try {
      response = await this.#answer(request, root, labels);
    } catch (error) {
      const { controller } = labels;
      if (!(error instanceof StatusError)) {
        this.#warn(controller, { error: messageOf(error) }, 'a proxied request failed');
      }
      const status: StatusParts = error instanceof StatusError ? error.status : NO_ANSWER;
      response = statusResponse(status, request.method === 'HEAD');
    }
    metrics.count('levelhook_proxied_requests_total', { ...labels, code: codeOf(response.status) });
    // The next request goes to another gateway, if there is one.
    if (this.#stopping) response.headers.set('connection', 'close');
    return response;
  }

  /** Takes no further requests. Resolves when the writes under way are on record, or after `limitMs`. */
  async stop(limitMs: number): Promise<void> {
    this.#stopping = true;
    const limit = new AbortController();
    await Promise.race([Promise.allSettled(this.#writing), this.#options.runtime.clock.sleep(limitMs, limit.signal)]);
    limit.abort();
  }

  async #answer(request: Request, root: string, labels: { controller: string; verb: string }): Promise<Response> {
    const { client } = this.#options;
    const caller = this.#authenticate(request);
    const { controller, proxied } = caller;
    if (!proxied) throw this.#options.mayCome(controller) ? unavailable('the gateway is starting') : unauthorized();
    labels.controller = controller;
    const { namespace, name } = proxied.account;
    const user = `system:serviceaccount:${namespace}:${name}`;
    const { pathname, searchParams } = new URL(request.url);
    const what = proxiedRequest(request.method, pathname.slice(root.length), searchParams, user);
    labels.verb = what.verb;
    const method = request.method as Asked['method'];
    const asked = { controller, proxied, user, client: client.for(controller), caller, request, method, what };
    const hold = this.#underWay.open(tenantOf(controller));
    if (!hold.add(REQUEST_BYTES)) throw noRoom();
    try {
      return await (what.isWrite ? this.#recorded(this.#write(asked)) : this.#read(asked));
    } finally {
      hold.release();
    }
  }

  #warn(controller: string, fields: LogFields, message: string): void {
    const { logger } = this.#options.runtime;
    this.#lines.write(tenantOf(controller), (more) => logger.warn({ controller, ...fields, ...more }, message));
  }

  /** A stop waits for it. */
  async #recorded(writing: Promise<Response>): Promise<Response> {
    this.#writing.add(writing);
    return writing.finally(() => this.#writing.delete(writing));
  }

  /** Aborted when the caller has hung up, or its runs are over: waits for the caller, or for its turn, end then. */
  #callerSignal({ caller, request }: Asked): AbortSignal {
    const leftMs = Math.max(0, caller.expiresAt * 1000 - this.#options.runtime.clock.now());
    return AbortSignal.any([request.signal, AbortSignal.timeout(Math.min(leftMs, CALLER_MS))]);
  }

  #authenticate(request: Request): ProxyClient {
    const token = tokenOf(request);
    if (this.#stopping) throw unavailable('the gateway is stopping');
    if (!this.#options.available()) throw unavailable('the gateway is being checked: see /readyz');
    return this.#verify(token);
  }

  #verify(token: string): ProxyClient {
    try {
      return this.#options.verify(token);
    } catch (error) {
      if (error instanceof TokenError) throw unauthorized();
      throw error;
    }
  }

  /**
   * The apiserver would let an account of the same name act.
   * @throws StatusError 401, or 503 when it is not known.
   */
  async #checkAccount({ controller, hasAccount }: ProxyClient): Promise<void> {
    const isThere = await hasAccount().catch((error: unknown) => {
      this.#warn(controller, { error: messageOf(error) }, 'the ServiceAccount of a function could not be read');
      throw unavailable('the apiserver does not say whether the ServiceAccount of the function is there');
    });
    if (!isThere) throw unauthorized();
  }

  /**
   * Waits for flow control. The controller may have stopped, or have been declared anew, during the wait, and its
   * account may be gone.
   */
  async #turn({ caller, client, method, request }: Asked, signal: AbortSignal): Promise<void> {
    await turn(client, method, signal);
    if (!this.#verify(tokenOf(request)).proxied) throw unauthorized();
    await this.#checkAccount(caller);
  }

  /** Streams the answer. */
  async #read(asked: Asked): Promise<Response> {
    const { caller, client, controller, method, request, user, what } = asked;
    // Before its turn: a token that is over uses up none.
    await this.#checkAccount(caller);
    if (!(await caller.goesOn())) throw unauthorized();
    const signal = this.#callerSignal(asked);
    await this.#turn(asked, signal);
    if (!(await caller.goesOn())) throw unauthorized();
    const accept = request.headers.get('accept') ?? 'application/json';
    const answer = await client.forward({
      method,
      url: urlOf(what),
      headers: { ...headersFor(request), accept },
      user,
      signal,
    });
    checkIdentity(answer);
    noteRight(asked, answer);
    const hold = this.#held.open(tenantOf(controller));
    const body = stream(answer.body, { hold, signal, beforeChunk: this.#whileAllowed(asked) });
    return new Response(body, { status: answer.status, headers: headersOf(answer) });
  }

  /** For the chunks of an answer to a read: each is paid for, and the stream ends after the runs of the caller. */
  #whileAllowed({ caller, controller, request }: Asked): (bytes: number) => Promise<void> {
    const { clock } = this.#options.runtime;
    const pay = this.#payer(controller);
    let checkedMs = clock.now();
    return async (bytes) => {
      await pay(bytes);
      if (clock.now() - checkedMs < CHECK_MS) return;
      checkedMs = clock.now();
      if (!this.#verify(tokenOf(request)).proxied || !(await caller.goesOn())) throw unauthorized();
      // An apiserver that is slow to answer this does not break off its answer.
      if (!(await caller.hasAccount().catch(() => true))) throw unauthorized();
    };
  }

  /** For a body or its chunks: each waits until the tenant has time of the thread, and takes it. */
  #payer(controller: string): (bytes: number) => Promise<void> {
    const time = this.#options.times.for(controller);
    return (bytes) => time.paceBytes(bytes);
  }

  async #write(asked: Asked): Promise<Response> {
    const hold = this.#held.open(tenantOf(asked.controller));
    try {
      return await this.#writeWith(asked, hold);
    } catch (error) {
      hold.release();
      throw error;
    }
  }

  async #writeWith(asked: Asked, hold: Hold): Promise<Response> {
    const { caller, proxied, request, what } = asked;
    const run = runOf(caller.runs, request.headers.get(RUN_HEADER));
    // Before its body is read and before its turn, so that a run that is over takes neither.
    const { incarnation, key } = run;
    await this.#checkAccount(caller);
    if (!(await caller.goesOn({ incarnation, keys: { [run.run]: key } }))) throw runIsOver(run);
    const type =
      (request.headers.get('content-type') ?? 'application/json').split(';', 1)[0]?.trim().toLowerCase() ?? '';
    const types = what.verb === 'patch' ? PATCH_TYPES : OBJECT_TYPES;
    if (!types.includes(type)) throw unsupported(type, types);
    const signal = this.#callerSignal(asked);
    const sent = await readBody(request, hold, signal);
    await this.#payer(asked.controller)(sent.length);
    const options = await proxied.budget.inTurn(() => requestOptions(what, sent));
    // Before the run may write: it may wait here until its deadline.
    await this.#turn(asked, signal);
    if (!what.resource) throw badRequest('this cannot be written');
    const target = targetOf(what.resource, proxied.resources);
    const begun = await this.#begin(asked, run, target);
    // From here on nothing depends on the caller: it may be gone by the time of the answer.
    const { answer, taken, end } = await this.#send(asked, { type, sent, begun, hold }).catch(
      async (error: unknown) => {
        // The note of the write stays: it may have taken effect.
        const fields = { key: run.key, run: run.run, error: messageOf(error) };
        this.#warn(asked.controller, fields, 'a proxied write got no answer, so the outcome of its run is unknown');
        throw new StatusError(NO_ANSWER);
      },
    );
    // Of an answer that is too long to be held only the status is read.
    const text = taken.rest ? '' : taken.content.toString();
    const answered = { request: what.resource, target, options, status: answer.status, text };
    const entry = answer.status === 401 ? undefined : await proxied.budget.inTurn(() => recordedWrite(answered));
    // A write with an unknown outcome stays on record, however many writes the run has.
    if (!entry || !('open' in entry)) await proxied.writeRecords.end(run, begun.id, entry && JSON.stringify(entry));
    checkIdentity(answer);
    noteRight(asked, answer);
    return new Response(passOn(taken, { hold, signal: end, beforeChunk: this.#payer(asked.controller) }), {
      status: answer.status,
      headers: headersOf(answer),
    });
  }

  async #begin({ proxied }: Asked, run: FencedRun, target: WriteTarget): Promise<BegunWrite> {
    const note: WriteEntry = { open: target };
    const begun = await proxied.writeRecords.begin(run, JSON.stringify(note), this.#options.runtime.clock.now());
    if (begun === 'full')
      throw tooManyRequests('too many writes of this run have no known outcome, so it may write no more');
    if (begun) return begun;
    throw runIsOver(run);
  }

  /** @returns also what ends at the deadline. */
  async #send(
    { client, method, request, user, what }: Asked,
    { type, sent, begun, hold }: { type: string; sent: Buffer; begun: BegunWrite; hold: Hold },
  ): Promise<{ answer: ForwardedAnswer; taken: TakenAnswer; end: AbortSignal }> {
    const leftMs = Math.max(1, Math.ceil(begun.deadlineMs - this.#options.runtime.clock.now()));
    const query = new URLSearchParams(what.query);
    query.set('timeout', `${leftMs}ms`);
    const end = AbortSignal.timeout(leftMs + ANSWER_MS);
    const answer = await client.forward({
      method,
      url: urlOf({ path: what.path, query }),
      // As JSON, so that the gateway can read the written object.
      headers: {
        ...headersFor(request),
        accept: 'application/json',
        ...(sent.length > 0 ? { 'content-type': type } : {}),
      },
      body: sent.length > 0 ? sent : undefined,
      user,
      signal: end,
    });
    // The body of the request was sent.
    hold.release();
    return { answer, taken: await takeAnswer(answer.body, hold), end };
  }
}

/**
 * The name of the field manager of writes that name none, as with a function's own credentials, and the trace that the
 * apiserver's spans join (KEP-647).
 */
function headersFor({ headers }: Request): Readonly<Record<string, string>> {
  const traceparent = headers.get('traceparent');
  const isTrace = traceparent !== null && /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(traceparent);
  return { 'user-agent': 'levelhook-function', ...(isTrace && { traceparent }) };
}

/** Without a Retry-After: whether a write took effect is not known. */
const NO_ANSWER: StatusParts = { code: 504, reason: 'Timeout', message: 'the apiserver did not answer the gateway' };

const unsupported = (type: string, types: readonly string[]): StatusError =>
  new StatusError({
    code: 415,
    reason: 'UnsupportedMediaType',
    message: `the body of the request was in an unknown format - accepted media types include: ${types.join(', ')}, and not ${JSON.stringify(type.slice(0, 100))}`,
  });

/** A 401 is the gateway's: its own credentials are not good at the moment, and nothing was done. */
function checkIdentity({ status, body }: ForwardedAnswer): void {
  if (status !== 401) return;
  body.destroy();
  throw unavailable('the credentials of the gateway are being renewed');
}

/** A request that was refused, or for which there was nothing, shows no right. */
function noteRight({ proxied, what: { resource, verb } }: Asked, { status }: ForwardedAnswer): void {
  if (!resource || status >= 300) return;
  const { group, resource: plural, subresource } = resource;
  proxied.usedRights.note(verb, [group, plural, subresource].filter(Boolean).join('/'));
}

const runIsOver = ({ key, run }: FencedRun): StatusError =>
  new StatusError({
    code: 403,
    reason: 'Forbidden',
    message: `run ${run} of ${key} is over: nothing more is written for it`,
  });

function runOf({ incarnation, keys }: TokenRuns, header: string | null): FencedRun {
  const numbers = Object.keys(keys);
  const number = header ?? (numbers.length === 1 ? numbers[0] : undefined);
  if (number === undefined) throw badRequest(`the trigger has several runs: name one in the header ${RUN_HEADER}`);
  const key = Object.hasOwn(keys, number) ? keys[number] : undefined;
  if (key === undefined) {
    throw new StatusError({
      code: 403,
      reason: 'Forbidden',
      message: `the token is not for run ${number.slice(0, 20)}`,
    });
  }
  return { key, run: Number(number), incarnation };
}

/** @throws StatusError 401 */
function tokenOf({ headers }: Request): string {
  const token = /^Bearer +([^ ]+) *$/i.exec(headers.get('authorization') ?? '')?.[1];
  if (token === undefined) throw unauthorized();
  return token;
}

/** Waits for flow control. Nothing was sent before. @throws StatusError 429 */
async function turn(client: ApiClient, method: ForwardedRequest['method'], signal: AbortSignal): Promise<void> {
  try {
    await client.turn(method, signal);
  } catch {
    throw tooManyRequests('the requests of this controller are too many, and this one was not sent');
  }
}

function urlOf({ path, query }: Pick<ProxiedRequest, 'path' | 'query'>): string {
  return query.size > 0 ? `${path}?${query.toString()}` : path;
}

function headersOf({ headers }: ForwardedAnswer): Headers {
  const passed = new Headers(HEADERS);
  for (const name of ANSWERED_HEADERS) {
    for (const value of [headers[name] ?? []].flat()) passed.append(name, value);
  }
  return passed;
}

/** Statuses that the apiserver itself gives. A tenant's webhook or aggregated API may choose any other. */
const CODES = /^(?:20[012]|40[0134569]|41[035]|422|429|499|50[0234])$/;

function codeOf(status: number): string {
  return CODES.test(String(status)) ? String(status) : `${Math.floor(status / 100)}xx`;
}
