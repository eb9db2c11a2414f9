import { boundedText, formatJson, parseJson } from '../../../core/index.ts';
import { LEVELHOOK_HEADER, type WebhookDescription } from '../../../contract/index.ts';
import type { Answer } from '../../controller/endpoint/endpoint.ts';
import { reasonIn } from '../../controller/endpoint/outcome.ts';
import { StatusError } from '../cache-api/kubernetes-status.ts';
import { reviewKindOf } from './declared-review.ts';

/**
 * The body of a function's answer to a review, if it is an answer to this review. The gateway guesses no verdict: after
 * any other answer the failure policy decides. A verdict is serialized anew, so that the apiserver reads exactly the
 * verdict that was checked here (readers differ about a field that occurs twice).
 * @param uid of the review's request.
 * @throws StatusError 502 or 504 with the reason in one sentence, which the apiserver shows to its client. It names no
 *   address.
 */
export function answeredReview(answer: Answer, webhook: WebhookDescription, uid: string): string {
  if (answer.kind !== 'answered') throw withoutAnswer(answer);
  const { body, headers, status } = answer;
  const isOurs = headers[LEVELHOOK_HEADER] !== undefined;
  if (!isOurs) throw badGateway(`no function answered: another server did, with ${status}`);
  if (status !== 200) throw badGateway(`the function answered ${status}${reasonIn(body)}`);
  const { apiVersion, kind } = reviewKindOf(webhook);
  const value = parsed(body);
  if (value?.apiVersion !== apiVersion || value.kind !== kind) {
    throw badGateway(`the function's answer is not a ${kind} of ${apiVersion}`);
  }
  const { response } = value;
  if (typeof response !== 'object' || response === null) throw badGateway("the function's answer has no response");
  if (response.uid !== uid) throw badGateway("the function's answer is to another review: its UID differs");
  if (webhook.type === 'conversion' && typeof response.result?.status !== 'string') {
    throw badGateway("the function's answer does not say whether the conversion succeeded");
  }
  if (webhook.type === 'conversion') return body;
  if (typeof response.allowed !== 'boolean') {
    throw badGateway("the function's answer does not say whether the write is allowed");
  }
  // A MutatingWebhookConfiguration may lead to a validating webhook, and its account need not have the right to write.
  if (webhook.type === 'validating' && (isGiven(response.patch) || isGiven(response.patchType))) {
    throw badGateway(`the function's answer has a patch, and the webhook ${webhook.name} is declared as validating`);
  }
  return formatJson({ apiVersion, kind, response });
}

interface AnsweredReview {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
  readonly response?: {
    readonly uid?: unknown;
    readonly allowed?: unknown;
    readonly patch?: unknown;
    readonly patchType?: unknown;
    readonly result?: { readonly status?: unknown } | null;
  } | null;
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null;

function parsed(body: string): AnsweredReview | null {
  try {
    return parseJson(body) as AnsweredReview | null;
  } catch {
    throw badGateway("the function's answer is not JSON");
  }
}

function withoutAnswer(answer: Exclude<Answer, { kind: 'answered' }>): StatusError {
  if (answer.reason === 'timeout') {
    const message =
      answer.kind === 'refused'
        ? 'the function could not be reached before the timeout of the webhook'
        : 'the function did not answer before the timeout of the webhook';
    return new StatusError({ code: 504, reason: 'Timeout', message });
  }
  if (answer.kind === 'refused') return badGateway('the function cannot be reached: no connection could be made');
  if (answer.reason === 'too-large') return badGateway(`the function's answer is too large: ${answer.message}`);
  return badGateway('the connection to the function broke before its answer');
}

function badGateway(message: string): StatusError {
  return new StatusError({ code: 502, reason: 'InternalError', message: boundedText(message, 1024) });
}
