import {
  ApiError,
  formatLabelSelector,
  isExpired,
  isRemovedByUpdate,
  isUncertain,
  type KubernetesObject,
  type ObjectKey,
  type ObjectMeta,
  orUndefined,
  requirementsOf,
  type Resource,
  resourcePath,
} from '../core/index.ts';
import type { Write } from '../contract/index.ts';
import { type ApiRun, type WriteRequest, ApiRequests, type UnansweredWrite, type WriteBounds } from './api-requests.ts';
import type { ApiTransport } from './api-transport.ts';
import type {
  AppliedObject,
  ApplyOptions,
  DeleteCollectionOptions,
  DeleteOptions,
  LiveListOptions,
  LiveSelection,
  NewObject,
  Patch,
  Scale,
} from './api-types.ts';
import type { ListResult } from './cache-reader.ts';
import { DisruptionBudgetError } from './errors.ts';

/**
 * Reads and writes the apiserver within one run, as raw JSON, so that fields which the author's types lack survive.
 * Each acknowledged write is recorded for the outcome; the key's next run sees it in the cache. Nothing is sent after
 * the run's deadline or its end, and each request asks the apiserver to give up then, too (`?timeout=`).
 *
 * Every method throws ApiError for an answer other than 2xx, DeadlineError when the run is over, and the transport's
 * own error when there was no answer. After a 429 with Retry-After the request is sent again, if the time of the run
 * allows it.
 */
class Writer {
  readonly #requests: ApiRequests;
  readonly #writes: Write[] = [];

  constructor(transport: ApiTransport, run: ApiRun, bounds: WriteBounds = {}) {
    this.#requests = new ApiRequests(transport, run, bounds);
  }

  /** The writes that the apiserver has acknowledged so far. */
  get writes(): readonly Write[] {
    return this.#writes;
  }

  /**
   * Writes that may have taken effect although their answer is missing or does not say so, even if the author's code
   * caught the error. If one of them is of a cached kind, the outcome of the run is unknown.
   */
  get unanswered(): readonly UnansweredWrite[] {
    return this.#requests.unanswered;
  }

  /**
   * Makes the outcome of the run wait for this work, a second at most, whether it succeeds or not. Use it for work at
   * the end of a run that must not fail the run, such as an Event. A write that nothing waits for makes the outcome
   * unknown.
   */
  waitUntil(work: Promise<unknown>): void {
    this.#requests.waitUntil(work);
  }

  /** Called by the runtime at the end of the run. Writes that are still under way then are `unanswered`. */
  async finish(): Promise<void> {
    await this.#requests.finish(LAST_WORK_MS);
  }

