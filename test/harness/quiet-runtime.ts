import { noCheckpoint, type Runtime, silentLogger, silentMetrics, systemClock } from '../../src/core/index.ts';

/** The system's clock, and nothing that is told to anyone, but for what a test brings of its own. */
export function quietRuntime(own: Partial<Runtime> = {}): Runtime {
  return { clock: systemClock, logger: silentLogger, metrics: silentMetrics, checkpoint: noCheckpoint, ...own };
}
