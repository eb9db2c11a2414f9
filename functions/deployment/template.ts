import { equal, formatJson } from 'levelhook/function';
import type { PodTemplate } from '../lib/replica-set.ts';

/** Tells the pods of one ReplicaSet from those of another: in its labels, its selector and its template. */
export const TEMPLATE_HASH = 'pod-template-hash';
/** The longest name that an object can have. */
const MAX_NAME_LENGTH = 253;
/** No vowels, nor what looks like one: no hash spells a word. */
const SAFE = 'bcdfghjklm';

/**
 * Whether pods of both are the same, as `EqualIgnoreHash` of kube-controller-manager says it. The apiserver has given
 * both all defaults.
 */
export function sameTemplate(a: PodTemplate, b: PodTemplate): boolean {
  return equal(withoutHash(a), withoutHash(b), 'PodTemplateSpec');
}

/**
 * The same for the same template at any time and in any process, whatever the order of its fields. Not the one that
 * kube-controller-manager computes: its ReplicaSets are found by their template and keep theirs.
 *
 * @param collisions how many hashes of this Deployment were found to be taken
 */
export function templateHash(template: PodTemplate, collisions = 0): string {
  const digits = String(fnv1a(`${canonical(template)}${collisions || ''}`));
  return digits.replaceAll(/\d/g, (digit) => SAFE.charAt(Number(digit)));
}

/** Of the ReplicaSet with the hash: as long as names can be, and always with the whole hash. */
export function replicaSetName(deployment: string, hash: string): string {
  return `${deployment.slice(0, MAX_NAME_LENGTH - hash.length - 1)}-${hash}`;
}

/** As the Deployment has it. */
export function withoutHash(template: PodTemplate): PodTemplate {
  const { [TEMPLATE_HASH]: _, ...labels } = template.metadata?.labels ?? {};
  return { ...template, metadata: { ...template.metadata, labels } };
}

/** JSON with the fields in order, and without those that are null, which says no more than leaving them out. */
function canonical(value: unknown): string {
  return formatJson(value, (_, part) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    const fields = Object.entries(part).filter(([, field]) => field !== null);
    return Object.fromEntries(fields.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** 32-bit FNV-1a of the UTF-8 bytes. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
