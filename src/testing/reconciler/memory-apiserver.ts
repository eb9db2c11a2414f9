import {
  formatJson,
  fulfils,
  isName,
  isResourceVersion,
  type KubernetesObject,
  type ObjectKey,
  parseFieldSelector,
  parseLabelSelector,
  type Resource,
  SelectorError,
  shown,
} from '../../core/index.ts';
import { checkFields } from '../../contract/selectable-fields.ts';
import { isSelected } from '../../contract/selection.ts';
import type { ApiTransport } from '../../function/api-transport.ts';
import { fullStatus } from './built-in-status.ts';
import { type CustomResourceDefinition, Definitions } from './definitions.ts';
import { memoryDiscovery } from './memory-discovery.ts';
import { FieldOwners } from './field-owners.ts';
import { isJson, isSame, type Json } from './json.ts';
import { jsonPatch, mergePatch, strategicMergePatch } from './patches.ts';
import { answerOf, FakeApiError } from './fake-api-error.ts';
import { APPLY, type ParsedRequest, parseRequest } from './request.ts';
import { Resources } from './resources.ts';
import {
  decoded,
  type StoreDeleteOptions,
  finalizersFor,
  graceSeconds,
  isGone,
  changesNothing,
  overwritten,
  type StoredObject,
  updated,
} from './stored-object.ts';
import { TestApiserver } from './test-apiserver.ts';

interface Named {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Partial<KubernetesObject['metadata']>;
}

/**
 * An object of a test: recorded, or written by hand. Only its name is required; the apiserver fills in its own fields.
 */
export type GivenObject = Named | (Named & Readonly<Record<string, unknown>>);

export interface MemoryApiserverOptions {
  /** The objects at the start. Default: none. */
  readonly objects?: readonly GivenObject[];
  /**
   * The definitions of your own kinds, such as those that `levelhook crds` writes (`readDefinitions`): plural, scope,
   * status subresource and defaults are theirs. Default: none.
   */
  readonly definitions?: readonly CustomResourceDefinition[];
  /** Your own kinds without a definition whose plural is not the kind with an `s`, or that are cluster-scoped. */
  readonly resources?: readonly Resource[];
  /**
   * Your own kinds without a definition and without a status subresource: their status is a field like any other.
   * Default: none.
   */
  readonly withoutStatus?: readonly Resource[];
  /** The clock for timestamps, in milliseconds since the epoch. Default `Date.now`. */
  readonly now?: () => number;
}

/**
 * An apiserver in memory, for tests of a reconciler that take milliseconds: the verbs of a function, with resource
 * versions and their conflicts, generations, finalizers, graceful deletion of pods, the status, scale and finalize
 * subresources, merge, JSON and strategic patches, server-side apply with its conflicts, paged lists by label and
 * field, and discovery of the kinds that it knows.
 *
 * It is no cluster: nothing is validated, no built-in kind is defaulted, an empty map or list outside of the metadata
 * is stored, and only your controller runs (there is no garbage collector, so dependents of a deleted object stay).
 * Admission accepts all writes, a Namespace has only the finalizers that a test gives it, and every user has all
 * rights. Custom resources' lists are atomic in an apply. Test such behaviour on a real apiserver (`RealApiserver`).
 */
export class MemoryApiserver extends TestApiserver {
  readonly #options: MemoryApiserverOptions;
  readonly #definitions: Definitions;
  readonly #resources: Resources;
  readonly #objects = new Map<
    string,
    { readonly resource: Resource; object: StoredObject; readonly owners: FieldOwners }
  >();
  /** A bigint, because a version has 64 bits. */
  #version = 0n;

  constructor(options: MemoryApiserverOptions = {}) {
    super();
    this.#options = options;
    this.#definitions = new Definitions(options.definitions ?? []);
    this.#resources = new Resources([...this.#definitions.resources(), ...(options.resources ?? [])]);
    for (const object of options.objects ?? []) this.put(object);
  }

