import type { Checkpoint } from './checkpoint.ts';
import type { Clock } from './clock.ts';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';
import type { Traces } from './traces.ts';

/** Dependencies that the parts of a gateway share. Passed on whole; a part that needs less asks for a `Pick` of it. */
export interface Runtime {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Called at the named points between two steps. */
  readonly checkpoint: Checkpoint;
  /** Default: there are no traces. */
  readonly traces?: Traces | undefined;
}
