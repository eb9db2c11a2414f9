import {
  ApiError,
  type ApiWriter,
  controllerReference,
  isControlledBy,
  keyOf,
  messageOf,
  type NewObject,
  type ObjectEvents,
} from 'levelhook/function';
import { isNamespaceTerminating } from '../lib/refusals.ts';
import { ReplicaSet } from '../lib/replica-set.ts';
import { missingAnnotations, revisionOf, scaleAnnotations } from './annotations.ts';
import { withProgressing } from './conditions.ts';
import { totalReplicas } from './revisions.ts';
import { currentReplicas } from './rolling.ts';
import { countedStatus, writeStatus } from './status.ts';
import { replicaSetName, sameTemplate, TEMPLATE_HASH, templateHash, withoutHash } from './template.ts';
import { Deployment } from './types.ts';

/**
 * The current ReplicaSet with the right annotations and minReadySeconds: one write if something is missing. Annotations
 * alone are no reason to write while its revision cannot be read (`SetNewReplicaSetAnnotations` of
 * kube-controller-manager).
 */
export async function updateCurrent(
  deployment: Deployment,
  current: ReplicaSet,
  old: readonly ReplicaSet[],
  api: ApiWriter,
): Promise<ReplicaSet> {
  const annotations = missingAnnotations(deployment, old, current);
  const { minReadySeconds = 0 } = deployment.spec;
  const isNoted = Object.keys(annotations).length === 0 || revisionOf(current) === undefined;
  if (isNoted && (current.spec.minReadySeconds ?? 0) === minReadySeconds) return current;
  const body = { metadata: { uid: current.metadata.uid, annotations }, spec: { minReadySeconds } };
  return api.patch(ReplicaSet, keyOf(current), { type: 'merge', body });
}

/**
 * Creates the ReplicaSet of the current template, as large as the rollout allows at once. Returns undefined when
 * nothing can be created in the namespace any more, and when admission has changed the ReplicaSet's template: it would
 * change the next one's, too, and so on without end. Any other failure is reported in the status before it is thrown.
 */
export async function createCurrent(
  deployment: Deployment,
  old: readonly ReplicaSet[],
  events: ObjectEvents,
  api: ApiWriter,
): Promise<ReplicaSet | undefined> {
  const rs = newReplicaSet(deployment, old);
  const { name } = rs.metadata;
  try {
    const current = await api.create(ReplicaSet, rs);
    if (!sameTemplate(current.spec.template, deployment.spec.template)) {
      return await stopFor(current, deployment, old, events, api);
    }
    if (rs.spec.replicas > 0)
      events.normal('ScalingReplicaSet', `Scaled up replica set ${name} from 0 to ${rs.spec.replicas}`);
    return current;
  } catch (error) {
    if (isNamespaceTerminating(error)) return undefined;
    if (error instanceof ApiError && error.reason === 'AlreadyExists') {
      const current = await api.get(ReplicaSet, { namespace: deployment.metadata.namespace ?? '', name });
      if (current && isCurrent(deployment, current)) return current;
      if (current && isChanged(deployment, current)) return await stopFor(current, deployment, old, events, api);
      // Without it there is no collision any more: it was deleted since.
      if (current) await writeStatus(deployment, withCollision(deployment), api);
    } else {
      const message = `Failed to create new replica set "${name}": ${messageOf(error)}`;
      events.warning('ReplicaSetCreateError', message);
      await writeStatus(deployment, withProgressing(deployment, 'False', 'ReplicaSetCreateError', message), api);
    }
    throw error;
  }
}

function newReplicaSet(
  deployment: Deployment,
  old: readonly ReplicaSet[],
): NewObject<ReplicaSet> & { metadata: { name: string } } {
  const { metadata, spec } = deployment;
  const hash = templateHash(spec.template, deployment.status.collisionCount);
  const labels = { ...spec.template.metadata?.labels, [TEMPLATE_HASH]: hash };
  const matchLabels = { ...spec.selector.matchLabels, [TEMPLATE_HASH]: hash };
  const rolling = spec.strategy.type === 'RollingUpdate';
  return {
    metadata: {
      ...(metadata.namespace === undefined ? {} : { namespace: metadata.namespace }),
      name: replicaSetName(metadata.name, hash),
      labels,
      annotations: { ...missingAnnotations(deployment, old), ...scaleAnnotations(deployment) },
      ownerReferences: [controllerReference(Deployment, deployment)],
    },
    spec: {
      replicas: rolling ? currentReplicas(deployment, 0, totalReplicas(old)) : spec.replicas,
      minReadySeconds: spec.minReadySeconds ?? 0,
      selector: { ...spec.selector, matchLabels },
      template: { ...spec.template, metadata: { ...spec.template.metadata, labels } },
    },
  };
}

/** A run with a lost outcome created it. */
function isCurrent(deployment: Deployment, rs: ReplicaSet): boolean {
  return isControlledBy(rs, deployment) && sameTemplate(rs.spec.template, deployment.spec.template);
}

/**
 * Its hash shows that it was created from the current template, and admission has changed it. False for a hash
 * collision.
 */
function isChanged(deployment: Deployment, rs: ReplicaSet): boolean {
  const { spec, status } = deployment;
  const hash = templateHash(spec.template, status.collisionCount);
  const isOwn = isControlledBy(rs, deployment) && rs.metadata.labels?.[TEMPLATE_HASH] === hash;
  return isOwn && templateHash(withoutHash(rs.spec.template), status.collisionCount) !== hash;
}

/** Reports once why the rollout stops, and keeps the counts of the status right. */
async function stopFor(
  { metadata: { name } }: ReplicaSet,
  deployment: Deployment,
  old: readonly ReplicaSet[],
  events: ObjectEvents,
  api: ApiWriter,
): Promise<undefined> {
  const message =
    `Admission has changed the template of the new replica set "${name}": change the policy or webhook, ` +
    'and then delete the replica set or change the template';
  events.warning('ReplicaSetTemplateChanged', message);
  const stopped = withProgressing(deployment, 'False', 'ReplicaSetTemplateChanged', message);
  const status = countedStatus(stopped, { current: undefined, old }, Date.now());
  await writeStatus(deployment, { ...stopped, status }, api);
}

/** Counts a collision, which changes the next hash. */
function withCollision(deployment: Deployment): Deployment {
  const { status } = deployment;
  return { ...deployment, status: { ...status, collisionCount: (status.collisionCount ?? 0) + 1 } };
}
