/**
 * Runs one reconciler or webhook against an apiserver in memory or a real one. Code that starts servers is elsewhere,
 * so that this loads fast.
 */
export { type CustomResourceDefinition, readDefinitions } from './definitions.ts';
export { type GivenObject, MemoryApiserver, type MemoryApiserverOptions } from './memory-apiserver.ts';
export { RealApiserver } from './real-apiserver.ts';
export type { FakeApiFailure } from './fake-api-error.ts';
export type { ApiserverRequest, Verb } from './request.ts';
export { type ReconcilerRun, runReconciler, type RunReconcilerOptions } from './run-reconciler.ts';
export {
  type ConversionRun,
  type ReviewedWrite,
  type ReviewRun,
  roundTrip,
  runConversion,
  runReview,
  type RunReviewOptions,
} from './run-review.ts';
export { type Fault, type RecordedRequest, type RequestPattern, TestApiserver } from './test-apiserver.ts';
export { testContext, type TestContextOptions } from './test-context.ts';
