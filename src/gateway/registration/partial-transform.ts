import { formatJson, type KubernetesObject, type ObjectMeta } from '../../core/index.ts';
import type { Transform } from '../informer/reflector/watch-event.ts';
import { MAX_STATUS } from './conditions.ts';
import type { PartialReconcileFunction } from './reconcile-function.ts';

/**
 * Leaves of a ReconcileFunction its identity, generation and status. The spec, labels, annotations, finalizers and
 * managed fields may take 1.5 MB of each of any number of objects. A status above `MAX_STATUS`, which no gateway
 * writes, counts as none, and the gateway that leads replaces it.
 */
export const partialTransform: Transform = {
  object: (object) => {
    const { apiVersion, kind, metadata, status } = object as PartialReconcileFunction;
    for (const name of Object.keys(object)) delete (object as unknown as Record<string, unknown>)[name];
    const isKept = status !== undefined && formatJson(status).length <= MAX_STATUS;
    const kept: PartialReconcileFunction = {
      apiVersion,
      kind,
      metadata: identityOf(metadata),
      ...(isKept ? { status } : {}),
    };
    Object.assign(object, kept);
  },
  // The consumer reads the parsed form alone.
  text: () => '',
};

function identityOf(metadata: KubernetesObject['metadata']): ObjectMeta {
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp } = metadata;
  return {
    name,
    uid,
    resourceVersion,
    ...(namespace === undefined ? {} : { namespace }),
    ...(generation === undefined ? {} : { generation }),
    ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
  };
}
