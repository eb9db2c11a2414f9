import {
  type ApiTransport,
  ApiWriter,
  type CacheReader,
  type Context,
  controllerOf,
  type KubernetesObject,
  type Logger,
  matchesLabels,
  type OwnerReference,
} from 'levelhook/function';
import type { Pod, ReplicaSet } from './types.ts';

// For this folder's tests: an apiserver that knows as much as one ReplicaSet needs, and a cache that is never behind it.

type Answer = { status: number; body: string };
export type Request = Parameters<ApiTransport>[0];

export function replicaSet(spec: Partial<ReplicaSet['spec']> = {}, metadata: Partial<ReplicaSet['metadata']> = {}) {
  const labels = { app: 'web' };
  return {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    metadata: { name: 'web', namespace: 'test', uid: 'rs-uid', resourceVersion: '1', generation: 1, ...metadata },
    spec: { replicas: 0, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: {} }, ...spec },
    status: { replicas: 0 },
  } satisfies ReplicaSet as ReplicaSet;
}

export const ownedByWeb: OwnerReference = {
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  name: 'web',
  uid: 'rs-uid',
  controller: true,
  blockOwnerDeletion: true,
};

export function pod(name: string, parts: { metadata?: object; spec?: object; status?: object } = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: 'test',
      uid: `${name}-uid`,
      resourceVersion: '1',
      labels: { app: 'web' },
      ownerReferences: [ownedByWeb],
      ...parts.metadata,
    },
    spec: { ...parts.spec },
    status: { phase: 'Running', ...parts.status },
  };
}

export function readyFrom(lastTransitionTime: string | null) {
  return { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime }] };
}

export class MemoryCluster {
  readonly objects: KubernetesObject[];
  readonly requests: Request[] = [];
  /** Answers in place of the apiserver, if it answers. */
  intercept: (request: Request) => Answer | undefined = () => undefined;
  #counter = 0;

  constructor(...objects: KubernetesObject[]) {
    this.objects = objects;
  }

  all<T extends KubernetesObject>(kind: string): T[] {
    return this.objects.filter((object) => object.kind === kind) as T[];
  }

  /** The requests that change something, as `POST pods`. */
  get writes(): string[] {
    const writes = this.requests.filter(({ method }) => method !== 'GET');
    return writes.map(({ method, path }) => `${method} ${path.replace(/^.*\/test\/|\?.*$/g, '')}`);
  }

  context(signal: AbortSignal = new AbortController().signal): Context {
    const api = new ApiWriter(this.#transport, { signal, deadlineMs: Date.now() + 15_000 });
    return { api, cache: this.#cache, log: silent, signal };
  }

  readonly #cache: CacheReader = {
    get: async (resource, key) => structuredClone(this.#find(resource.kind, key.name)) as never,
    list: async (resource, { namespace, controlledBy, orphansIn, labelSelector } = {}) => {
      const items = this.all(resource.kind).filter(
        ({ metadata, ...object }) =>
          (namespace === undefined || metadata.namespace === namespace) &&
          (controlledBy === undefined || controllerOf({ metadata })?.uid === controlledBy) &&
          (orphansIn === undefined || (metadata.namespace === orphansIn && !controllerOf({ metadata }))) &&
          (labelSelector === undefined || matchesLabels(labelSelector as object, metadata.labels)) &&
          object.kind === resource.kind,
      );
      return { items: structuredClone(items) as never, version: '1' };
    },
  };

  readonly #transport: ApiTransport = async (request) => {
    this.requests.push(request);
    // As over a network: several requests are under way at a time.
    await new Promise((resolve) => setImmediate(resolve));
    return this.intercept(request) ?? this.#answer(request);
  };

  #answer({ method, path, body: text = '{}' }: Request): Answer {
    const [, plural = '', name = ''] = /\/(\w+)(?:\/([\w.-]+?))?(?:\/status)?(?:\?.*)?$/.exec(
      path.replace(/^.*\/test/, ''),
    ) ?? [undefined];
    const kind = { pods: 'Pod', replicasets: 'ReplicaSet', events: 'Event' }[plural] ?? plural;
    const body = JSON.parse(text) as KubernetesObject;
    if (method === 'POST') return ok(this.#create(body));
    const object = this.#find(kind, name);
    if (!object) return refusal(404, 'NotFound');
    if (method === 'DELETE') this.objects.splice(this.objects.indexOf(object), 1);
    if (method === 'PATCH') patchOwners(object, body);
    if (method === 'PUT') {
      if (body.metadata.resourceVersion !== object.metadata.resourceVersion) return refusal(409, 'Conflict');
      Object.assign(object, { status: (body as ReplicaSet).status });
    }
    if (method !== 'GET') object.metadata.resourceVersion = String(++this.#counter);
    return ok(object);
  }

  #create(object: KubernetesObject): KubernetesObject {
    const id = ++this.#counter;
    const { generateName = '' } = object.metadata;
    Object.assign(object.metadata, { name: `${generateName}${id}`, uid: `uid-${id}`, resourceVersion: String(id) });
    this.objects.push(object);
    return object;
  }

  #find(kind: string, name: string): KubernetesObject | undefined {
    return this.all(kind).find(({ metadata }) => metadata.name === name);
  }
}

export function refusal(code: number, reason: string, causes: { reason: string }[] = []): Answer {
  return { status: code, body: JSON.stringify({ kind: 'Status', code, reason, message: reason, details: { causes } }) };
}

function ok(object: KubernetesObject): Answer {
  return { status: 200, body: JSON.stringify(object) };
}

/** A strategic merge patch of the owners: by UID. */
function patchOwners(object: KubernetesObject, { metadata }: KubernetesObject): void {
  const given = metadata.ownerReferences as (OwnerReference & { $patch?: string })[];
  const rest = (object.metadata.ownerReferences ?? []).filter(({ uid }) => given.every((owner) => owner.uid !== uid));
  object.metadata.ownerReferences = [...rest, ...given.filter(({ $patch }) => $patch !== 'delete')];
}

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
