import { formatKind } from '../core/index.ts';
import { CONTRACT_VERSION, type Description } from '../contract/index.ts';
import type { Controller } from './controller.ts';
import { describeSource, type WrittenSource } from './source.ts';

/** The default of `maxBatch`, unless `concurrency` is less. */
const DEFAULT_MAX_BATCH = 10;

/** The answer to the gateway's `GET`: the declaration of the controller. */
export function describe(controller: Controller): Description {
  const { concurrency = 1, callbackSeconds, relatedKinds, webhooks = [] } = controller;
  const writes = declaredWrites(controller);
  const maxBatch = controller.maxBatch ?? Math.min(DEFAULT_MAX_BATCH, concurrency);
  return {
    version: CONTRACT_VERSION,
    name: controller.name,
    for: describeSource(controller.for),
    owns: (controller.owns ?? []).map(describeSource),
    watches: (controller.watches ?? []).map(describeSource),
    reads: (controller.reads ?? []).map(describeSource),
    ...(writes ? { writes: writes.map(describeSource) } : {}),
    indexes: (controller.indexes ?? []).map(describeSource),
    ...(relatedKinds === undefined ? {} : { relatedKinds }),
    ...(controller.observes ? { observes: controller.observes.map(describeSource) } : {}),
    concurrency,
    timeoutSeconds: controller.timeoutSeconds ?? 15,
    ...(maxBatch === 1 ? {} : { maxBatch }),
    ...(callbackSeconds === undefined ? {} : { callbackSeconds }),
    ...(controller.queue ? { queue: controller.queue } : {}),
    ...(webhooks.length === 0 ? {} : { webhooks: webhooks.map(({ description }) => description) }),
  };
}

/** What a controller does with the kinds that it owns, unless `writes` has an entry for them. */
const OWNED_VERBS = ['create', 'update', 'patch', 'delete'] as const;

/** All that a controller writes; undefined when it does not say so. */
export function declaredWrites({
  owns = [],
  writes,
}: Pick<Controller, 'owns' | 'writes'>): readonly WrittenSource[] | undefined {
  if (!writes) return undefined;
  const named = new Set(
    writes.flatMap(({ resource, subresource }) => (subresource === undefined ? [formatKind(resource)] : [])),
  );
  const owned = owns.flatMap((source): WrittenSource[] => {
    const { resource, namespaces } = 'resource' in source ? source : { resource: source, namespaces: undefined };
    if (named.has(formatKind(resource))) return [];
    return [{ resource, ...(namespaces ? { namespaces } : {}), verbs: OWNED_VERBS }];
  });
  return [...owned, ...writes];
}
