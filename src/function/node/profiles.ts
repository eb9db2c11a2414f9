import { systemClock } from '../../core/index.ts';
import { ContractError } from '../../contract/index.ts';
import { decodeProfileRequest } from '../../contract/node/profile-request.ts';
import { Profiler, ProfilerBusyError, ProfilerUnavailableError } from '../../profiler/profiler.ts';
import { SeenTriggers } from '../seen-triggers.ts';
import {
  type FunctionAnswer,
  JSON_HEADERS,
  type SignedRequest,
  type TriggerHandler,
  type VerifiedHandler,
  whole,
} from '../trigger-handler.ts';

/** Enough, because profiles are rare. */
const MAX_SEEN = 1000;

/**
 * Takes profiles of this process for signed requests, which the gateway sends for its administrators. A request is as
 * hard to forge or to repeat as a trigger: checked are the signature of the raw body, the controller's name, the
 * deadline, and whether the request was received before. One profile is taken at a time, and none after the caller has
 * hung up.
 */
export class Profiles {
  readonly #profiler = new Profiler();
  readonly #seen = new SeenTriggers(MAX_SEEN);
  readonly #stop = new AbortController();

  /** Never rejects. @param handler the handler of the controller at the request's path. */
  answer(handler: TriggerHandler, request: SignedRequest): Promise<FunctionAnswer> {
    return handler.answer(request, (...verified) => this.#answer(request, ...verified));
  }

  /** Ends the current profile, so that the process can end. */
  stop(): void {
    this.#stop.abort();
  }

  async #answer(
    { headers, body, hangUp }: SignedRequest,
    ...[own, log, now]: Parameters<VerifiedHandler>
  ): Promise<FunctionAnswer> {
    const { controller, deadline, profile } = decodeProfileRequest(body);
    if (controller !== own.name) throw new ContractError(`the request is for ${controller}, and this is ${own.name}`);
    const leftMs = Date.parse(deadline) - now();
    // Also refuses a deadline that is not a time.
    if (!(leftMs > 0)) return whole(409, { error: 'the deadline of the request has passed' });
    if (this.#seen.add(headers.get('webhook-id') ?? '', leftMs, systemClock.now()) !== 'new') {
      return whole(409, { error: 'the request was received before' });
    }
    const hungUp = new AbortController();
    hangUp(() => hungUp.abort());
    try {
      const taken = await this.#profiler.take(profile, AbortSignal.any([hungUp.signal, this.#stop.signal]));
      log.info({ ...profile }, 'a profile of this process was taken');
      return { status: 200, headers: JSON_HEADERS, body: taken };
    } catch (error) {
      if (error instanceof ProfilerBusyError) {
        const busy = whole(429, { error: error.message });
        return { ...busy, headers: { ...busy.headers, 'retry-after': String(error.leftSeconds) } };
      }
      if (error instanceof ProfilerUnavailableError) return whole(501, { error: error.message });
      if (this.#stop.signal.aborted) return whole(503, { error: 'the function is stopping' });
      // The gateway has hung up.
      if (hungUp.signal.aborted) return whole(503, { error: 'the caller has hung up' });
      throw error;
    }
  }
}
