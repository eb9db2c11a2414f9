import { CONTRACT_VERSION, type Description } from '../contract/index.ts';
import type { Controller } from './controller.ts';
import { describeSource } from './source.ts';

/** The default of `maxBatch`, unless `concurrency` is less. */
const DEFAULT_MAX_BATCH = 10;

/** The answer to the gateway's `GET`: the declaration of the controller. */
export function describe(controller: Controller): Description {
  const { concurrency = 1, callbackSeconds, relatedKinds, webhooks = [] } = controller;
  const maxBatch = controller.maxBatch ?? Math.min(DEFAULT_MAX_BATCH, concurrency);
  return {
    version: CONTRACT_VERSION,
    name: controller.name,
    for: describeSource(controller.for),
    owns: (controller.owns ?? []).map(describeSource),
    watches: (controller.watches ?? []).map(describeSource),
    reads: (controller.reads ?? []).map(describeSource),
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
