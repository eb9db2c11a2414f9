import { type ControlPlane, type RedisServer, startControlPlane, startRedis } from '../../src/testing/index.ts';
import { Cluster } from './cluster.ts';
import type { Started } from './started.ts';

/** The forms of a first list: streamed, or in pages if the apiserver has no streaming lists. */
export const LIST_FORMS = ['stream', 'pages'] as const;

/** Starts a control plane that lists in this form, and a Redis, for one test. */
export async function startListingPlane(
  started: Started,
  by: (typeof LIST_FORMS)[number],
): Promise<{ redis: RedisServer; plane: ControlPlane; cluster: Cluster }> {
  const redis = await startRedis({ ignoreEnvironment: true });
  started.add(() => redis.stop());
  const gates = by === 'pages' ? { apiserverArguments: ['--feature-gates=WatchList=false'] } : {};
  const plane = await startControlPlane(gates);
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  return { redis, plane, cluster };
}
