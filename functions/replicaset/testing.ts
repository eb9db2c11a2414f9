import {
  type ApiTransport,
  ApiWriter,
  type Context,
  type KubernetesObject,
  type OwnerReference,
} from 'levelhook/function';
import { MemoryApiserver, testContext } from 'levelhook/testing/reconciler';
import { Event, Pod, ReplicaSet } from './types.ts';

// For this folder's tests.

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

/** An apiserver in memory, as requests of HTTP. */
export class MemoryCluster {
  readonly requests: Request[] = [];
  /** Answers in place of the apiserver, if it answers. */
  intercept: (request: Request) => Answer | undefined = () => undefined;
  readonly #apiserver: MemoryApiserver;

  constructor(...objects: KubernetesObject[]) {
    this.#apiserver = new MemoryApiserver({ objects });
  }

  all<T extends KubernetesObject>(kind: string): T[] {
    const resource = [Pod, ReplicaSet, Event].find((each) => each.kind === kind);
    return resource ? (this.#apiserver.objects<KubernetesObject>(resource) as T[]) : [];
  }

  /** The requests that change something, as `POST pods`. */
  get writes(): string[] {
    const writes = this.requests.filter(({ method }) => method !== 'GET');
    return writes.map(({ method, path }) => `${method} ${path.replace(/^.*\/test\/|\?.*$/g, '')}`);
  }

  context(signal: AbortSignal = new AbortController().signal): Context {
    const context = testContext({ apiserver: this.#apiserver, cached: [Pod, ReplicaSet], signal });
    return { ...context, api: new ApiWriter(this.#transport, { signal, deadlineMs: Date.now() + 15_000 }) };
  }

  readonly #transport: ApiTransport = async (request) => {
    this.requests.push(request);
    // As over a network: several requests are under way at a time.
    await new Promise((resolve) => setImmediate(resolve));
    return this.intercept(request) ?? this.#apiserver.direct(request);
  };
}

export function refusal(code: number, reason: string, causes: { reason: string }[] = []): Answer {
  return { status: code, body: JSON.stringify({ kind: 'Status', code, reason, message: reason, details: { causes } }) };
}
