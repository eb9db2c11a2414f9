import { type GroupVersionKind, type Logger, type Resource, UserError } from '../core/index.ts';
import type { Review, WebhookDescription } from '../contract/index.ts';
import type { ApiTransport } from './api-transport.ts';
import type { ApiWriter } from './api-writer.ts';
import type { CacheReader, OpenCache } from './cache-reader.ts';
import type { HangUp } from './run-scope.ts';

/**
 * A webhook of a controller: its declaration and its code. `validatingWebhook`, `mutatingWebhook` and
 * `conversionWebhook` of `levelhook/function/webhooks` make one. It brings all code that answers reviews, so that the
 * bundle of a function without webhooks has none of it.
 */
export interface Webhook {
  /** The kind whose writes it reviews, or the hub of a conversion. */
  readonly for: Resource;
  readonly description: WebhookDescription;
  /**
   * Makes the `response` of a review, without its `uid`.
   * @throws ContractError for a review that the webhook does not answer. After any other error there is no decision.
   */
  review(review: Review, context: ReviewContext): Promise<object>;
  /** Answers a request for a review, using `review`. Never rejects. */
  serve(request: WebhookRequest, app: WebhookApp): Promise<WebhookAnswer>;
}

/** The live reads of an `ApiWriter`. A webhook decides and writes nothing: the controller writes. */
export type ApiReader = Pick<ApiWriter, 'get' | 'list' | 'listMetadata' | 'getPath'>;

/** The context of a review. It must not be used after the review. */
export interface ReviewContext {
  /**
   * Whether a client certificate proved to the gateway that an apiserver sent this review. If not, anyone who reaches
   * the gateway may have made it up, and gets the answer: it must reveal nothing that the review itself lacks. Always
   * false for a conversion, and for a review that comes without the gateway.
   */
  readonly authenticated: boolean;
  /**
   * The gateway's cache, as a run of the controller reads it. It may lack the newest changes: see `cacheAgeSeconds`. A
   * review that is not `authenticated` has no cache, and each read rejects.
   */
  readonly cache: CacheReader;
  /**
   * For how many seconds at most the cache may lack a change of this kind. Undefined when the gateway does not know,
   * and for a kind that is not cached.
   */
  readonly cacheAgeSeconds: (resource: GroupVersionKind) => number | undefined;
  /** Live reads, with the function's own credentials: the option `api` of the app. */
  readonly api: ApiReader;
  /** With controller, webhook and the review's `uid` on each line. */
  readonly log: Logger;
  /** Aborted shortly before the deadline, and when the caller hangs up. */
  readonly signal: AbortSignal;
}

/** A request for a review. Its body is parsed but not checked. */
export interface WebhookRequest {
  /** A `ReviewRequest` of the gateway; without the gateway, the apiserver's review. */
  readonly body: unknown;
  /** For a review without the gateway: the parameter `timeout` of its URL, `10s` by default. */
  readonly unsigned?: { readonly timeout: string | undefined };
  readonly hangUp: HangUp;
}

/** The webhook's dependencies on its app. */
export interface WebhookApp {
  readonly controller: string;
  readonly cache: OpenCache;
  readonly api: ApiTransport;
  readonly log: Logger;
  readonly now: () => number;
}

/** The review with its `response`, or the reason why there is none, in one sentence. */
export type WebhookAnswer =
  | { readonly status: 200; readonly body: object }
  | { readonly status: 400 | 404 | 409 | 500 | 504; readonly error: string };

/**
 * The limit of the body of a review. The gateway takes reviews of 8 MiB (the apiserver's objects have 3 MiB at most,
 * and a review has the new one and the old one), and conversions of 16 MiB, and adds far less than 1 MiB.
 */
export function maxReviewBytes(webhooks: Iterable<Pick<Webhook, 'description'>>): number {
  const converts = [...webhooks].some(({ description }) => description.type === 'conversion');
  return (converts ? 17 : 9) * 1024 * 1024;
}

/** Webhooks by name. @throws UserError when two webhooks of a controller have one name. */
export function webhooksByName(controller: string, webhooks: readonly Webhook[] = []): ReadonlyMap<unknown, Webhook> {
  const byName = new Map<unknown, Webhook>();
  for (const webhook of webhooks) {
    const { name } = webhook.description;
    if (byName.has(name)) throw new UserError(`two webhooks of the controller ${controller} have the name ${name}`);
    byName.set(name, webhook);
  }
  return byName;
}
