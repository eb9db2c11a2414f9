import { type Condition, LimitedLines, messageOf, type Runtime, type RequestSource } from '../../../core/index.ts';
import type { WebhookDescription } from '../../../contract/index.ts';
import type { CpuBudget } from '../../controller/cel/cpu-budget.ts';
import { TimeLimitError } from '../../controller/cel/time-limit.ts';
import { variableOf } from '../../../ground/config/config.ts';
import type { RunningController } from '../../controller/running/controller.ts';
import type { ControllerSources } from '../../controller/running/controller-sources.ts';
import type { CacheNow } from '../../controller/dispatch/review-sender.ts';
import { AnswerRoom } from '../cache-api/answer-room.ts';
import { methodNotAllowed, StatusError, statusResponse, unavailable } from '../cache-api/kubernetes-status.ts';
import { checkReview, reviewKindOf, type ServedWebhook } from './declared-review.ts';
import { answeredReview } from './review-answer.ts';
import { ReviewBodies } from './review-body.ts';
import { ReviewMetrics } from './review-metrics.ts';
import { reviewMs } from './review-timeout.ts';

export interface ReviewApiOptions {
  /** Undefined while the gateway is starting. */
  readonly controllers: () => ReviewTakers | undefined;
  /** The conditions of a ReconcileFunction, by the id of its controller; undefined when there is none. */
  readonly conditions: (id: string) => readonly Condition[] | undefined;
  /** Whether a controller that is not here may still come: the gateway has not read its function's description yet. */
  readonly starting: () => boolean;
  /** Whether this gateway is stopping: another one may answer. */
  readonly ending: () => boolean;
  /** Whether the server asks clients for a certificate, to recognize apiservers. */
  readonly knowsApiservers: boolean;
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
}

/** The controllers of a gateway, as far as reviews are concerned. */
export interface ReviewTakers {
  /** Undefined when it takes no reviews. */
  readonly reviewer: (id: string) => ReviewTaker | undefined;
  readonly known: () => { readonly has: (id: string) => boolean };
}

/** A controller whose function reviews. */
export interface ReviewTaker extends Pick<RunningController, 'name' | 'tenant' | 'bounds' | 'reviews'> {
  readonly sources: Pick<ControllerSources, 'declaredKinds'>;
}

/** Where the webhooks are. */
export const WEBHOOKS_PATH = '/webhooks';

const MEBIBYTE = 1024 * 1024;
/**
 * An object has 1.5 MiB at most, and a review may have two; a conversion has all objects of a list. The same for the
 * answers: a patch, and the converted objects.
 */
const BOUNDS = {
  admission: { maxBytes: 8 * MEBIBYTE, maxAnswerBytes: 4 * MEBIBYTE },
  conversion: { maxBytes: 16 * MEBIBYTE, maxAnswerBytes: 16 * MEBIBYTE },
};

/**
 * `POST /webhooks/CONTROLLER/WEBHOOK`: the review of an apiserver, which is passed on to the function of the controller
 * as a signed request. A refusal is a Kubernetes `Status`, because the apiserver shows its message to its own client
 * (client-go, rest/request.go `transformResponse`). With `Retry-After` the apiserver asks again within its timeout.
 */
export class ReviewApi {
  readonly #options: ReviewApiOptions;
  readonly #bodies = new ReviewBodies();
  readonly #answers = new AnswerRoom();
  readonly #metrics: ReviewMetrics;
  readonly #lines: LimitedLines;

  constructor(options: ReviewApiOptions) {
    this.#options = options;
    this.#metrics = new ReviewMetrics(options.runtime);
    this.#lines = new LimitedLines(options.runtime.clock);
  }

  /** Answers one request. Never rejects. @param source who has sent it. */
  async handle(request: Request, source: RequestSource): Promise<Response> {
    const startedMs = this.#options.runtime.clock.now();
    const response = await this.#asResponse(() => this.#handle(request, source, startedMs));
    // This server closes the connection then, and the next review must not be sent on it.
    const closes = this.#options.ending() || !this.#bodies.isWhole(request);
    if (closes) response.headers.set('connection', 'close');
    return response;
  }

