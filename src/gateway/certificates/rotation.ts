import { createAuthority, expiryOf, isDue, isFor, isIssuedBy, issueCertificate } from './authority.ts';
import type { StoredCertificates } from './stored-certificates.ts';

/**
 * How far a rotation of the authority is. The content of the Secret tells it, so that any gateway can go on:
 *
 *     settled ── announce ──> announced ── serve ──> served ── retire ──> settled
 *       └ renew ┘                                      └ renew ┘
 *
 * - `settled`: one authority, which has issued the served certificate.
 * - `announced`: two authorities. The old one has issued the served certificate.
 * - `served`: two authorities. The new one has issued the served certificate.
 *
 * `renew` is another certificate of the same authority. Each step is one write of the Secret.
 */
export type RotationState = 'settled' | 'announced' | 'served';

export type Step = 'none' | 'renew' | 'announce' | 'serve' | 'retire' | 'replace';

export interface RotationTimes {
  readonly authorityMs: number;
  readonly certificateMs: number;
  /**
   * From when every bundle has the new authority until a certificate of it is served. The apiserver has to learn of the
   * bundles. Admission calls a webhook by the bundle that the informer of configurations has, from the next request on
   * (apiserver pkg/admission/configuration, and pkg/util/webhook/client.go, where the bundle is part of the key of the
   * cached client). A new bundle of a CustomResourceDefinition makes new storage at the next request, but requests and
   * watches on the old storage go on with the old bundle until it is torn down, which takes twice the apiserver's
   * request timeout of 60 s at most (apiextensions-apiserver pkg/apiserver/customresource_handler.go). Default 150 s:
   * these two minutes, and half a minute for an informer whose watch was cut.
   */
  readonly settleMs: number;
  /**
   * How long a certificate of the new authority stays in the Secret before the old authority leaves the bundles. Each
   * gateway reads the Secret every `pollMs` and serves its certificate. Default five minutes: 30 times `pollMs`, so
   * that a gateway that cannot read for a while does not make reviews fail. A rotation is not urgent.
   */
  readonly retireMs: number;
  /** Between two looks at the Secret and the bundles; watches wake a gateway earlier. Default 10 s. */
  readonly pollMs: number;
}

export const ROTATION_TIMES = { settleMs: 150_000, retireMs: 300_000, pollMs: 10_000 } as const;

/** The facts that a rotation step depends on, apart from the content of the Secret. */
export interface RotationFacts {
  /** The wall clock. */
  readonly nowMs: number;
  /** A rotation is asked for. */
  readonly requested: boolean;
  /** For how long every bundle has had all authorities of the Secret. Undefined: at least one bundle lacks some. */
  readonly bundledForMs: number | undefined;
  /** For how long this gateway has seen the state that it is in now. */
  readonly inStateForMs: number;
  /** The names of the server. */
  readonly names: readonly string[];
}

export function stateOf({ authorities, serving }: StoredCertificates): RotationState {
  const [, next] = authorities;
  if (next === undefined) return 'settled';
  return isIssuedBy(serving.cert, next) ? 'served' : 'announced';
}

/** The one decision of a rotation. Waits are the caller's: this is asked again later. */
export function nextStep(
  stored: StoredCertificates,
  { bundledForMs, inStateForMs, names, nowMs, requested }: RotationFacts,
  { retireMs, settleMs }: Pick<RotationTimes, 'retireMs' | 'settleMs'>,
): Step {
  const { authorities, serving } = stored;
  const newest = authorities.at(-1) ?? '';
  // No review succeeds, so nothing can be lost.
  if (nowMs >= expiryOf(newest)) return 'replace';
  const isExpired = nowMs >= expiryOf(serving.cert);
  switch (stateOf(stored)) {
    case 'announced':
      return isExpired || (bundledForMs !== undefined && bundledForMs >= settleMs) ? 'serve' : 'none';
    case 'served':
      if (inStateForMs >= retireMs) return 'retire';
      break;
    case 'settled':
      if (requested || isDue(newest, nowMs)) return 'announce';
      break;
  }
  return isDue(serving.cert, nowMs) || !isFor(serving.cert, names) ? 'renew' : 'none';
}

/** The content of the Secret after a step. */
export async function afterStep(
  step: Exclude<Step, 'none'>,
  stored: StoredCertificates,
  { names, nowMs, times }: { readonly names: readonly string[]; readonly nowMs: number; readonly times: Lifetimes },
): Promise<StoredCertificates> {
  const { authorities, authorityKey } = stored;
  switch (step) {
    case 'replace':
      return newCertificates({ names, nowMs, times });
    case 'announce': {
      const next = await createAuthority({ nowMs, lifetimeMs: times.authorityMs });
      return { ...stored, authorities: [authorities[0], next.cert], authorityKey: next.key };
    }
    case 'serve':
    case 'renew': {
      const authority = { cert: authorities.at(-1) ?? '', key: authorityKey };
      const serving = await issueCertificate(authority, { names, nowMs, lifetimeMs: times.certificateMs });
      return { ...stored, serving };
    }
    case 'retire':
      return { ...stored, authorities: [authorities.at(-1) ?? ''] };
  }
}

export type Lifetimes = Pick<RotationTimes, 'authorityMs' | 'certificateMs'>;

/** An authority and a certificate of it, where there is nothing to go on with. */
export async function newCertificates({
  names,
  nowMs,
  times,
}: {
  readonly names: readonly string[];
  readonly nowMs: number;
  readonly times: Lifetimes;
}): Promise<StoredCertificates> {
  const { cert, key } = await createAuthority({ nowMs, lifetimeMs: times.authorityMs });
  const serving = await issueCertificate({ cert, key }, { names, nowMs, lifetimeMs: times.certificateMs });
  return { authorities: [cert], authorityKey: key, serving };
}
