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
export { startControlPlane } from './control-plane/start-control-plane.ts';
export type { Environment } from './process/environment.ts';
export { stopLeftovers } from './process/process-record.ts';
export {
  type ApiserverRequest,
  type ConversionRun,
  type CustomResourceDefinition,
  type FakeApiFailure,
  type Fault,
  type GivenObject,
  MemoryApiserver,
  type MemoryApiserverOptions,
  readDefinitions,
  RealApiserver,
  type ReconcilerRun,
  type RecordedRequest,
  type RequestPattern,
  type ReviewedWrite,
  type ReviewRun,
  roundTrip,
  runConversion,
  runReconciler,
  type RunReconcilerOptions,
  runReview,
  type RunReviewOptions,
  TestApiserver,
  testContext,
  type TestContextOptions,
  type Verb,
} from './reconciler/index.ts';
export type { RedisServer, StartRedisOptions } from './redis/redis-server.ts';
export { startRedis } from './redis/start-redis.ts';
