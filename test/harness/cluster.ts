import { setTimeout as sleep } from 'node:timers/promises';
import {
  ApiError,
  type KubernetesObject,
  type ObjectKey,
  orUndefined,
  type Resource,
  resource,
  resourcePath,
} from '../../src/core/index.ts';
import { ApiClient } from '../../src/ground/apiserver/api-client.ts';
import { type Credentials, loadCredentials } from '../../src/ground/apiserver/credentials.ts';
import type { LeaseSpec } from '../../src/gateway/election/lease.ts';

export interface Pod extends KubernetesObject {
  status?: { phase?: string };
}

export interface ReplicaSet extends KubernetesObject {
  spec: { replicas: number; template: { metadata: { labels: Record<string, string> }; spec: object } };
  status?: { replicas?: number; observedGeneration?: number };
}

export const pods = resource<Pod>('v1', 'Pod');
export const replicaSets = resource<ReplicaSet>('apps/v1', 'ReplicaSet');
export const leases = resource<KubernetesObject & { spec?: LeaseSpec }>('coordination.k8s.io/v1', 'Lease');
export const configMaps = resource<KubernetesObject & { data?: Record<string, string> }>('v1', 'ConfigMap');
const namespaces = resource('v1', 'Namespace', { namespaced: false });

export interface ListOf<T> {
  items: T[];
  metadata: { resourceVersion: string };
}

/** The cluster as a test sees it: past our cache, straight at the apiserver. */
export class Cluster {
  readonly client: ApiClient;
  readonly #credentials: Credentials;

  private constructor(credentials: Credentials) {
    this.#credentials = credentials;
    this.client = new ApiClient(credentials);
  }

  static async connect(kubeconfig: string): Promise<Cluster> {
    return new Cluster(await loadCredentials(kubeconfig));
  }

  close(): Promise<void> {
    return this.#credentials.close();
  }

  /** Creates a namespace; with kube-controller-manager its default ServiceAccount follows. */
  async createNamespace(name: string): Promise<void> {
    await this.create(namespaces, { metadata: { name } });
  }

  deleteNamespace(name: string): Promise<void> {
    return this.delete(namespaces, { name });
  }

  async list<T extends KubernetesObject>(
    of: Resource<T>,
    namespace?: string,
    labelSelector?: string,
  ): Promise<ListOf<T>> {
    return this.client.json<ListOf<T>>({ path: resourcePath(of, { namespace }), query: { labelSelector } });
  }

  get<T extends KubernetesObject>(of: Resource<T>, key: ObjectKey): Promise<T | undefined> {
    return orUndefined(this.client.json<T>({ path: resourcePath(of, key) }));
  }

  /** Waits for the ServiceAccount of a new namespace, without which the apiserver refuses pods. */
  async create<T extends KubernetesObject>(
    of: Resource<T>,
    object: { metadata: Readonly<Record<string, unknown>>; [field: string]: unknown },
  ): Promise<T> {
    const { apiVersion, kind } = of;
    const path = resourcePath(of, { namespace: object.metadata['namespace'] as string | undefined });
    for (;;) {
      try {
        return await this.client.json<T>({ method: 'POST', path, body: { apiVersion, kind, ...object } });
      } catch (error) {
        if (!(error instanceof ApiError && error.message.includes('serviceaccount "default" not found'))) throw error;
      }
      await sleep(50);
    }
  }

  patch<T extends KubernetesObject>(of: Resource<T>, key: ObjectKey, body: object): Promise<T> {
    const contentType = 'application/merge-patch+json';
    return this.client.json<T>({ method: 'PATCH', path: resourcePath(of, key), body, contentType });
  }

  async delete(of: Resource, key: ObjectKey): Promise<void> {
    // In the background is kubectl's default and not the API's: without it a ReplicaSet's pods would stay.
    const body = { propagationPolicy: 'Background', gracePeriodSeconds: 0 };
    await this.client.json({ method: 'DELETE', path: resourcePath(of, key), body });
  }
}

/** A ReplicaSet of pause pods, which a control plane without nodes keeps Pending. */
export function replicaSet(key: { namespace: string; name: string }, replicas: number) {
  const labels = { app: key.name };
  return {
    metadata: key,
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'pause' }] } },
    },
  };
}
