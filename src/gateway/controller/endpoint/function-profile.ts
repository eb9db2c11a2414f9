import { randomUUID } from 'node:crypto';
import { boundedText, type Clock } from '../../../core/index.ts';
import { CONTRACT_VERSION, LEVELHOOK_HEADER } from '../../../contract/index.ts';
import { PROFILE_PATH, type ProfileRequest, type ProfileSpec } from '../../../contract/node/profile-request.ts';
import type { Answer, Endpoint } from './endpoint.ts';

/** There is no profile; the message says why, in one sentence. */
export class ProfileError extends Error {
  override readonly name = 'ProfileError';
  /** The HTTP status for the person who asked. */
  readonly status: 429 | 501 | 502 | 504;

  constructor(status: ProfileError['status'], message: string) {
    super(message);
    this.status = status;
  }
}

/** A profile of 60 s with 20,000 places of the code has 8 MB. */
const MAX_PROFILE_BYTES = 16 * 1024 * 1024;
/** The time to reach the function, which may have to start, and to receive the answer. */
const SLACK_SECONDS = 20;

export interface ProfiledFunction {
  /** The function's own name for its controller. */
  readonly functionName: string;
  readonly endpoint: Pick<Endpoint, 'url' | 'postBelow'>;
}

/**
 * Asks a function for a profile of its process: a signed POST below its URL. Behind a Service with several replicas, it
 * is a profile of one of them.
 * @param signal ends the profile in the function, too.
 * @returns the function's answer, which should be V8's JSON.
 * @throws ProfileError
 * @throws the reason of the signal
 */
export async function functionProfile(
  { functionName, endpoint }: ProfiledFunction,
  { profile, clock }: { readonly profile: ProfileSpec; readonly clock: Pick<Clock, 'wallNow'> },
  signal: AbortSignal,
): Promise<string> {
  const limitMs = (profile.seconds + SLACK_SECONDS) * 1000;
  const request: ProfileRequest = {
    version: CONTRACT_VERSION,
    controller: functionName,
    deadline: new Date(clock.wallNow() + limitMs).toISOString(),
    profile,
  };
  const answer = await endpoint.postBelow(PROFILE_PATH, {
    id: randomUUID(),
    body: JSON.stringify(request),
    timeoutMs: limitMs,
    maxAnswerBytes: MAX_PROFILE_BYTES,
    signal,
  });
  signal.throwIfAborted();
  if (answer.kind === 'answered') return profileIn(answer, endpoint.url);
  if (answer.reason === 'timeout') {
    throw new ProfileError(504, `${endpoint.url} did not answer in ${limitMs / 1000} s`);
  }
  throw new ProfileError(502, `${endpoint.url} gave no profile (${answer.message})`);
}

function profileIn({ status, headers, body }: Extract<Answer, { kind: 'answered' }>, url: string): string {
  // Without the header the answer is from a proxy, or from a server that is no function.
  const isOurs = headers[LEVELHOOK_HEADER] !== undefined;
  if (status === 200 && isOurs) return body;
  const reason = isOurs ? reasonIn(body) : '';
  if (status === 429 && isOurs) throw new ProfileError(429, `${url} answered 429${reason}`);
  if (status === 401) {
    throw new ProfileError(
      502,
      `${url} refuses the signature${reason}: check that gateway and function have the same signing secret`,
    );
  }
  if (WITHOUT_PROFILER.has(status)) {
    throw new ProfileError(
      501,
      `${url} takes no profiles (it answered ${status}${reason}): a function does on Node, served by serveController or serveFunction`,
    );
  }
  throw new ProfileError(502, `${url} answered ${status}${reason}`);
}

/** Answers of a function that does not know profiles: it has no such path, or takes the request for a trigger. */
const WITHOUT_PROFILER = new Set([200, 400, 403, 404, 405, 501]);

function reasonIn(body: string): string {
  try {
    const { error } = JSON.parse(body.slice(0, 64 * 1024)) as { error?: unknown };
    return typeof error === 'string' ? `: ${boundedText(error, 200)}` : '';
  } catch {
    return '';
  }
}
