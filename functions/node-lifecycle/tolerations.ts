import type { Node, Pod, Taint, Toleration } from 'levelhook/function/kinds';
import { taintsOf } from './taints.ts';

export function noExecuteTaints(node: Node): readonly Taint[] {
  return taintsOf(node).filter(({ effect }) => effect === 'NoExecute');
}

/**
 * How long the pod may stay on a node with these NoExecute taints, in milliseconds: 0 when it must go now, Infinity
 * when it may stay. The first toleration that covers a taint decides, from the taint's own time on: an older taint must
 * not use up the pod's time for a newer one.
 * @param ageMs of a taint.
 */
export function timeLeftMs(pod: Pod, taints: readonly Taint[], ageMs: (taint: Taint) => number): number {
  const used = taints.map((taint) => ({
    taint,
    toleration: (pod.spec?.tolerations ?? []).find((each) => tolerates(each, taint)),
  }));
  if (used.some(({ toleration }) => toleration === undefined)) return 0;
  const limited = used.filter(({ toleration }) => toleration?.tolerationSeconds !== undefined);
  if (limited.length === 0) return Infinity;
  const left = limited.map(({ taint, toleration }) => msOf(toleration) - ageMs(taint));
  return Math.max(0, Math.min(...left));
}

/** Tolerations for ever have 2^63 - 1 seconds, which is a bigint. */
function msOf({ tolerationSeconds = 0 }: { readonly tolerationSeconds?: number | bigint } = {}): number {
  return Number(tolerationSeconds) * 1000;
}

/** `ToleratesTaint` of component-helpers. */
export function tolerates(
  { key = '', operator = 'Equal', value = '', effect = '' }: Toleration,
  taint: Taint,
): boolean {
  if (effect !== '' && effect !== taint.effect) return false;
  if (key !== '' && key !== taint.key) return false;
  if (operator === 'Exists') return true;
  // The apiserver refuses an empty key with Equal.
  return (operator === 'Equal' || operator === '') && value === (taint.value ?? '');
}
