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
import { type ApiRun, type WriteRequest, ApiRequests, type UnansweredWrite } from './api-requests.ts';
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
 * Reads and writes the apiserver within one run: raw JSON, so that fields which the author's types do not know survive.
 * Each acknowledged write is remembered for the outcome; the key's next run sees it in the cache. Nothing is sent after
 * the run's deadline or its end, and the apiserver is told to give up at the deadline too (`?timeout=`).
 *
 * Every method throws ApiError for an answer other than 2xx, DeadlineError when the run is over, and the transport's
 * own error when there was no answer. After a 429 with Retry-After the request is sent again, if the time of the run
 * allows it.
 */
export class ApiWriter {
  readonly #requests: ApiRequests;
  readonly #writes: Write[] = [];

  /** @param namespace the only one to which it writes. Default: it writes anywhere. */
  constructor(transport: ApiTransport, run: ApiRun, namespace?: string) {
    this.#requests = new ApiRequests(transport, run, namespace);
  }

  /** The writes that the apiserver has acknowledged so far. */
  get writes(): readonly Write[] {
    return this.#writes;
  }

  /**
   * Writes that may have taken effect although no answer came, even if the author's code caught the error:
   * no answer came, or one from which that cannot be told. With one of a kind that is cached, the outcome of the run is
   * unknown.
   */
  get unanswered(): readonly UnansweredWrite[] {
    return this.#requests.unanswered;
  }

  /**
   * The outcome of the run waits for this work, a second at most, whether it succeeds or not. For what is worth doing
   * at the end of a run and not worth failing for: an Event. With a write that is not awaited the outcome is unknown.
   */
  waitUntil(work: Promise<unknown>): void {
    this.#requests.waitUntil(work);
  }

  /** Called by the runtime when the run is over: a write that is still under way then is `unanswered`. */
  async finish(): Promise<void> {
    await this.#requests.finish(LAST_WORK_MS);
  }

