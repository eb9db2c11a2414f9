import type { TestProject } from 'vitest/node';
import {
  type ControlPlane,
  type RedisServer,
  resolveBinary,
  startControlPlane,
  startRedis,
} from '../../src/testing/index.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** kubeconfig of the apiserver that all system tests share: use a namespace of your own there. */
    kubeconfig: string;
    /** The Redis that all system tests share: use a key prefix of your own there. */
    redisUrl: string;
  }
}

let plane: ControlPlane | undefined;
let redis: RedisServer | undefined;

/**
 * One control plane and one Redis for all system tests, with kube-controller-manager but without its ReplicaSet
 * controller. Tests that kill or restart a part start one of their own. On a machine without the binaries this builds
 * them first, which takes minutes and says so.
 */
export async function setup(project: TestProject): Promise<void> {
  const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
  // For tests that look from outside, as a user would.
  await resolveBinary('kubectl', { onProgress });
  redis = await startRedis({ onProgress, ignoreEnvironment: true });
  plane = await startControlPlane({
    kubeControllerManager: { controllers: ['*', '-replicaset-controller'] },
    onProgress,
  });
  project.provide('kubeconfig', plane.kubeconfig);
  project.provide('redisUrl', redis.url);
}

export async function teardown(): Promise<void> {
  await plane?.stop();
  await redis?.stop();
}
