import { controller, type RunToken } from 'levelhook/function';
import { ConfigMap } from 'levelhook/function/kinds';

/** Work for another process. It is plain JSON, so it can go through any queue. */
export interface ReportJob {
  readonly namespace: string;
  readonly name: string;
  readonly run: RunToken;
}

/**
 * Has a report made for every ConfigMap labelled `report: "true"`, by a process that takes minutes.
 * @param handOver gives the job to that process. It may be called twice for the same state of the object.
 */
export const reports = (handOver: (job: ReportJob) => Promise<void>) =>
  controller({
    name: 'report',
    for: { resource: ConfigMap, labelSelector: { matchLabels: { report: 'true' } } },
    // By the worker.
    writes: [{ resource: ConfigMap, verbs: ['patch'] }],
    // The gateway runs the key again when no heartbeat comes for this long.
    callbackSeconds: 60,
  }).reconcile(async (request, { cache, runToken }) => {
    const found = await cache.get(ConfigMap, request);
    if (!found || found.metadata.deletionTimestamp || found.data?.['report'] !== undefined) return;
    if (!runToken) throw new Error('the gateway cannot be reached for a callback: set LEVELHOOK_CACHE_URL');
    const { name, namespace = '' } = found.metadata;
    await handOver({ namespace, name, run: runToken });
    // The key waits from here on, and holds no slot.
    return { completesWithinSeconds: 60 };
  });
