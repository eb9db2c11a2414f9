import { type ApiWriter, keyOf, type ObjectEvents } from 'levelhook/function';
import { ReplicaSet } from '../lib/replica-set.ts';
import { scaleAnnotations } from './annotations.ts';
import type { Deployment, Sizes } from './types.ts';

/**
 * Sets the sizes of the ReplicaSets and stores the Deployment's sizes on them. ReplicaSets that shrink come first, one
 * after the other, and a failure stops it: there are never more pods wanted than before or afterwards.
 */
export async function resize(
  deployment: Deployment,
  sizes: Sizes,
  events: ObjectEvents,
  api: ApiWriter,
): Promise<void> {
  const annotations = scaleAnnotations(deployment);
  const shrinkingFirst = sizes.toSorted((a, b) => growth(a) - growth(b));
  for (const { rs, replicas } of shrinkingFirst) {
    const before = rs.spec.replicas;
    const noted = Object.entries(annotations).every(([name, value]) => rs.metadata.annotations?.[name] === value);
    if (replicas === before && noted) continue;
    await api.patch(ReplicaSet, keyOf(rs), { type: 'json', body: operations(rs, replicas, annotations) });
    if (replicas === before) continue;
    const direction = replicas > before ? 'up' : 'down';
    events.normal(
      'ScalingReplicaSet',
      `Scaled ${direction} replica set ${rs.metadata.name} from ${before} to ${replicas}`,
    );
  }
}

function growth({ rs, replicas }: Sizes[number]): number {
  return replicas - rs.spec.replicas;
}

/**
 * Refused when the size has changed, since the step was planned with this size. The version is not compared, because it
 * changes with the status, whenever a pod becomes ready.
 */
function operations(rs: ReplicaSet, replicas: number, annotations: Readonly<Record<string, string>>): object[] {
  return [
    { op: 'test', path: '/metadata/uid', value: rs.metadata.uid },
    { op: 'test', path: '/spec/replicas', value: rs.spec.replicas },
    { op: 'replace', path: '/spec/replicas', value: replicas },
    ...(rs.metadata.annotations ? [] : [{ op: 'add', path: '/metadata/annotations', value: {} }]),
    ...Object.entries(annotations).map(([name, value]) => {
      return { op: 'add', path: `/metadata/annotations/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, value };
    }),
  ];
}
