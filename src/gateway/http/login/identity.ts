import type { RequestSource, Resource } from '../../../core/index.ts';

/**
 * A read of objects of the cluster, as the apiserver would be asked for it: of one object with a name (`get`), of many
 * without (`list`). Without a namespace: of all namespaces, or of a kind that has none.
 */
export interface ObjectRead {
  readonly resource: Resource;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

/** The owner of a token that is valid now. */
export interface Identity {
  /** Others may have chosen it. */
  readonly name: string;
  /** The user, or all ServiceAccounts of a namespace: a pod there may have the tokens of all of them. */
  readonly client: string;
  /** The authority for the name: equal names of different kinds are different users. */
  readonly from: 'kubernetes' | 'static token' | 'loopback';
  /**
   * Whether a request may be answered.
   * @param verb the HTTP method in lower case, as kube-apiserver names it for paths that are not resources.
   * @throws LoginUnavailableError
   */
  may(verb: string, path: string): Promise<boolean>;
  /**
   * Whether an answer may show these objects.
   * @throws LoginUnavailableError
   */
  mayRead(read: ObjectRead): Promise<boolean>;
}

/** The user of the gateway's own machine, who may do everything, as with `kubectl proxy`. */
export const LOCAL: Identity = {
  name: 'local',
  client: 'local',
  from: 'loopback',
  may: async () => true,
  mayRead: async () => true,
};

export interface Identities {
  /**
   * Undefined when the token is not valid.
   * @param source of the token.
   * @throws LoginUnavailableError
   */
  identify(token: string, source: Pick<RequestSource, 'name'>): Promise<Identity | undefined>;
}

/** A token or a right cannot be checked now; the message says why, and quotes nothing of the request. */
export class LoginUnavailableError extends Error {
  override readonly name = 'LoginUnavailableError';
}
