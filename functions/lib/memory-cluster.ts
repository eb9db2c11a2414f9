import {
  type ApiTransport,
  ApiWriter,
  type CacheReader,
  type Context,
  controllerOf,
  type KubernetesObject,
  type Logger,
  matchesLabels,
} from 'levelhook/function';
import { jsonPatched, mergePatched, ownersPatched } from './memory-patch.ts';

type Answer = { status: number; body: string };
export type Request = Parameters<ApiTransport>[0];

const KINDS: Readonly<Record<string, string>> = {
  pods: 'Pod',
  replicasets: 'ReplicaSet',
  deployments: 'Deployment',
  events: 'Event',
};

/**
 * For the controllers' tests: an apiserver of the namespace `test` that knows as much as they need, and a cache that is
 * never behind it.
 */
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
        ({ metadata }) =>
          (namespace === undefined || metadata.namespace === namespace) &&
          (controlledBy === undefined || controllerOf({ metadata })?.uid === controlledBy) &&
          (orphansIn === undefined || (metadata.namespace === orphansIn && !controllerOf({ metadata }))) &&
          (labelSelector === undefined || matchesLabels(labelSelector as object, metadata.labels)),
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

  #answer({ method, path, contentType, body: text = '{}' }: Request): Answer {
    const [, plural = '', name = '', subresource] =
      /\/(\w+)(?:\/([\w.-]+?))?(?:\/(status))?(?:\?.*)?$/.exec(path.replace(/^.*\/test/, '')) ?? [];
    const kind = KINDS[plural] ?? plural;
    const body = JSON.parse(text) as KubernetesObject;
    if (method === 'POST') return this.#create(kind, body);
    const object = this.#find(kind, name);
    if (!object) return refusal(404, 'NotFound');
    if (method === 'GET') return ok(object);
    if (method === 'DELETE') this.objects.splice(this.objects.indexOf(object), 1);
    if (method === 'PATCH') {
      const changed = patched(object, body, contentType);
      if (!changed) return refusal(422, 'Invalid');
      this.#store(object, changed, subresource);
    }
    if (method === 'PUT') {
      if (body.metadata.resourceVersion !== object.metadata.resourceVersion) return refusal(409, 'Conflict');
      this.#store(object, body, subresource);
    }
    return ok(object);
  }

  /** As the apiserver's strategies do: who writes the status leaves the spec alone, and the other way round. */
  #store(object: KubernetesObject, next: KubernetesObject, subresource: string | undefined): void {
    const before = object as Fields;
    const { metadata, spec, status } = next as Fields;
    const generation = object.metadata.generation ?? 0;
    const changed = !subresource && JSON.stringify(spec) !== JSON.stringify(before.spec);
    const resourceVersion = String(++this.#counter);
    Object.assign(object, {
      metadata: { ...metadata, generation: changed ? generation + 1 : generation, resourceVersion },
      ...(subresource ? { status } : { spec }),
    });
  }

  #create(kind: string, object: KubernetesObject): Answer {
    const id = ++this.#counter;
    const { generateName = '', name = `${generateName}${id}` } = object.metadata as Partial<
      KubernetesObject['metadata']
    >;
    if (this.#find(kind, name)) return refusal(409, 'AlreadyExists');
    // One second after the other, so that the order of creation is known.
    const creationTimestamp = new Date(Date.UTC(2026, 0, 1, 0, 0, id)).toISOString();
    const resourceVersion = String(id);
    Object.assign(object.metadata, { name, uid: `uid-${id}`, resourceVersion, generation: 1, creationTimestamp });
    if (kind === 'ReplicaSet') Object.assign(object, { status: { replicas: 0 } });
    this.objects.push(object);
    return ok(object);
  }

  #find(kind: string, name: string): KubernetesObject | undefined {
    return this.all(kind).find(({ metadata }) => metadata.name === name);
  }
}

type Fields = KubernetesObject & { spec?: unknown; status?: unknown };

export function refusal(code: number, reason: string, causes: { reason: string }[] = []): Answer {
  return { status: code, body: JSON.stringify({ kind: 'Status', code, reason, message: reason, details: { causes } }) };
}

function ok(object: KubernetesObject): Answer {
  return { status: 200, body: JSON.stringify(object) };
}

/** Undefined when a test in the patch says that it does not apply. */
function patched(
  object: KubernetesObject,
  patch: unknown,
  contentType: string | undefined,
): KubernetesObject | undefined {
  if (contentType === 'application/json-patch+json') return jsonPatched(object, patch);
  const { uid } = (patch as { metadata: Partial<KubernetesObject['metadata']> }).metadata;
  if (uid !== undefined && uid !== object.metadata.uid) return undefined;
  if (contentType === 'application/merge-patch+json') return mergePatched(object, patch);
  return ownersPatched(object, patch as KubernetesObject);
}

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