  /** A live read, past the cache, for a decision that needs current data. Undefined when the object does not exist. */
  async get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    return orUndefined(this.getPath<T>(resourcePath(resource, key)));
  }

  /**
   * The JSON answer to a GET of any path: `/version`, `/apis`. The apiserver decides who may read it.
   * @param path with its query. Encode names from outside
   * @param accept media types of the answer, all of them JSON. Default `application/json`
   */
  async getPath<T>(path: string, accept?: string): Promise<T> {
    const request = { method: 'GET', path, ...(accept === undefined ? {} : { accept }) } as const;
    return (await this.#requests.send(NO_KIND, request)) as T;
  }

  /**
   * A live list, past the cache, by pages: a snapshot at `version`, in the apiserver's order. If the snapshot expires
   * between pages, the list is read anew in one piece, as client-go's pager does.
   * @throws SelectorError for an invalid label selector; then nothing was sent
   */
  list<T extends KubernetesObject>(resource: Resource<T>, options: LiveListOptions = {}): Promise<ListResult<T>> {
    return this.#list<T>(resource, options);
  }

  /**
   * As `list`, but the apiserver leaves out spec, status and data. For counting objects and reading their labels,
   * owners and finalizers. A server without this feature sends whole objects.
   */
  listMetadata(resource: Resource, options: LiveListOptions = {}): Promise<ListResult<KubernetesObject>> {
    return this.#list(resource, options, METADATA);
  }

  async #list<T extends KubernetesObject>(
    resource: Resource<T>,
    { pageSize = PAGE_SIZE, ...selection }: LiveListOptions,
    accept?: string,
  ): Promise<ListResult<T>> {
    const path = resourcePath(resource, { namespace: selection.namespace });
    const query = queryOf(selection);
    const page = (more: Record<string, string>): Promise<ListAnswer<T>> =>
      this.getPath(`${path}?${new URLSearchParams([...query, ...Object.entries(more)]).toString()}`, accept);
    const limit = { limit: String(pageSize) };
    let answer = await page(limit);
    const pages = [answer];
    for (let next = answer.metadata.continue; next; next = answer.metadata.continue) {
      try {
        answer = await page({ ...limit, continue: next });
      } catch (error) {
        if (!isExpired(error)) throw error;
        answer = await page({});
        pages.length = 0;
      }
      pages.push(answer);
    }
    const { apiVersion, kind } = resource;
    // The items of a built-in kind's list lack `apiVersion` and `kind`.
    const items = pages.flatMap(({ items: of }) => of ?? []).map((item) => ({ ...item, apiVersion, kind }));
    return { items, version: pages[0]?.metadata.resourceVersion ?? '0' };
  }

  /** @throws ApiError 409 (`AlreadyExists`) when an object of that name exists */
  async create<T extends KubernetesObject>(resource: Resource<T>, object: NewObject<T>): Promise<T> {
    const { apiVersion, kind } = resource;
    const path = resourcePath(resource, { namespace: object.metadata.namespace });
    return this.#write(resource, { method: 'POST', path, body: { apiVersion, kind, ...object } });
  }

  /**
   * PUT: the whole object as it was read, changed.
   * @param subresource the part to write. Default: all but the status. `finalize` is the `spec.finalizers` of a
   *   Namespace
   * @throws ApiError 409 (`Conflict`) when the object has changed since: run again, or read it live and decide anew
   */
  async replace<T extends KubernetesObject>(
    resource: Resource<T>,
    object: T,
    subresource?: 'status' | 'finalize',
  ): Promise<T> {
    const { namespace, name } = object.metadata;
    const path = resourcePath(resource, { namespace, name, subresource });
    return this.#write(resource, { method: 'PUT', path, body: object });
  }

  /** A merge patch with `metadata.resourceVersion` is refused with 409 when the object has changed since. */
  async patch<T extends KubernetesObject>(
    resource: Resource<T>,
    key: ObjectKey,
    patch: Patch,
    subresource?: 'status' | 'scale',
  ): Promise<T> {
    const type = { merge: 'merge-patch', strategic: 'strategic-merge-patch', json: 'json-patch' }[patch.type];
    const path = resourcePath(resource, { ...key, subresource });
    return this.#write(resource, { method: 'PATCH', path, body: patch.body, contentType: `application/${type}+json` });
  }

  /**
   * Server-side apply: this manager owns the fields in `object`, and fields that it owned before and no longer names
   * are removed. Creates the object when there is none.
   * @throws ApiError 409 (`Conflict`) that names the fields and their managers, unless forced
   */
  async apply<T extends KubernetesObject>(
    resource: Resource<T>,
    object: AppliedObject<T>,
    { fieldManager, force = false, subresource }: ApplyOptions,
  ): Promise<T> {
    const { namespace, name } = object.metadata;
    const path = `${resourcePath(resource, { namespace, name, subresource })}?fieldManager=${encodeURIComponent(fieldManager)}&force=${force}`;
    const { apiVersion, kind } = resource;
    // The apiserver's media type is YAML. The body is JSON that is YAML, too.
    const contentType = 'application/apply-patch+yaml';
    return this.#write(resource, { method: 'PATCH', path, body: { apiVersion, kind, ...object }, contentType });
  }

  /**
   * The actual and the desired number of replicas of an object, for any kind with a scale subresource. Undefined when
   * the object does not exist.
   */
  async getScale(resource: Resource, key: ObjectKey): Promise<Scale | undefined> {
    return orUndefined(this.getPath<Scale>(resourcePath(resource, { ...key, subresource: 'scale' })));
  }

  /**
   * Sets the desired number of replicas, whichever field the kind uses for it.
   * @param options `resourceVersion` of the Scale that was read: refused with 409 when the object has changed since.
   */
  async setScale(
    resource: Resource,
    key: ObjectKey,
    replicas: number,
    options: { readonly resourceVersion?: string } = {},
  ): Promise<Scale> {
    const body = { metadata: options, spec: { replicas } };
    // A Scale has the UID and the version of its object.
    return this.#write(resource as Resource<Scale>, {
      method: 'PATCH',
      path: resourcePath(resource, { ...key, subresource: 'scale' }),
      body,
      contentType: 'application/merge-patch+json',
    });
  }

  /** @throws ApiError 404 when the object does not exist, 409 when a precondition is not met */
  async delete(resource: Resource, key: ObjectKey, options: DeleteOptions = {}): Promise<void> {
    const request = { method: 'DELETE', path: resourcePath(resource, key), body: deleteOptions(options) } as const;
    const answer = (await this.#requests.send(resource, request)) as DeleteAnswer;
    if (answer.kind === 'Status') this.#recordDelete(resource, key, answer.details?.uid, true);
    else this.#recordDelete(resource, key, answer.metadata?.uid);
  }

  /**
   * Deletes all selected objects of a kind, 500 in a request, and returns their number. The apiserver's answer lists
   * them, so the key's next run sees each of them deleted or being deleted. A request is no transaction: an object that
   * is created during it may stay. After an error some objects may be deleted, so the outcome of the run is unknown.
   * @throws SelectorError for an invalid label selector; then nothing was sent
   */
  async deleteCollection(resource: Resource, options: DeleteCollectionOptions): Promise<number> {
    const { namespace, labelSelector, fieldSelector, ...rest } = options;
    const query = queryOf({
      ...(labelSelector === undefined ? {} : { labelSelector }),
      ...(fieldSelector === undefined ? {} : { fieldSelector }),
    });
    query.set('limit', String(PAGE_SIZE));
    // The refusal of one object may follow deletes of others. Only these codes come before the first delete.
    const mayBeDone = ({ code }: ApiError): boolean => ![401, 404, 405, 410, 429].includes(code);
    let count = 0;
    do {
      const path = `${resourcePath(resource, { namespace })}?${query.toString()}`;
      const request = { method: 'DELETE', path, body: deleteOptions(rest), mayBeDone, accept: METADATA } as const;
      const answer = (await this.#requests.send(resource, request)) as Partial<ListAnswer<KubernetesObject>>;
      for (const { metadata } of answer.items ?? []) this.#recordDelete(resource, metadata, metadata.uid);
      count += answer.items?.length ?? 0;
      query.set('continue', answer.metadata?.continue ?? '');
    } while (query.get('continue'));
    return count;
  }

  /**
   * Evicts exactly this pod (`policy/v1`): deletes it if its PodDisruptionBudget allows that.
   * @throws DisruptionBudgetError when the budget does not allow it now. Do not catch it: the key is retried after the
   *   time in the error. ApiError 404 when the pod is gone, 409 when another pod has its name
   */
  async evict(
    pod: { readonly metadata: Pick<ObjectMeta, 'name' | 'uid' | 'namespace'> },
    options: Omit<DeleteOptions, 'propagationPolicy'> = {},
  ): Promise<void> {
    const { namespace, name, uid } = pod.metadata;
    const body = {
      apiVersion: 'policy/v1',
      kind: 'Eviction',
      metadata: { namespace, name },
      // The answer does not name the pod.
      deleteOptions: { ...options, preconditions: { ...options.preconditions, uid } },
    };
    const path = resourcePath(POD, { namespace, name, subresource: 'eviction' });
    const mayRepeat = (error: ApiError): boolean => !isOfBudget(error);
    const mayBeDone = (error: ApiError): boolean => isUncertain(error) && !SEVERAL_BUDGETS.test(error.message);
    try {
      await this.#requests.send(POD, { method: 'POST', path, body, mayRepeat, mayBeDone });
    } catch (error) {
      if (!(error instanceof ApiError && isOfBudget(error))) throw error;
      const seconds = (error.retryAfterMs ?? 0) / 1000 || BUDGET_RETRY_SECONDS;
      const reason = error.status.details?.causes?.[0]?.message ?? error.message;
      throw new DisruptionBudgetError(`${namespace}/${name} cannot be evicted now: ${reason}`, seconds, {
        cause: error,
      });
    }
    this.#recordDelete(POD, pod.metadata, uid);
  }

  async #write<T extends KubernetesObject>(resource: Resource<T>, request: WriteRequest): Promise<T> {
    const object = (await this.#requests.send(resource, request)) as T;
    const { metadata } = object;
    // Trap: when an update removes the last obstacle to a delete, the answer carries the version from before the
    // update.
    if (request.method !== 'POST' && isRemovedByUpdate(object))
      this.#recordDelete(resource, metadata, metadata.uid, true);
    else {
      const { uid, resourceVersion } = metadata;
      this.#writes.push({ ...reference(resource, metadata), uid, resourceVersion });
    }
    return object;
  }

  #recordDelete(resource: Resource, key: ObjectKey, uid: string | undefined, gone = false): void {
    if (!uid) return;
    this.#writes.push({ ...reference(resource, key), uid, deleted: true, ...(gone ? { gone } : {}) });
  }
}