  /**
   * A live read, past the cache: for a decision that must not be made on old data. Undefined when it does not exist.
   */
  async get<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    return orUndefined(this.getPath<T>(resourcePath(resource, key)));
  }

  /**
   * The JSON answer to a GET of any path: `/version`, `/apis`. The apiserver decides who may read it.
   * @param path with its query. Names from outside do not belong into it unencoded
   * @param accept media types of the answer, all of them JSON. Default `application/json`
   */
  async getPath<T>(path: string, accept?: string): Promise<T> {
    const request = { method: 'GET', path, ...(accept === undefined ? {} : { accept }) } as const;
    return (await this.#requests.send(NO_KIND, request)) as T;
  }

  /**
   * A live list, past the cache, by pages: a snapshot at `version`, in the apiserver's order. When it changes so long
   * that it cannot be continued it is read anew in one piece, as client-go's pager does.
   * @throws SelectorError for an invalid label selector; then nothing was sent
   */
  list<T extends KubernetesObject>(resource: Resource<T>, options: LiveListOptions = {}): Promise<ListResult<T>> {
    return this.#list<T>(resource, options);
  }

  /**
   * As `list`, but the objects come without spec, status and data: the apiserver leaves them out. For counting objects
   * and looking at their labels, owners and finalizers. A server that cannot do so sends whole objects.
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
    // The items of a built-in kind's list do not say what they are.
    const items = pages.flatMap(({ items: of }) => of ?? []).map((item) => ({ ...item, apiVersion, kind }));
    return { items, version: pages[0]?.metadata.resourceVersion ?? '0' };
  }

  /** @throws ApiError 409 (`AlreadyExists`) when there is one of that name */
  async create<T extends KubernetesObject>(resource: Resource<T>, object: NewObject<T>): Promise<T> {
    const { apiVersion, kind } = resource;
    const path = resourcePath(resource, { namespace: object.metadata.namespace });
    return this.#write(resource, { method: 'POST', path, body: { apiVersion, kind, ...object } });
  }

  /**
   * PUT: the whole object as it was read, changed.
   * @param subresource the part that is written. Default: all but the status. `finalize` is the `spec.finalizers` of a
   *   Namespace
   * @throws ApiError 409 (`Conflict`) when it has changed since: run again, or read it live and decide anew
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

  /** With a `metadata.resourceVersion` in a merge patch, refused with 409 when the object has changed since. */
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
   * Server-side apply: the fields in `object` become this manager's, and those that it had and has no more go. Creates
   * the object when there is none.
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
    // YAML is the apiserver's name for it; JSON is YAML.
    const contentType = 'application/apply-patch+yaml';
    return this.#write(resource, { method: 'PATCH', path, body: { apiVersion, kind, ...object }, contentType });
  }

  /**
   * How many replicas it has and should have, of any kind with a scale subresource. Undefined when it does not exist.
   */
  async getScale(resource: Resource, key: ObjectKey): Promise<Scale | undefined> {
    return orUndefined(this.getPath<Scale>(resourcePath(resource, { ...key, subresource: 'scale' })));
  }

  /**
   * Asks for so many replicas, whatever the kind calls the field.
   * @param options `resourceVersion` of the Scale that was read: refused with 409 when the object has changed since.
   */
  async setScale(
    resource: Resource,
    key: ObjectKey,
    replicas: number,
    options: { readonly resourceVersion?: string } = {},
  ): Promise<Scale> {
    const body = { metadata: options, spec: { replicas } };
    // A Scale has the UID and the version of the object that it is of.
    return this.#write(resource as Resource<Scale>, {
      method: 'PATCH',
      path: resourcePath(resource, { ...key, subresource: 'scale' }),
      body,
      contentType: 'application/merge-patch+json',
    });
  }

  /** @throws ApiError 404 when there is none, 409 when a precondition is not met */
  async delete(resource: Resource, key: ObjectKey, options: DeleteOptions = {}): Promise<void> {
    const request = { method: 'DELETE', path: resourcePath(resource, key), body: deleteOptions(options) } as const;
    const answer = (await this.#requests.send(resource, request)) as DeleteAnswer;
    if (answer.kind === 'Status') this.#recordDelete(resource, key, answer.details?.uid, true);
    else this.#recordDelete(resource, key, answer.metadata?.uid);
  }

  /**
   * Deletes all selected objects of a kind, 500 in a request, and returns their number. The apiserver's answer lists
   * them, so the key's next run sees each of them deleted or being deleted. A request is no transaction: an object that
   * is created meanwhile may stay. After an error some objects may be deleted, so the outcome of the run is unknown.
   * @throws SelectorError for an invalid label selector; then nothing was sent
   */
  async deleteCollection(resource: Resource, options: DeleteCollectionOptions): Promise<number> {
    const { namespace, labelSelector, fieldSelector, ...rest } = options;
    const query = queryOf({
      ...(labelSelector === undefined ? {} : { labelSelector }),
      ...(fieldSelector === undefined ? {} : { fieldSelector }),
    });
    query.set('limit', String(PAGE_SIZE));
    // One object's refusal comes with the others' deletes: only these were refused before the first.
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
   * Evicts this very pod (`policy/v1`): deletes it if its PodDisruptionBudget allows that.
   * @throws DisruptionBudgetError when the budget does not allow it now: let it be thrown, and the key is tried again
   *   after the time that it names; ApiError 404 when the pod is gone, 409 when it is another one of its name
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
      // The answer does not tell whom it was about.
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
    // Trap: when an update takes away what delayed a delete, the answer carries the version of before the update.
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

const PAGE_SIZE = 500;
const LAST_WORK_MS = 1000;
/** Whole objects from a server that cannot leave anything out. */
const METADATA = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';
/** Of a read: only writes are recorded by kind. */
const NO_KIND = { apiVersion: '', kind: '' };
/** No call: it would be in the bundle of functions that never evict. */
const POD: Resource = { apiVersion: 'v1', kind: 'Pod', plural: 'pods', namespaced: true };

/**
 * What the apiserver names where it names a time, since a budget's time is not known
 * (registry/core/pod/storage/eviction.go).
 */
const BUDGET_RETRY_SECONDS = 10;
/** A 500 that says no more than that the pod is wrongly set up: nothing was done. */
const SEVERAL_BUDGETS = /more than one PodDisruptionBudget/;

function isOfBudget({ code, status }: ApiError): boolean {
  return code === 429 && (status.details?.causes?.some(({ reason }) => reason === 'DisruptionBudget') ?? false);
}

interface ListAnswer<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  /** Null for none, of some kinds. */
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
  // Read here too, so that a wrong one never leaves the function.
  if (labelSelector !== undefined) query.set('labelSelector', formatLabelSelector(requirementsOf(labelSelector)));
  if (fieldSelector !== undefined) query.set('fieldSelector', fieldSelector);
  return query;
}

const deleteOptions = (options: object): object => ({ kind: 'DeleteOptions', apiVersion: 'v1', ...options });

/** Part by part: an object's metadata is a key too, as far as the compiler can tell. */
function reference({ apiVersion, kind }: Resource, { namespace, name }: ObjectKey) {
  return { apiVersion, kind, ...(namespace ? { namespace } : {}), name };
}
