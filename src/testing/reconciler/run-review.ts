import { randomUUID } from 'node:crypto';
import {
  formatJson,
  formatKind,
  groupOf,
  type Logger,
  parseJson,
  type Resource,
  silentLogger,
  systemClock,
  versionOf,
} from '../../core/index.ts';
import {
  CONTRACT_VERSION,
  generateSecret,
  importSecret,
  type Review,
  type ReviewRequest,
  sign,
} from '../../contract/index.ts';
import type { CacheReader } from '../../function/cache-reader.ts';
import type { Controller } from '../../function/controller.ts';
import { createFunctionApp } from '../../function/function-app.ts';
import type { UserInfo } from '../../function/webhooks/index.ts';
import { type GivenObject, MemoryApiserver } from './memory-apiserver.ts';
import { jsonPatch } from './patches.ts';
import { declaredBy } from './run-reconciler.ts';
import type { TestApiserver } from './test-apiserver.ts';
import { everythingOf } from './live-reader.ts';
import { liveCache } from './test-context.ts';

/** A write to review. `from` makes it an update. */
export type ReviewedWrite =
  | { readonly create: GivenObject }
  | { readonly update: GivenObject; readonly from: GivenObject }
  | { readonly delete: GivenObject }
  /** The options of the connection: `PodExecOptions`. */
  | { readonly connect: Readonly<Record<string, unknown>>; readonly name: string; readonly namespace?: string };

export interface RunReviewOptions {
  /** The webhook reads it, as its cache and live. Default: an empty one in memory. */
  readonly apiserver?: TestApiserver;
  /** A different cache, for instance with an older state. Default: the current state of the apiserver. */
  readonly cache?: CacheReader;
  /** The age of the cache by `apiVersion/Kind`. Default: 0 for each kind that the controller names. */
  readonly cacheAgeSeconds?: Readonly<Record<string, number>>;
  /** Default false. */
  readonly dryRun?: boolean;
  /** `status`, `scale`. Default: the object itself. */
  readonly subresource?: string;
  /** The user who writes. Default: `{ username: 'test' }`. */
  readonly userInfo?: UserInfo;
  /** Default 10. */
  readonly timeoutSeconds?: number;
  /** Default: nothing is logged. */
  readonly logger?: Logger;
}

/** One review, and its result. */
export interface ReviewRun {
  /** Undefined: there is no decision, so the failure policy would apply. `error` has the reason. */
  readonly allowed: boolean | undefined;
  /** The object as it would be written: patched by a mutating webhook. For a DELETE, the deleted object. */
  readonly object: GivenObject;
  /** The JSON Patch of a mutating webhook that has changed something. */
  readonly patch?: readonly unknown[];
  /** The `metav1.Status` of a denial. */
  readonly denial?: {
    readonly message: string;
    readonly reason: string;
    readonly code: number;
    readonly details?: { readonly causes?: readonly object[] };
  };
  readonly warnings: readonly string[];
  readonly auditAnnotations: Readonly<Record<string, string>>;
  /** The error of the webhook, or the error in the answer when the webhook refuses the review. */
  readonly error: unknown;
}

/**
 * Asks an admission webhook of a controller about one write, through the same app as in production, signature
 * included. Nothing is written. An error in the webhook does not reject: see `error`.
 *
 * ```ts
 * const { allowed, denial } = await runReview(widgets, 'names', { create: widget }, { apiserver });
 * ```
 *
 * @param webhook its name.
 */
export async function runReview(
  controller: Controller,
  webhook: string,
  write: ReviewedWrite,
  options: RunReviewOptions = {},
): Promise<ReviewRun> {
  const { subresource, dryRun = false, userInfo = { username: 'test' } } = options;
  const { for: resource } = webhookOf(controller, webhook);
  const { operation, object, oldObject, options: kind } = partsOf(write);
  const written = (object ?? oldObject) as GivenObject & { apiVersion?: string; kind?: string };
  const key = 'connect' in write ? write : written.metadata;
  const { status, body, error } = await answerOf(controller, webhook, options, {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: randomUUID(),
      kind: kindOf({ apiVersion: written.apiVersion ?? '', kind: written.kind ?? '' }),
      resource: { group: groupOf(resource), version: versionOf(resource), resource: resource.plural },
      ...(subresource === undefined ? {} : { subResource: subresource }),
      name: key.name,
      ...(key.namespace === undefined ? {} : { namespace: key.namespace }),
      operation,
      userInfo,
      object: object ?? null,
      oldObject: oldObject ?? null,
      dryRun,
      options: { apiVersion: 'meta.k8s.io/v1', kind },
    } as Review['request'],
  });
  const response = (body.response ?? {}) as AdmissionResponse;
  const patch = response.patch === undefined ? undefined : (parseJson(decoded(response.patch)) as unknown[]);
  return {
    allowed: status === 200 ? response.allowed : undefined,
    object: (patch ? jsonPatch(written, patch) : written) as GivenObject,
    ...(patch ? { patch } : {}),
    ...(response.status ? { denial: response.status } : {}),
    warnings: response.warnings ?? [],
    auditAnnotations: response.auditAnnotations ?? {},
    error,
  };
}

export interface ConversionRun {
  /** In the order of the given objects. Undefined when the conversion has failed. */
  readonly objects: GivenObject[] | undefined;
  /** The message for the client. */
  readonly failure?: string;
  /** The error in the answer when the webhook refuses the review. */
  readonly error: unknown;
}

