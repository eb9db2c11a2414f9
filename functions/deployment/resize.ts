import { type ApiWriter, keyOf, type ObjectEvents } from 'levelhook/function';
import { ReplicaSet } from '../lib/replica-set.ts';
import { scaleAnnotations } from './annotations.ts';
import type { Deployment, Sizes } from './types.ts';

/**
 * Gives the ReplicaSets their sizes and notes what they are made for. Those that shrink go first, one after the other,
 * and a failure stops it: at no time are more pods wanted than before or afterwards.
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
 * Refused when it has another size by now, since the step was planned with this one. Not by its version: that changes
 * with its status, of every pod that becomes ready.
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
