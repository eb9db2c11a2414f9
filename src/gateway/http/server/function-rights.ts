import { buffer } from 'node:stream/consumers';
import { parseJson, statusFrom } from '../../../core/index.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import type { FunctionAccount } from '../../controller/access/account-tokens.ts';
import type { UsedRight, UsedRights } from '../../controller/workqueue/records/used-rights.ts';

/** A rule of RBAC that counts for the account; `*` stands for all. */
export interface GrantedRule {
  readonly verbs: readonly string[];
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  /** Absent: of any name. */
  readonly resourceNames?: readonly string[];
}

/** The rights of a function that writes through the gateway, as `GET /queues/<controller>/rights` serves them. */
export interface ServedRights {
  /** The namespace for which they were asked: those of the cluster count there, too. */
  readonly namespace: string;
  /** Those that it has used since the controller was declared, in any namespace. */
  readonly used: readonly UsedRight[];
  readonly granted: readonly GrantedRule[];
}

/** Why they are not known, for people. */
export class RightsUnknownError extends Error {
  override readonly name = 'RightsUnknownError';
}

const REVIEWS = '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews';
const ANSWER_MS = 10_000;
const HEADERS = { 'user-agent': 'levelhook-gateway', accept: 'application/json', 'content-type': 'application/json' };

/**
 * @param namespace default: that of the account.
 * @throws RightsUnknownError
 */
export async function functionRights(
  { account, usedRights }: { readonly account: FunctionAccount; readonly usedRights: UsedRights },
  client: Pick<ApiClient, 'forward'>,
  namespace: string = account.namespace,
): Promise<ServedRights> {
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } };
  const { status, body } = await client.forward({
    method: 'POST',
    url: REVIEWS,
    headers: HEADERS,
    body: Buffer.from(JSON.stringify(review)),
    user: `system:serviceaccount:${account.namespace}:${account.name}`,
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  const text = (await buffer(body)).toString();
  if (status >= 300) {
    throw new RightsUnknownError(`the apiserver does not say what it may do: ${statusFrom(text, status).message}`);
  }
  const { status: found } = parseJson(text) as { status?: { resourceRules?: readonly GrantedRule[] | null } };
  return { namespace, used: await usedRights.all(), granted: found?.resourceRules ?? [] };
}
