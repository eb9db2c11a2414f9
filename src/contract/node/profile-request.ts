import { CONTRACT_VERSION, ContractError } from '../trigger.ts';

/**
 * The kinds of profiles, under the names of Go's pprof:
 *
 * - `cpu`: the processor time of each function
 * - `heap`: the memory that was allocated while the profile was taken and is in use at its end
 * - `allocs`: all memory that was allocated while the profile was taken
 */
export const PROFILE_KINDS = ['cpu', 'heap', 'allocs'] as const;
export type ProfileKind = (typeof PROFILE_KINDS)[number];

/** The longest duration of a profile: whole seconds, from 1 to this. */
export const MAX_PROFILE_SECONDS = 60;
export const DEFAULT_PROFILE_SECONDS = 10;

/** Between two samples of the processor: V8's default. */
export const CPU_INTERVAL_US = 1000;
/** Between two samples of the memory, on the average. V8's default of 32 KiB slows a busy process down. */
export const HEAP_INTERVAL_BYTES = 128 * 1024;

/** A function takes requests for profiles at this path below its own. */
export const PROFILE_PATH = '/debug/pprof';

export interface ProfileSpec {
  readonly kind: ProfileKind;
  /** The duration of the profile: 1 to 60. */
  readonly seconds: number;
}

/** The body of a signed POST to `PROFILE_PATH`. The answer is a profile of V8 in JSON. */
export interface ProfileRequest {
  readonly version: typeof CONTRACT_VERSION;
  /** The name of the controller. Several functions may share a secret. */
  readonly controller: string;
  /** RFC 3339. After this time the request is refused as a replay. */
  readonly deadline: string;
  readonly profile: ProfileSpec;
}

/** Decodes the verified body of a request for a profile. @throws ContractError */
export function decodeProfileRequest(body: string): ProfileRequest {
  let value: Partial<ProfileRequest> | null;
  try {
    value = JSON.parse(body) as typeof value;
  } catch {
    throw new ContractError('the body of the request is not JSON');
  }
  const { version, controller, deadline, profile } = value ?? {};
  if (version !== CONTRACT_VERSION) throw new ContractError(`the request does not speak contract ${CONTRACT_VERSION}`);
  if (typeof controller !== 'string' || typeof deadline !== 'string' || !isSpec(profile)) {
    throw new ContractError('the request does not name controller, deadline, and kind and seconds of a profile');
  }
  return { version, controller, deadline, profile };
}

function isSpec(value: Partial<ProfileSpec> | null | undefined): value is ProfileSpec {
  const { kind, seconds } = value ?? {};
  return PROFILE_KINDS.some((each) => each === kind) && isProfileSeconds(seconds);
}

function isProfileSeconds(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX_PROFILE_SECONDS;
}