/**
 * See the class. As a type it has no private members: objects of two copies of the package, such as
 * `@levelhook/function` and `levelhook/testing`, fit each other.
 */
export type ApiWriter = Pick<Writer, keyof Writer>;
export const ApiWriter: new (transport: ApiTransport, run: ApiRun, bounds?: WriteBounds) => ApiWriter = Writer;

const PAGE_SIZE = 500;
const LAST_WORK_MS = 1000;
/** A server that cannot leave out fields sends whole objects. */
const METADATA = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';
/** For a read: only writes are recorded by kind. */
const NO_KIND = { apiVersion: '', kind: '' };
/** Not made by `resource()`: that call would be in the bundle of functions that never evict. */
const POD: Resource = { apiVersion: 'v1', kind: 'Pod', plural: 'pods', namespaced: true };

/**
 * The apiserver names 10 s itself where it names a time; a budget has no known time
 * (registry/core/pod/storage/eviction.go).
 */
const BUDGET_RETRY_SECONDS = 10;
/** This 500 only says that the pod is wrongly set up: nothing was done. */
const SEVERAL_BUDGETS = /more than one PodDisruptionBudget/;

function isOfBudget({ code, status }: ApiError): boolean {
  return code === 429 && (status.details?.causes?.some(({ reason }) => reason === 'DisruptionBudget') ?? false);
}

interface ListAnswer<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  /** Some kinds have null for an empty list. */
  readonly items: readonly T[] | null;
}

/** The deleted object while it is being deleted, a Status once it is gone. */
interface DeleteAnswer {
  readonly kind?: string;
  readonly details?: { readonly uid?: string };
  readonly metadata?: { readonly uid?: string };
}

function queryOf({ labelSelector, fieldSelector }: LiveSelection): URLSearchParams {
  const query = new URLSearchParams();
  // Parsed here too, so that an invalid selector never leaves the function.
  if (labelSelector !== undefined) query.set('labelSelector', formatLabelSelector(requirementsOf(labelSelector)));
  if (fieldSelector !== undefined) query.set('fieldSelector', fieldSelector);
  return query;
}

const deleteOptions = (options: object): object => ({ kind: 'DeleteOptions', apiVersion: 'v1', ...options });

/** Field by field, because the compiler accepts an object's whole metadata as a key, too. */
function reference({ apiVersion, kind }: Resource, { namespace, name }: ObjectKey) {
  return { apiVersion, kind, ...(namespace ? { namespace } : {}), name };
}
