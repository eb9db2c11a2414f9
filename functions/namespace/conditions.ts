import type { Condition } from '../lib/condition.ts';
import type { Content } from './content.ts';
import { type Leftover, partsOf } from './kind.ts';

interface Finding {
  readonly reason: string;
  readonly message: string;
}

interface ConditionType {
  readonly type: string;
  /** For the status False. */
  readonly fine: Finding;
  /** For the status True; undefined when all is well. */
  readonly find: (content: Content) => Finding | undefined;
}

/** In the order of writing. */
const TYPES: readonly ConditionType[] = [
  {
    type: 'NamespaceDeletionDiscoveryFailure',
    fine: { reason: 'ResourcesDiscovered', message: 'All resources successfully discovered' },
    find: ({ discoveryFailure }) => found('DiscoveryFailed', discoveryFailure),
  },
  {
    type: 'NamespaceDeletionGroupVersionParsingFailure',
    fine: { reason: 'ParsedGroupVersions', message: 'All legacy kube types successfully parsed' },
    find: ({ parsingFailure }) => found('GroupVersionParsingFailed', parsingFailure),
  },
  {
    type: 'NamespaceDeletionContentFailure',
    fine: {
      reason: 'ContentDeleted',
      message: 'All content successfully deleted, may be waiting on finalization',
    },
    find: ({ leftovers }) => found('ContentDeletionFailed', failures(leftovers)),
  },
  {
    type: 'NamespaceContentRemaining',
    fine: { reason: 'ContentRemoved', message: 'All content successfully removed' },
    find: ({ leftovers }) => found('SomeResourcesRemain', remaining(leftovers)),
  },
  {
    type: 'NamespaceFinalizersRemaining',
    fine: { reason: 'ContentHasNoFinalizers', message: 'All content-preserving finalizers finished' },
    find: ({ leftovers }) => found('SomeFinalizersRemain', finalizersRemaining(leftovers)),
  },
];

/**
 * The conditions of a Namespace after a run: always all five conditions of its deletion, and other conditions
 * unchanged. Returns the same list when nothing is new.
 */
export function nextConditions(conditions: readonly Condition[], content: Content, now: number): readonly Condition[] {
  const next = [...conditions];
  let isNew = false;
  for (const { type, fine, find } of TYPES) {
    const finding = find(content);
    const status = finding ? 'True' : 'False';
    const { reason, message } = finding ?? fine;
    const at = next.findIndex((each) => each.type === type);
    const old = next[at];
    if (old?.status === status && old.reason === reason && old.message === message) continue;
    isNew = true;
    const turned = old?.status !== status;
    const lastTransitionTime = turned ? timestamp(now) : old.lastTransitionTime;
    const condition = {
      ...old,
      type,
      status,
      lastTransitionTime: lastTransitionTime ?? null,
      reason,
      message,
    } as const;
    if (old) next[at] = condition;
    else next.push(condition);
  }
  return isNew ? next : conditions;
}

/** The apiserver keeps whole seconds. */
const timestamp = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

function found(reason: string, message: string | undefined): Finding | undefined {
  return message === undefined ? undefined : { reason, message };
}

// Sorted, so that the same content gives the same text.

function failures(leftovers: readonly Leftover[]): string | undefined {
  const messages = leftovers.flatMap(({ error }) => (error ? [error.message] : []));
  if (messages.length === 0) return undefined;
  return `Failed to delete all resource types, ${messages.length} remaining: ${messages.toSorted().join(', ')}`;
}

function remaining(leftovers: readonly Leftover[]): string | undefined {
  const counted = leftovers.filter(({ count }) => count > 0);
  if (counted.length === 0) return undefined;
  const texts = counted.map(
    ({ resource, count }) => `${resource.plural}.${partsOf(resource).group} has ${count} resource instances`,
  );
  return `Some resources are remaining: ${texts.toSorted().join(', ')}`;
}

function finalizersRemaining(leftovers: readonly Leftover[]): string | undefined {
  const counts = new Map<string, number>();
  for (const [finalizer, count] of leftovers.flatMap(({ finalizers }) => [...finalizers])) {
    counts.set(finalizer, (counts.get(finalizer) ?? 0) + count);
  }
  if (counts.size === 0) return undefined;
  const texts = [...counts].map(([finalizer, count]) => `${finalizer} in ${count} resource instances`);
  return `Some content in the namespace has finalizers remaining: ${texts.toSorted().join(', ')}`;
}