  /** Removes the metrics of the webhooks that a controller no longer has. @param names of its webhooks. */
  async keepOnly(id: string, names: readonly string[]): Promise<void> {
    await this.#metrics.forget(`${WEBHOOKS_PATH}/${id}/`, names);
  }

  async #handle(request: Request, source: RequestSource, startedMs: number): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const [, id, name] = PATH.exec(pathname) ?? [];
    if (id === undefined || name === undefined) throw notHere(`there is nothing at this path: see ${WEBHOOKS_PATH}`);
    if (request.method !== 'POST') throw methodNotAllowed();
    if (!request.headers.get('content-type')?.startsWith('application/json')) {
      const message = 'a review is application/json';
      throw new StatusError({ code: 415, reason: 'UnsupportedMediaType', message });
    }
    const controller = this.#controller(id);
    const served = controller.reviews?.webhooks.find(({ webhook }) => webhook.name === name);
    if (!served) throw notHere(`the controller ${id} has no webhook ${name}`);
    if (!source.isKnown && this.#options.knowsApiservers && served.webhook.type !== 'conversion') throw unknown();
    const timeoutMs = reviewMs(searchParams.get('timeout'), served.webhook);
    const deadlineMs = startedMs + timeoutMs;
    return this.#metrics.measure(pathname, () =>
      this.#asResponse(async () => {
        let failure: string | undefined;
        try {
          return await this.#review({ request, source, deadlineMs }, controller, served);
        } catch (error) {
          failure = messageOf(error);
          throw error;
        } finally {
          controller.reviews?.sender.record(name, failure, source);
        }
      }),
    );
  }

  async #asResponse(work: () => Promise<Response>): Promise<Response> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof StatusError) return statusResponse(error.status);
      const { logger } = this.#options.runtime;
      this.#lines.write(FAILED, (more) => logger.error({ error: messageOf(error), ...more }, 'a review failed'));
      return statusResponse({ code: 500, reason: 'InternalError', message: 'the gateway failed' });
    }
  }

  /** @throws StatusError when no controller of this id takes reviews. */
  #controller(id: string): ReviewTaker {
    const controllers = this.#options.controllers();
    if (this.#options.ending()) throw unavailable('this gateway is stopping');
    if (!controllers) throw unavailable('the gateway is starting');
    const controller = controllers.reviewer(id);
    if (controller && !controller.reviews?.sender.isClosed) return controller;
    if (controller) throw without(`the controller ${id} is being stopped`);
    if (controllers.known().has(id)) throw unavailable(`the controller ${id} waits until its cache is complete`);
    const conditions = this.#options.conditions(id);
    const isFalse = (type: string): Condition | undefined =>
      conditions?.find((each) => each.type === type && each.status === 'False');
    const unauthorized = isFalse('Authorized');
    if (unauthorized) {
      const message = `the ReconcileFunction ${id} may not get reviews: ${unauthorized.message}`;
      throw new StatusError({ code: 403, reason: 'Forbidden', message });
    }
    const notReady = isFalse('Ready');
    if (notReady) throw without(`the ReconcileFunction ${id} does not run: ${notReady.message}`);
    if (conditions || this.#options.starting()) throw unavailable(`the controller ${id} is not there yet`);
    throw notHere(`there is no controller ${id}`);
  }

  async #review(
    {
      request,
      source,
      deadlineMs,
    }: { readonly request: Request; readonly source: RequestSource; readonly deadlineMs: number },
    controller: ReviewTaker,
    served: ServedWebhook,
  ): Promise<Response> {
    const { logger } = this.#options.runtime;
    const { webhook } = served;
    const { name: webhookName } = webhook;
    const sender = controller.reviews?.sender;
    if (!sender) throw new Error('a controller without a sender of reviews');
    const bounds = webhook.type === 'conversion' ? BOUNDS.conversion : BOUNDS.admission;
    const body = { tenant: controller.tenant, maxBytes: bounds.maxBytes, source };
    const budget = controller.bounds.reviewBudget(source);
    const inTurn = <T>(work: () => T): Promise<T> => this.#inTurn(work, { budget, deadlineMs });
    return this.#bodies.with(request, body, async (json, hold) => {
      const uid = await inTurn(() => checkReview(json, served));
      const cache = await sender.cache();
      const stale = this.#whenStale(controller, webhook, cache);
      if (stale !== undefined) return allowed(webhook, uid, stale);
      const { maxAnswerBytes } = bounds;
      const charge = (ms: number): unknown => budget.charge(ms);
      const turn = (): Promise<void> => inTurn(() => {});
      const review = { webhook: webhookName, json, source, deadlineMs, maxAnswerBytes, hold, charge, turn };
      const answer = await sender.send(review, cache);
      this.#metrics.countBroken(webhook, answer);
      try {
        const text = await inTurn(() => answeredReview(answer, webhook, uid));
        const content = this.#answers.for(source).body(new TextEncoder().encode(text));
        return new Response(content, { headers: JSON_HEADERS });
      } catch (error) {
        const details = answer.kind === 'answered' ? {} : { cause: answer.message };
        const fields = { controller: controller.name, webhook: webhookName, error: messageOf(error), ...details };
        this.#lines.write(controller.name, (more) => logger.warn({ ...fields, ...more }, 'a review has no answer'));
        throw error;
      }
    });
  }

  /**
   * Decodes data from others, in the budget of the controller that the data is for.
   * @throws StatusError 504 when the turn does not come before the deadline: the failure policy decides.
   */
  async #inTurn<T>(
    work: () => T,
    { budget, deadlineMs }: { readonly budget: CpuBudget; readonly deadlineMs: number },
  ): Promise<T> {
    try {
      return await budget.inTurn(work, deadlineMs - this.#options.runtime.clock.now());
    } catch (error) {
      if (!(error instanceof TimeLimitError)) throw error;
      const message = 'the reviews of the controller took more processor time than they may before the timeout';
      throw new StatusError({ code: 504, reason: 'Timeout', message });
    }
  }

  /**
   * Decides about a review when the cache is older than the webhook allows.
   * @returns the warning that comes with a write allowed without a review; undefined: there is a review.
   * @throws StatusError when there is none.
   */
  #whenStale(controller: ReviewTaker, webhook: WebhookDescription, { ages }: CacheNow): string | undefined {
    if (webhook.type === 'conversion' || !webhook.cache) return undefined;
    const { maxAgeSeconds, otherwise } = webhook.cache;
    const old = controller.sources.declaredKinds.find((kind) => (ages.get(kind) ?? Infinity) > maxAgeSeconds * 1000);
    if (old === undefined) return undefined;
    const ageMs = ages.get(old);
    const age = ageMs === undefined ? 'of unknown age' : `${Math.round(ageMs / 1000)} s old`;
    const message = `the cache of ${old} is ${age}, and the webhook ${webhook.name} allows ${maxAgeSeconds} s`;
    switch (otherwise) {
      case 'review':
        return undefined;
      case 'fail':
        throw without(message);
      case 'allow':
        return `not reviewed: ${message}`;
    }
  }
}

