import { request } from 'undici';
import { type ObjectKey, resource, resourcePath, type Resource } from '../../src/core/index.ts';
import { type Credentials, loadCredentials } from '../../src/ground/apiserver/credentials.ts';
import type { Cluster } from './cluster.ts';
import type { Rule } from './tenant.ts';

const group = 'rbac.authorization.k8s.io';

export interface Reply {
  readonly status: number;
  readonly text: string;
}

/** A user who may do what a Role of its own namespace says and nothing else: a ServiceAccount there, by its token. */
export class RestrictedUser {
  readonly #credentials: Credentials;
  readonly #token: string;

  private constructor(credentials: Credentials, token: string) {
    this.#credentials = credentials;
    this.#token = token;
  }

  static async create(
    cluster: Cluster,
    kubeconfig: string,
    { namespace, name }: { namespace: string; name: string },
    rules: readonly Rule[],
  ): Promise<RestrictedUser> {
    const accounts = resource('v1', 'ServiceAccount');
    await cluster.create(accounts, { metadata: { namespace, name } });
    await cluster.create(resource(`${group}/v1`, 'Role'), { metadata: { namespace, name }, rules });
    await cluster.create(resource(`${group}/v1`, 'RoleBinding'), {
      metadata: { namespace, name },
      roleRef: { apiGroup: group, kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', namespace, name }],
    });
    const { status } = await cluster.client.json<{ status: { token: string } }>({
      method: 'POST',
      path: resourcePath(accounts, { namespace, name, subresource: 'token' }),
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds: 86_400 },
      },
    });
    return new RestrictedUser(await loadCredentials(kubeconfig), status.token);
  }

  close(): Promise<void> {
    return this.#credentials.close();
  }

  /** Creates an object from its JSON text, or merges it into the one that is there. */
  async put(of: Resource, key: ObjectKey, body: string): Promise<Reply> {
    const created = await this.#send('POST', resourcePath(of, { namespace: key.namespace }), body);
    return created.status === 409 ? this.merge(of, key, body) : created;
  }

  /** Merges a JSON text into an object. */
  merge(of: Resource, key: ObjectKey, body: string): Promise<Reply> {
    return this.#send('PATCH', resourcePath(of, key), body, 'application/merge-patch+json');
  }

  /** Merges this into the status of an object. */
  setStatus(of: Resource, key: ObjectKey, status: object): Promise<Reply> {
    const path = resourcePath(of, { ...key, subresource: 'status' });
    return this.#send('PATCH', path, JSON.stringify({ status }), 'application/merge-patch+json');
  }

  /** At once: pods are not waited for. */
  remove(of: Resource, key: ObjectKey): Promise<Reply> {
    return this.#send('DELETE', resourcePath(of, key), '{"gracePeriodSeconds":0,"propagationPolicy":"Background"}');
  }

  /** All of a kind in a namespace. */
  removeAll(of: Resource, namespace: string): Promise<Reply> {
    return this.#send('DELETE', resourcePath(of, { namespace }), '{"gracePeriodSeconds":0}');
  }

  get(of: Resource, at: { namespace: string; name?: string }): Promise<Reply> {
    return this.#send('GET', resourcePath(of, at));
  }

  async #send(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: string,
    contentType = 'application/json',
  ): Promise<Reply> {
    const { server, dispatcher } = await this.#credentials.access();
    const response = await request(`${server}${path}`, {
      dispatcher,
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': contentType }),
      },
      body: body ?? null,
    });
    return { status: response.statusCode, text: await response.body.text() };
  }
}
