import { type KubernetesObject, ownValue, orUndefined, resource, resourcePath } from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { decodeCertificates, encodeCertificates, type StoredCertificates } from './stored-certificates.ts';

export const SECRETS = resource<Secret>('v1', 'Secret');

/** On the Secret: the leader begins a rotation of the authority, and takes the annotation away. Any value. */
export const ROTATE_ANNOTATION = 'levelhook.dev/rotate';

type Secret = KubernetesObject & { readonly data?: Readonly<Record<string, string>> };

export interface SecretKey {
  readonly namespace: string;
  readonly name: string;
}

/** The Secret as it was read. */
export interface FoundSecret {
  readonly object: Secret;
  /** Undefined: it has nothing that can be gone on with. */
  readonly stored: StoredCertificates | undefined;
  readonly rotate: boolean;
}

/**
 * The one Secret that the gateways of a deployment share. Each write is conditional on the resource version that was
 * read. So if two gateways write after the same read, one of them fails.
 */
export class CertificateSecret {
  readonly #client: Pick<ApiClient, 'json'>;
  readonly #key: SecretKey;

  constructor(client: Pick<ApiClient, 'json'>, key: SecretKey) {
    this.#client = client;
    this.#key = key;
  }

  /** Undefined when there is none. */
  async read(signal?: AbortSignal): Promise<FoundSecret | undefined> {
    const object = await orUndefined(this.#client.json<Secret>({ path: resourcePath(SECRETS, this.#key), signal }));
    return object && found(object);
  }

  /** @param rotate with the annotation. @throws ApiError 409 when there is one. */
  async create(stored: StoredCertificates, rotate: boolean, signal?: AbortSignal): Promise<FoundSecret> {
    const { namespace, name } = this.#key;
    const annotations = rotate ? { annotations: { [ROTATE_ANNOTATION]: 'deleted' } } : {};
    const body = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name, ...annotations },
      type: 'kubernetes.io/tls',
      data: encodeCertificates(stored),
    };
    const path = resourcePath(SECRETS, { namespace });
    return found(await this.#client.json<Secret>({ method: 'POST', path, body, signal }));
  }

  /**
   * @param begun a rotation, which takes the annotation away.
   * @throws ApiError 409 when it is no longer as it was read.
   */
  async replace(
    { object }: FoundSecret,
    stored: StoredCertificates,
    { begun, signal }: { readonly begun: boolean; readonly signal?: AbortSignal | undefined },
  ): Promise<FoundSecret> {
    const { annotations = {}, ...metadata } = object.metadata;
    const { [ROTATE_ANNOTATION]: _, ...others } = annotations;
    const body = {
      ...object,
      metadata: { ...metadata, annotations: begun ? others : annotations },
      data: { ...object.data, ...encodeCertificates(stored) },
    };
    const path = resourcePath(SECRETS, this.#key);
    return found(await this.#client.json<Secret>({ method: 'PUT', path, body, signal }));
  }
}

function found(object: Secret): FoundSecret {
  const rotate = ownValue(object.metadata.annotations, ROTATE_ANNOTATION) !== undefined;
  return { object, stored: decodeCertificates(object.data), rotate };
}
