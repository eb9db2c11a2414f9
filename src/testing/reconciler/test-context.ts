import { type Logger, type Resource, silentLogger, systemClock } from '../../core/index.ts';
import { ApiWriter } from '../../function/api-writer.ts';
import type { Context } from '../../function/controller.ts';
import { LiveReader } from './live-reader.ts';
import { describeRelated } from '../../function/source.ts';
import type { TestApiserver } from './test-apiserver.ts';

export interface TestContextOptions {
  readonly apiserver: TestApiserver;
  /** The kinds in the cache. */
  readonly cached?: readonly Resource[];
  /** Default: 15. */
  readonly timeoutSeconds?: number;
  /** Aborted as if the gateway had hung up. Default: never. */
  readonly signal?: AbortSignal;
  /** Default: nothing is logged. */
  readonly logger?: Logger;
}

/** Makes the context of a run, for a test of a part of a reconciler. To test a whole run see `runReconciler`. */
export function testContext({
  apiserver,
  cached = [],
  logger = silentLogger,
  ...options
}: TestContextOptions): Context {
  const { timeoutSeconds = 15, signal = new AbortController().signal } = options;
  const deadlineMs = systemClock.now() + timeoutSeconds * 1000;
  return {
    cache: liveCache(apiserver, cached, { signal, deadlineMs }),
    api: new ApiWriter(apiserver.transport, { signal, deadlineMs }),
    log: logger,
    related: describeRelated,
    signal,
  };
}

/** Its requests are not recorded with the function's. */
export function liveCache(
  apiserver: TestApiserver,
  resources: readonly Resource[],
  run: { signal: AbortSignal; deadlineMs: number },
  secondsUnchanged: Readonly<Record<string, number>> = {},
): LiveReader {
  return new LiveReader(new ApiWriter(apiserver.direct, run), resources, secondsUnchanged);
}
