import type { Context, ObjectEvents } from 'levelhook/function';
import type { ReplicaSet } from '../lib/replica-set.ts';
import { cleanUp } from './cleanup.ts';
import { withProgressing } from './conditions.ts';
import { createCurrent } from './current.ts';
import { oldPodsRun, secondsToLookAgain, withoutPods } from './recreate.ts';
import { isComplete } from './progress.ts';
import { resize } from './resize.ts';
import { rollingStep } from './rolling.ts';
import type { Deployment, Revisions } from './types.ts';

/** The result of a step. */
export interface Step {
  /** With its progress. */
  readonly deployment: Deployment;
  readonly current: ReplicaSet | undefined;
  /** Run again after this time, because nothing may wake the key before. */
  readonly lookAgainSeconds?: number | undefined;
}

/**
 * Takes the rollout one step further, by its strategy. Undefined when nothing can be created in the namespace any more.
 */
export async function rollOut(
  deployment: Deployment,
  revisions: Revisions,
  events: ObjectEvents,
  { cache, api }: Context,
): Promise<Step | undefined> {
  const { old } = revisions;
  const recreate = deployment.spec.strategy.type === 'Recreate';
  if (recreate) {
    const leaving = withoutPods(old);
    await resize(deployment, leaving, events, api);
    if (leaving.length > 0) return { deployment, current: revisions.current };
    if (await oldPodsRun(old, cache)) {
      return { deployment, current: revisions.current, lookAgainSeconds: secondsToLookAgain(old) };
    }
  }

  const current = revisions.current ?? (await createCurrent(deployment, old, events, api));
  if (!current) return undefined;
  const { replicas } = deployment.spec;
  const sizes = recreate ? [{ rs: current, replicas }] : rollingStep(deployment, current, old);
  const changes = sizes.filter((size) => size.replicas !== size.rs.spec.replicas);
  await resize(deployment, changes, events, api);
  if (changes.length === 0 && isComplete(deployment, deployment.status)) await cleanUp(deployment, old, api);
  if (revisions.current) return { deployment, current };
  const message = `Created new replica set "${current.metadata.name}"`;
  return { deployment: withProgressing(deployment, 'True', 'NewReplicaSetCreated', message), current };
}
