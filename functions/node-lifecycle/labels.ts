import type { Node } from 'levelhook/function/kinds';

/** The stable label, and the old label with the same value. */
const FOLLOWED = [
  ['kubernetes.io/os', 'beta.kubernetes.io/os'],
  ['kubernetes.io/arch', 'beta.kubernetes.io/arch'],
] as const;

/** The corrected old labels that differ from the stable ones; undefined when none does. */
export function followingLabels({ metadata: { labels = {} } }: Node): Record<string, string> | undefined {
  const changed = FOLLOWED.flatMap(([stable, old]): [string, string][] => {
    const value = labels[stable];
    return value === undefined || labels[old] === value ? [] : [[old, value]];
  });
  return changed.length === 0 ? undefined : Object.fromEntries(changed);
}
