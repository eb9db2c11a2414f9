import type { Readable } from 'node:stream';
import { messageOf, parseJson, statusFrom } from '../../../core/index.ts';
import type { ApiClient, ForwardedAnswer } from '../../../ground/apiserver/api-client.ts';
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
  /**
   * Those with which the function has read live or written since the controller was declared, in any namespace. The
   * cache needs others, and so do webhooks and owner references.
   */
  readonly used: readonly UsedRight[];
  readonly granted: readonly GrantedRule[];
  /** Whether the apiserver knows of other rights that it cannot list. */
  readonly incomplete: boolean;
}

/** Why they are not known, for people. */
export class RightsUnknownError extends Error {
  override readonly name = 'RightsUnknownError';
}

const REVIEWS = '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews';
const ANSWER_MS = 10_000;
/** A tenant may have many rules, and the thread is everybody's. */
const MOST_BYTES = 512 * 1024;
const HEADERS = { 'user-agent': 'levelhook-gateway', accept: 'application/json', 'content-type': 'application/json' };

/**
 * @param client of the controller, whose tenant pays.
 * @param namespace default: that of the account.
 * @throws RightsUnknownError
 */
export async function functionRights(
  { account, usedRights }: { readonly account: FunctionAccount; readonly usedRights: UsedRights },
  client: Pick<ApiClient, 'forward' | 'turn'>,
  namespace: string = account.namespace,
): Promise<ServedRights> {
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } };
  const signal = AbortSignal.timeout(ANSWER_MS);
  let answer: ForwardedAnswer;
  let text: string;
  try {
    await client.turn('POST', signal);
    answer = await client.forward({
      method: 'POST',
      url: REVIEWS,
      headers: HEADERS,
      body: Buffer.from(JSON.stringify(review)),
      user: `system:serviceaccount:${account.namespace}:${account.name}`,
      signal,
    });
    text = await textOf(answer.body);
  } catch (error) {
    throw new RightsUnknownError(`the apiserver does not say what it may do: ${messageOf(error)}`);
  }
  if (answer.status >= 300) {
    throw new RightsUnknownError(
      `the apiserver does not say what it may do: ${statusFrom(text, answer.status).message}`,
    );
  }
  const { status } = parseJson(text) as {
    status?: { resourceRules?: readonly GrantedRule[] | null; incomplete?: boolean };
  };
  return {
    namespace,
    used: await usedRights.all(),
    granted: status?.resourceRules ?? [],
    incomplete: status?.incomplete === true,
  };
}

async function textOf(body: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Leaving the loop destroys the stream.
    if (bytes > MOST_BYTES) throw new Error(`its rules are longer than ${MOST_BYTES / 1024} KiB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
