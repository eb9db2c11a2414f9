import { randomUUID } from 'node:crypto';
import { messageOf } from '../../../core/index.ts';
import { CONTRACT_VERSION, type Description } from '../../../contract/index.ts';
import { withOwnKeys } from '../../../contract/name-schema.ts';
import { descriptionSchema } from '../../../contract/description-schema.ts';
import type { Answer, Endpoint, FailureReason } from './endpoint.ts';
import { checkBytes, checkSources } from '../handlers/check-sources.ts';

/** A function gave no valid description: it is not reachable, is no function, or has another secret. */
export class DescribeError extends Error {
  override readonly name = 'DescribeError';
  readonly reason: DescribeFailure;

  constructor(reason: DescribeFailure, message: string) {
    super(message);
    this.reason = reason;
  }
}

export type DescribeFailure =
  | 'ConnectionRefused'
  | 'ConnectionFailed'
  | 'AnswerTimedOut'
  | 'AnswerTooLarge'
  | 'SignatureRefused'
  | 'NotAFunction'
  | 'NoJson'
  | 'ContractMismatch'
  | 'DescriptionInvalid';

const FAILURES = {
  timeout: 'AnswerTimedOut',
  connection: 'ConnectionFailed',
  'too-large': 'AnswerTooLarge',
} as const satisfies Record<FailureReason, DescribeFailure>;

const NOT_CONNECTED = {
  refused: 'ConnectionRefused',
  connection: 'ConnectionFailed',
  timeout: 'AnswerTimedOut',
} as const satisfies Record<(Answer & { kind: 'refused' })['reason'], DescribeFailure>;

/**
 * The largest answer to a request for a description that is read. A description has 32 KiB at most, without its white
 * space.
 */
export const MAX_DESCRIBING_BYTES = 128 * 1024;

/** Runs work when its tenant's processor time allows it. */
export type InTurn = <T>(work: () => T) => Promise<T>;
const atOnce: InTurn = async (work) => work();

/**
 * Asks a function for the description of its controller by a signed `GET`, for 5 s at most.
 * @param inTurn decodes the answer in the time of a tenant. Default: it is decoded at once.
 * @throws DescribeError with the reason, for the log.
 */
export async function describeFunction(endpoint: Endpoint, inTurn: InTurn = atOnce): Promise<Description> {
  const answer = await endpoint.send({
    body: '',
    id: randomUUID(),
    timeoutMs: 5000,
    maxAnswerBytes: MAX_DESCRIBING_BYTES,
  });
  if (answer.kind === 'refused') throw new DescribeError(NOT_CONNECTED[answer.reason], answer.message);
  if (answer.kind === 'failed') throw new DescribeError(FAILURES[answer.reason], answer.message);
  if (answer.status === 401) {
    throw new DescribeError(
      'SignatureRefused',
      `${endpoint.url} refuses the signature: check that gateway and function have the same signing secret`,
    );
  }
  if (answer.status !== 200)
    throw new DescribeError('NotAFunction', `${endpoint.url} answered ${answer.status} to GET /`);
  return inTurn(() => decodeDescription(parsed(answer.body, endpoint.url), endpoint.url));
}

function parsed(body: string, url: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    // The parser's message shows a piece of the text, which the owner of the ReconcileFunction may not be allowed to
    // read.
    throw new DescribeError('NoJson', `${url} did not answer with JSON`);
  }
}

const decodedSchema = withOwnKeys(descriptionSchema);

/** @param spoken the version that the function names; a server that is no function may have anything there. */
export function contractMismatch(url: string, spoken: string): DescribeError {
  const contract = /^v[0-9]{1,3}$/.test(spoken) ? `contract ${spoken}` : 'another contract';
  return new DescribeError(
    'ContractMismatch',
    `${url} speaks ${contract}, and this gateway ${CONTRACT_VERSION}: update the older one`,
  );
}

/** @throws DescribeError naming the fault. `url` is for the message. */
export function decodeDescription(value: unknown, url: string): Description {
  const spoken = (value as { version?: unknown } | null)?.version;
  if (typeof spoken === 'string' && spoken !== CONTRACT_VERSION) throw contractMismatch(url, spoken);
  try {
    checkBytes(value, 'it');
  } catch (error) {
    throw new DescribeError('DescriptionInvalid', `the description of ${url} is wrong: ${messageOf(error)}`);
  }
  const parsed = decodedSchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const message = `the description of ${url} is wrong at ${issue?.path.join('.')}: ${issue?.message}`;
    throw new DescribeError('DescriptionInvalid', message);
  }
  try {
    checkSources(parsed.data);
  } catch (error) {
    throw new DescribeError('DescriptionInvalid', `the description of ${url} is wrong: ${messageOf(error)}`);
  }
  return parsed.data;
}