/** Of a DNS label, or two with a dot: `CONTROLLER` or `NAMESPACE.NAME`. */
const PATH = new RegExp(`^${WEBHOOKS_PATH}/([a-z0-9-]+(?:[.][a-z0-9-]+)?)/([a-z0-9-]+)$`);

/** The subject of lines about reviews that fail within the gateway: no controller has this name. */
const FAILED = '';

const JSON_HEADERS = { 'content-type': 'application/json' };

function allowed(webhook: WebhookDescription, uid: string, warning: string): Response {
  const review = { ...reviewKindOf(webhook), response: { uid, allowed: true, warnings: [warning] } };
  return new Response(JSON.stringify(review), { headers: JSON_HEADERS });
}

function unknown(): StatusError {
  const remedy = `the kubeConfigFile of its AdmissionConfiguration, or unset ${variableOf('webhookClientCaFile')}`;
  const message = `the review came without a client certificate that the gateway knows: give the apiserver one in ${remedy}`;
  return new StatusError({ code: 401, reason: 'Unauthorized', message });
}

/** It makes no sense to ask again soon. */
function without(message: string): StatusError {
  return new StatusError({ code: 503, reason: 'ServiceUnavailable', message });
}

function notHere(message: string): StatusError {
  return new StatusError({ code: 404, reason: 'NotFound', message });
}
