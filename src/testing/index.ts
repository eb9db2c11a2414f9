export type { BinaryName } from './binaries/binary-name.ts';
export type { ResolveBinaryOptions } from './binaries/binary-options.ts';
export { resolveBinary } from './binaries/resolve-binary.ts';
export { etcdVersion, kubernetesVersion, kwokVersion } from './binaries/versions.ts';
export type {
  ControlPlane,
  ControlPlaneOptions,
  ControlPlanePart,
  ControlPlaneUser,
  KubeControllerManagerOptions,
} from './control-plane/control-plane.ts';
export { MemoryStore } from '../gateway/workqueue/memory-store.ts';
export { MemoryWorkQueue } from '../gateway/workqueue/memory-work-queue.ts';
export { startControlPlane } from './control-plane/start-control-plane.ts';
export type { Environment } from './process/environment.ts';
export { stopLeftovers } from './process/process-record.ts';
export { type GivenObject, MemoryApiserver, type MemoryApiserverOptions } from './reconciler/memory-apiserver.ts';
export { RealApiserver } from './reconciler/real-apiserver.ts';
export type { Refusal } from './reconciler/refusal.ts';
export type { ApiserverRequest, Verb } from './reconciler/request.ts';
export { type ReconcilerRun, runReconciler, type RunReconcilerOptions } from './reconciler/run-reconciler.ts';
export { type Fault, type RecordedRequest, type RequestPattern, TestApiserver } from './reconciler/test-apiserver.ts';
export { testContext, type TestContextOptions } from './reconciler/test-context.ts';
export type { RedisServer, StartRedisOptions } from './redis/redis-server.ts';
export { startRedis } from './redis/start-redis.ts';