  /** Copies of the objects of a kind, in the order of namespace and name. */
  objects<T extends KubernetesObject>(resource: Resource<T>): T[] {
    return structuredClone(this.#of(resource)) as unknown[] as T[];
  }

  /** A copy of one object. */
  object<T extends KubernetesObject>(resource: Resource<T>, key: ObjectKey): T | undefined {
    const found = this.#objects.get(idOf(resource, key))?.object;
    return structuredClone(found) as unknown as T | undefined;
  }

  /**
   * A write by another client: creates or replaces the whole object, including its status. It is not among the
   * `writes`. The object gets a new version, and its generation counts a change of its spec. A version or a generation
   * in the given object is kept instead, so that a test can refer to it.
   */
  put(given: GivenObject): void {
    const object = decoded(structuredClone(given) as unknown as StoredObject);
    const resource = this.#resources.ofObject(object);
    const old = this.#objects.get(idOf(resource, object.metadata))?.object;
    const next = overwritten(old, object, this.#newMetadata(resource, object));
    const said = object.metadata.resourceVersion;
    // A version equal to the stored one comes from a read, so it is replaced.
    const ownVersion = said === old?.metadata.resourceVersion || !isResourceVersion(said) ? 0n : BigInt(said);
    this.#version += 1n;
    if (ownVersion > this.#version) this.#version = ownVersion;
    next.metadata.resourceVersion = String(ownVersion || this.#version);
    const status = fullStatus(resource, object.status);
    this.#store(
      resource,
      this.#definitions.withDefaults(resource, { ...next, ...(status === undefined ? {} : { status }) }),
    );
  }

  /** A delete by another client: at once, despite finalizers. */
  remove(resource: Resource, key: ObjectKey): void {
    this.#version += 1n;
    this.#objects.delete(idOf(resource, key));
  }

  readonly direct: ApiTransport = async (sent) => {
    try {
      const request = parseRequest(sent);
      const [status, body] = this.#serve(request);
      return { status, body: formatJson(body) };
    } catch (error) {
      if (error instanceof FakeApiError) return answerOf(error.failure);
      if (error instanceof SelectorError) return answerOf({ code: 400, message: error.message });
      throw error;
    }
  };

  #serve(request: ParsedRequest): [status: number, body: object] {
    const { verb, apiVersion, resource: plural, namespace, name = '', subresource } = request;
    const resource = this.#resources.guess(apiVersion, plural, namespace !== undefined);
    const key = namespace === undefined ? { name } : { namespace, name };
    if (apiVersion === '') return [200, memoryDiscovery(plural, this.#resources.all())];
    if (verb === 'list') return [200, this.#list(resource, request)];
    if (verb === 'deletecollection') return [200, this.#deleteAll(resource, request)];
    if (subresource === 'eviction') {
      const { deleteOptions = {} } = request.body as { deleteOptions?: StoreDeleteOptions };
      this.#delete(resource, this.#existing(resource, key), deleteOptions);
      return [201, { kind: 'Status', apiVersion: 'v1', status: 'Success' }];
    }
    if (verb === 'create') return [201, this.#create(request)];
    if (verb === 'apply' && !this.#objects.has(idOf(resource, key))) return [201, this.#create(request)];
    const found = this.#existing(resource, key);
    if (verb === 'get') return [200, subresource === 'scale' ? scaleOf(found) : found];
    if (verb === 'delete') return [200, this.#delete(resource, found, request.body ?? {})];
    if (subresource === 'scale') return [200, scaleOf(this.#scale(resource, found, request))];
    return [200, this.#update(resource, found, request)];
  }

  #existing(resource: Resource, key: ObjectKey): StoredObject {
    const found = this.#objects.get(idOf(resource, key))?.object;
    if (!found) throw new FakeApiError(404, `${qualified(resource)} "${key.name}" not found`);
    return found;
  }

  #create({ body, verb, namespace, query, subresource }: ParsedRequest): StoredObject {
    const given = decoded(structuredClone(body) as StoredObject);
    const metadata = { ...given.metadata, ...(namespace === undefined ? {} : { namespace }) };
    if (metadata.resourceVersion)
      throw new FakeApiError(
        verb === 'apply' ? 409 : 400,
        'resourceVersion should not be set on objects to be created',
      );
    const resource = this.#resources.ofObject({ ...given, metadata });
    if (subresource) throw new FakeApiError(404, `${qualified(resource)} "${metadata.name}" not found`);
    if (!metadata.name && !metadata.generateName) {
      throw new FakeApiError(422, 'metadata.name: Required value: name or generateName is required');
    }
    this.#version += 1n;
    metadata.name ||= `${metadata.generateName}${this.#version.toString(36).padStart(5, '0')}`;
    if (!isName(metadata.name)) {
      throw new FakeApiError(422, `metadata.name: Invalid value: ${shown(metadata.name)}: must be a part of a path`);
    }
    if (this.#objects.has(idOf(resource, metadata))) {
      throw new FakeApiError(409, `${qualified(resource)} "${metadata.name}" already exists`, {
        reason: 'AlreadyExists',
      });
    }
    const { status, ...rest } = given;
    const kept = this.#hasStatus(resource) || status === undefined ? {} : { status };
    const fixed = { ...metadata, ...this.#newMetadata(resource, given), resourceVersion: String(this.#version) };
    const told = { ...rest, ...kept, metadata: fixed } as StoredObject;
    const initial = fullStatus(resource, told.status);
    const whole: StoredObject = { ...told, ...(initial === undefined ? {} : { status: initial }) };
    const object = this.#definitions.withDefaults(resource, whole);
    const owners = this.#store(resource, object);
    if (verb === 'apply') {
      owners.apply({}, given, { manager: applierOf(query, subresource), force: true });
    } else owners.changed({}, told, managerOf(query));
    return object;
  }

  #update(resource: Resource, old: StoredObject, request: ParsedRequest): StoredObject {
    const { verb, subresource, query, contentType } = request;
    const owners = this.#objects.get(idOf(resource, old.metadata))?.owners ?? new FieldOwners(false);
    const ownersBefore = String(owners);
    const given = decoded(this.#given(resource, old, request, owners));
    const { uid, resourceVersion } = given.metadata;
    if (uid !== undefined && uid !== old.metadata.uid) {
      if (verb === 'update')
        throw new FakeApiError(
          409,
          `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${old.metadata.uid}`,
        );
      throw new FakeApiError(422, 'metadata.uid: Invalid value: field is immutable');
    }
    if (verb === 'update' && resourceVersion === undefined && this.#resources.needsVersion(resource)) {
      throw new FakeApiError(422, 'metadata.resourceVersion: Invalid value: 0: must be specified for an update');
    }
    if (resourceVersion !== undefined && resourceVersion !== old.metadata.resourceVersion) {
      throw new FakeApiError(
        409,
        `Operation cannot be fulfilled on ${qualified(resource)} "${old.metadata.name}": the object has been modified; please apply your changes to the latest version and try again`,
      );
    }
    const isBuiltIn = this.#resources.isBuiltIn(resource);
    const hasStatus = this.#hasStatus(resource);
    const written = updated(old, given, { resource, hasStatus, isBuiltIn }, subresource);
    const next = this.#definitions.withDefaults(resource, written);
    if (changesNothing(old, next, isBuiltIn) && String(owners) === ownersBefore) return old;
    if (contentType !== APPLY) owners.changed(old, next, managerOf(query));
    return this.#replace(resource, next);
  }

  #given(
    resource: Resource,
    old: StoredObject,
    { verb, body, contentType, query, subresource }: ParsedRequest,
    owners: FieldOwners,
  ): StoredObject {
    if (verb === 'update') return structuredClone(body) as StoredObject;
    if (contentType === APPLY) {
      const options = { manager: applierOf(query, subresource), force: query.get('force') === 'true' };
      return owners.apply(old, decoded(body as StoredObject), options) as StoredObject;
    }
    switch (contentType) {
      case 'application/merge-patch+json':
        return mergePatch(structuredClone(old), body) as StoredObject;
      case 'application/json-patch+json':
        return jsonPatch(old, body) as StoredObject;
      case 'application/strategic-merge-patch+json':
        if (this.#resources.isBuiltIn(resource))
          return strategicMergePatch(structuredClone(old), body as Json) as StoredObject;
    }
    throw new FakeApiError(
      415,
      `the body of the request was in an unknown format: ${contentType} is not for ${qualified(resource)}`,
    );
  }

  #scale(resource: Resource, old: StoredObject, request: ParsedRequest): StoredObject {
    const { body, contentType } = request;
    const given = contentType === 'application/json' ? body : mergePatch(structuredClone(scaleOf(old)), body);
    const { metadata, spec } = given as { metadata: { resourceVersion?: string }; spec: { replicas?: number } };
    const { resourceVersion = old.metadata.resourceVersion } = metadata;
    const scaled = {
      ...old,
      metadata: { ...old.metadata, resourceVersion },
      spec: { ...(old.spec as object), replicas: spec.replicas ?? 0 },
    };
    const { subresource: _, ...main } = request;
    return this.#update(resource, old, { ...main, verb: 'update', body: scaled });
  }

  /**
   * Stores the object with a new version, or removes it when nothing keeps it any more. The answer for a removed object
   * has its old version.
   */
  #replace(resource: Resource, object: StoredObject): StoredObject {
    this.#version += 1n;
    if (isGone(object)) {
      this.#objects.delete(idOf(resource, object.metadata));
      return object;
    }
    object.metadata = { ...object.metadata, resourceVersion: String(this.#version) };
    this.#store(resource, object);
    return object;
  }

  #delete(resource: Resource, old: StoredObject, options: StoreDeleteOptions): object {
    const { uid, resourceVersion } = options.preconditions ?? {};
    const { metadata } = old;
    if (
      (uid !== undefined && uid !== metadata.uid) ||
      (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion)
    ) {
      throw new FakeApiError(409, `Precondition failed: the ${resource.kind} "${metadata.name}" is another one by now`);
    }
    const finalizers = [...finalizersFor(old, options)];
    const grace = graceSeconds(resource, old, options);
    const deletingSince = metadata.deletionTimestamp;
    const next: StoredObject = {
      ...old,
      metadata: {
        ...metadata,
        ...(finalizers.length > 0 || metadata.finalizers ? { finalizers } : {}),
        deletionTimestamp: deletingSince ?? timestamp(this.#now() + grace * 1000),
        deletionGracePeriodSeconds: Math.min(metadata.deletionGracePeriodSeconds ?? grace, grace),
        ...(metadata.generation === undefined || deletingSince ? {} : { generation: metadata.generation + 1 }),
      },
    };
    if (isSame(old, next)) return old;
    const answer = this.#replace(resource, next);
    if (!isGone(next)) return answer;
    const details = { name: metadata.name, kind: resource.plural, uid: metadata.uid };
    return { kind: 'Status', apiVersion: 'v1', status: 'Success', details };
  }

  #deleteAll(resource: Resource, request: ParsedRequest): object {
    const items = this.#selected(resource, request);
    for (const item of items) this.#delete(resource, item, request.body ?? {});
    return { ...listOf(resource), metadata: { resourceVersion: String(this.#version) }, items };
  }

  #list(resource: Resource, request: ParsedRequest): object {
    const { query, metadataOnly } = request;
    const all = this.#selected(resource, request);
    const limit = Number(query.get('limit') ?? 0) || all.length;
    // 0 is no version.
    const current = String(this.#version || 1n);
    const [version = current, from = '0'] = query.get('continue')?.split('.') ?? [];
    // There is no history, so a list that has changed between its pages cannot be continued.
    if (version !== current) throw new FakeApiError(410, 'The provided continue parameter is too old');
    const next = Number(from) + limit;
    const isBuiltIn = this.#resources.isBuiltIn(resource);
    const items = all.slice(Number(from), next).map(({ apiVersion, kind, ...item }) => {
      if (metadataOnly) return { ...PARTIAL, metadata: item.metadata };
      // The apiserver's typed lists omit the kind of their items.
      return isBuiltIn ? item : { apiVersion, kind, ...item };
    });
    const metadata = {
      resourceVersion: version,
      ...(next < all.length ? { continue: `${version}.${next}` } : {}),
    };
    return { ...listOf(resource), metadata, items };
  }

  #selected(resource: Resource, { namespace, query }: ParsedRequest): StoredObject[] {
    const labels = parseLabelSelector(query.get('labelSelector') ?? '');
    const fields = parseFieldSelector(query.get('fieldSelector') ?? '');
    // There are no definitions, so each field of a custom resource is one of its `selectableFields`.
    checkFields(resource, fields, this.#resources.isBuiltIn(resource) ? [] : fields.map(({ field }) => field));
    return this.#of(resource).filter(
      (object) =>
        fulfils(labels, object.metadata.labels) &&
        isSelected(object, { fields, ...(namespace === undefined ? {} : { namespace }) }),
    );
  }

  #of({ apiVersion, plural }: Resource): StoredObject[] {
    const found = [...this.#objects.values()].filter(
      ({ resource }) => resource.apiVersion === apiVersion && resource.plural === plural,
    );
    const order = ({ metadata: { namespace = '', name } }: StoredObject): string => `${namespace}/${name}`;
    return found.map(({ object }) => object).toSorted((a, b) => (order(a) < order(b) ? -1 : 1));
  }

  #store(resource: Resource, object: StoredObject): FieldOwners {
    const id = idOf(resource, object.metadata);
    const owners = this.#objects.get(id)?.owners ?? new FieldOwners(this.#resources.isBuiltIn(resource));
    this.#objects.set(id, { resource, object, owners });
    return owners;
  }

  #newMetadata(resource: Resource, object: StoredObject): Partial<StoredObject['metadata']> {
    // As unique as a real UID, because a reconciler's module may remember objects by it, as an EventRecorder does.
    const uid = crypto.randomUUID();
    // A ConfigMap has no generation; a custom resource always has one.
    const counts = isJson(object.spec) || !this.#resources.isBuiltIn(resource);
    return { uid, creationTimestamp: timestamp(this.#now()), ...(counts ? { generation: 1 } : {}) };
  }

  #hasStatus(resource: Resource): boolean {
    const { apiVersion, plural } = resource;
    const defined = this.#definitions.hasStatus(resource);
    if (defined !== undefined) return defined;
    const without = this.#options.withoutStatus ?? [];
    return !without.some((each) => each.apiVersion === apiVersion && each.plural === plural);
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }
}

const idOf = ({ apiVersion, plural }: Resource, { namespace = '', name }: ObjectKey): string =>
  `${apiVersion}/${plural}/${namespace}/${name}`;
const managerOf = (query: URLSearchParams): string => query.get('fieldManager') ?? 'levelhook-function';
const applierOf = (query: URLSearchParams, subresource: string | undefined): string =>
  `${query.get('fieldManager') ?? ''}${subresource ? ` with subresource ${subresource}` : ''}`;
const PARTIAL = { apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata' };
const timestamp = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
const listOf = ({ apiVersion, kind }: Resource) => ({ apiVersion, kind: `${kind}List` });

/** `replicasets.apps`, as errors name a resource. */
function qualified({ apiVersion, plural }: Resource): string {
  return apiVersion.includes('/') ? `${plural}.${apiVersion.split('/', 1)[0]}` : plural;
}

function scaleOf({ metadata, spec, status }: StoredObject): object {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metadata;
  return {
    apiVersion: 'autoscaling/v1',
    kind: 'Scale',
    metadata: { name, ...(namespace ? { namespace } : {}), uid, resourceVersion, creationTimestamp },
    spec: { replicas: (spec as { replicas?: number } | undefined)?.replicas ?? 0 },
    status: { replicas: (status as { replicas?: number } | undefined)?.replicas ?? 0 },
  };
}
