import { equal, formatJson } from 'levelhook/function';
import type { PodTemplate } from '../lib/replica-set.ts';

/** Distinguishes the pods of different ReplicaSets: in their labels, selectors and templates. */
export const TEMPLATE_HASH = 'pod-template-hash';
/** The longest name of an object. */
const MAX_NAME_LENGTH = 253;
/** No vowels and no letters that look like them, so that no hash spells a word. */
const SAFE = 'bcdfghjklm';

/**
 * Whether both make the same pods, as `EqualIgnoreHash` of kube-controller-manager defines it. The apiserver has set
 * all defaults in both.
 */
export function sameTemplate(a: PodTemplate, b: PodTemplate): boolean {
  return equal(withoutHash(a), withoutHash(b), 'PodTemplateSpec');
}

/**
 * The same for the same template at any time and in any process, whatever the order of its fields. It differs from the
 * hash of kube-controller-manager, whose ReplicaSets are found by their template and keep their hashes.
 *
 * @param collisions how many hashes of this Deployment were already taken
 */
export function templateHash(template: PodTemplate, collisions = 0): string {
  const digits = String(fnv1a(`${canonical(template)}${collisions || ''}`));
  return digits.replaceAll(/\d/g, (digit) => SAFE.charAt(Number(digit)));
}

/** The name of the ReplicaSet with the hash: cut to the allowed length, but always with the whole hash. */
export function replicaSetName(deployment: string, hash: string): string {
  return `${deployment.slice(0, MAX_NAME_LENGTH - hash.length - 1)}-${hash}`;
}

/** The template as the Deployment has it. */
export function withoutHash(template: PodTemplate): PodTemplate {
  const { [TEMPLATE_HASH]: _, ...labels } = template.metadata?.labels ?? {};
  return { ...template, metadata: { ...template.metadata, labels } };
}

/** JSON with the fields in order, and without null fields, because null means the same as absent. */
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