/**
 * Converts objects with a conversion webhook of a controller, through the same app as in production.
 *
 * @param webhook its name.
 * @param apiVersion of the converted objects: `example.com/v2`.
 */
export async function runConversion(
  controller: Controller,
  webhook: string,
  given: readonly GivenObject[],
  apiVersion: string,
): Promise<ConversionRun> {
  const { body, error } = await answerOf(
    controller,
    webhook,
    {},
    {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'ConversionReview',
      request: { uid: randomUUID(), desiredAPIVersion: apiVersion, objects: given } as Review['request'],
    },
  );
  const { convertedObjects, result } = (body.response ?? {}) as ConversionResponse;
  const failure = result?.status === 'Success' ? undefined : result?.message;
  return { objects: convertedObjects, ...(failure === undefined ? {} : { failure }), error };
}

/**
 * Converts an object to another version and back. The result must equal the input, or the apiserver loses a part of
 * each object that a client reads and writes in that version.
 *
 * ```ts
 * expect(await roundTrip(widgets, 'versions', widget, 'example.com/v2')).toEqual(widget);
 * ```
 *
 * @param webhook its name.
 * @throws Error when a conversion fails.
 */
export async function roundTrip(
  controller: Controller,
  webhook: string,
  object: GivenObject,
  apiVersion: string,
): Promise<GivenObject> {
  const there = await converted(controller, webhook, object, apiVersion);
  return converted(controller, webhook, there, object.apiVersion);
}

async function converted(
  controller: Controller,
  webhook: string,
  object: GivenObject,
  apiVersion: string,
): Promise<GivenObject> {
  const { objects, failure, error } = await runConversion(controller, webhook, [object], apiVersion);
  const [only] = objects ?? [];
  if (only) return only;
  throw new Error(failure ?? 'the conversion has failed', { cause: error });
}

interface AdmissionResponse {
  readonly allowed: boolean;
  readonly patch?: string;
  readonly status?: NonNullable<ReviewRun['denial']>;
  readonly warnings?: string[];
  readonly auditAnnotations?: Record<string, string>;
}

interface ConversionResponse {
  readonly convertedObjects?: GivenObject[];
  readonly result?: { readonly status: string; readonly message?: string };
}

function webhookOf({ name, webhooks = [] }: Controller, webhook: string) {
  const found = webhooks.find(({ description }) => description.name === webhook);
  if (!found) throw new TypeError(`the controller ${name} has no webhook ${webhook}`);
  return found;
}

function partsOf(write: ReviewedWrite) {
  if ('create' in write) return { operation: 'CREATE', object: write.create, options: 'CreateOptions' };
  if ('update' in write) {
    return { operation: 'UPDATE', object: write.update, oldObject: write.from, options: 'UpdateOptions' };
  }
  if ('delete' in write) return { operation: 'DELETE', oldObject: write.delete, options: 'DeleteOptions' };
  return { operation: 'CONNECT', object: write.connect, options: write.connect['kind'] };
}

function kindOf({ apiVersion, kind }: Pick<Resource, 'apiVersion' | 'kind'>): object {
  return { group: groupOf({ apiVersion }), version: versionOf({ apiVersion }), kind };
}

function decoded(base64: string): string {
  return Buffer.from(base64, 'base64').toString('utf8');
}

interface AppAnswer {
  readonly status: number;
  readonly body: { readonly response?: object; readonly error?: string };
  readonly error: unknown;
}

/** The answer of this controller's function app to the signed request. */
async function answerOf(
  controller: Controller,
  webhook: string,
  options: RunReviewOptions,
  review: Review,
): Promise<AppAnswer> {
  const { apiserver = new MemoryApiserver(), timeoutSeconds = 10, logger = silentLogger } = options;
  const called = webhookOf(controller, webhook);
  let thrown: unknown;
  const observed = {
    ...called,
    async review(...given: Parameters<typeof called.review>) {
      try {
        return await called.review(...given);
      } catch (error) {
        thrown = error;
        throw error;
      }
    },
  };
  const resources = declaredBy(controller);
  const deadlineMs = systemClock.now() + timeoutSeconds * 1000;
  const secret = generateSecret();
  const app = createFunctionApp(
    { ...controller, webhooks: (controller.webhooks ?? []).map((each) => (each === called ? observed : each)) },
    {
      secrets: [secret],
      api: apiserver.transport,
      cache: (_, { signal }) => options.cache ?? liveCache(apiserver, resources, { signal, deadlineMs }),
      logger,
    },
  );
  const body = formatJson({
    version: CONTRACT_VERSION,
    controller: controller.name,
    webhook,
    // Like a gateway that authenticates the apiserver, which has no certificate for conversions.
    authenticated: called.description.type !== 'conversion',
    deadline: new Date(systemClock.wallNow() + timeoutSeconds * 1000).toISOString(),
    remainingSeconds: timeoutSeconds,
    cache: everythingOf(resources),
    cacheAgeSeconds: options.cacheAgeSeconds ?? Object.fromEntries(resources.map((each) => [formatKind(each), 0])),
    review,
  } satisfies ReviewRequest);
  const headers = await sign([await importSecret(secret)], { id: randomUUID(), nowMs: Date.now(), body });
  const answer = await app.request('/', { method: 'POST', headers: { ...headers }, body });
  const answered = parseJson(await answer.text()) as AppAnswer['body'];
  const { status } = answer;
  return { status, body: answered, error: thrown ?? (status === 200 ? undefined : new Error(answered.error)) };
}
