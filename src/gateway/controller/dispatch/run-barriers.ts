import {
  type AdmittedLine,
  boundedText,
  type LogFields,
  messageOf,
  type ResourceVersion,
  type Runtime,
  tenantOf,
} from '../../../core/index.ts';
import type { Write } from '../../../contract/index.ts';
import type { View } from '../../informer/cache/view.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import { TimeLimitError } from '../cel/time-limit.ts';
import { GroupCommit } from '../workqueue/worker/group-commit.ts';
import { Barriers } from './barrier.ts';

/** A view that a controller reads, with the questions to the apiserver about it. */
export interface DispatchView {
  readonly view: View;
  /**
   * Whether the view has ever been complete. A barrier on the server's current state leaves out other views. Default:
   * it has.
   */
  readonly isComplete?: () => boolean;
  /** The resource's version at the apiserver, read consistently. */
  readonly currentVersion: () => Promise<ResourceVersion | undefined>;
  /** Asks the apiserver for an event that moves the view's version. */
  readonly requestProgress: () => void;
}

export interface RunBarriersOptions {
  /** In metrics and logs. */
  readonly controller: string;
  readonly views: readonly DispatchView[];
  /** Pays for encoding and reading barriers, which are as large as a function's list of writes. */
  readonly budget: Pick<CpuBudget, 'charge' | 'run' | 'inTurn'>;
  /** Whether Redis has no memory for more of its keys now. */
  readonly isLeftOut: () => boolean;
  /** Whether a line about a late barrier may be logged. */
  readonly admitLine: () => AdmittedLine | undefined;
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
}

/**
 * The limit of a barrier in bytes: the names of some 20 deleted objects. Redis keeps the barrier while its key waits,
 * and sends it at each check.
 */
const LONGEST_BARRIER = 2048;
/**
 * The limit while the apiserver does not give its current version. Without it, a run that has deleted up to some 400
 * objects would count as lost.
 */
const LONGEST_WITHOUT_SERVER = 32 * 1024;
/** The limit while Redis has no memory for more of the controller's keys: a few written objects. */
const LONGEST_LEFT_OUT = 512;

/** How fast Redis looks at the entries of deleted objects: measured for entries of 300 KB. */
const BYTES_PER_MS = 1024 * 1024;

/** How long a check waits for the controller's processor time: who checks waits, too, also when the gateway stops. */
const TURN_MS = 1000;

/** Characters of a barrier in the log. */
const MOST_LOGGED = 256;

/** How often the apiserver is asked for the version of a view, however many barriers are late. */
const ASK_EVERY_MS = 1000;
/** Below every version of a server. */
const BEFORE_ALL = '1';

/**
 * Makes and checks the barriers between the runs of a controller's keys. It asks the apiserver for its current version
 * where a run's writes are unknown, and for progress where a barrier is late.
 */
export class RunBarriers {
  readonly #options: RunBarriersOptions;
  readonly #barriers: Barriers;
  /** Asks once for all waiting runs, because an answer holds for each run that ended before the request was sent. */
  readonly #ofNow: GroupCommit<undefined, string | undefined>;
  /** When the version of a view at the server was last asked for. */
  readonly #askedAtMs = new Map<View, number>();

  constructor(options: RunBarriersOptions) {
    this.#options = options;
    const views = options.views.map(({ view }) => view);
    this.#barriers = new Barriers(views, options.runtime.clock);
    const ask = async (runs: readonly undefined[]): Promise<(string | undefined)[]> => {
      const barrier = await this.#askOfNow();
      return runs.map(() => barrier);
    };
    this.#ofNow = new GroupCommit(ask, { limit: Infinity });
  }

  /**
   * Returns a barrier that passes when the cache shows these writes; undefined when it holds none of the objects.
   * @throws when the barrier would be very long, and the apiserver does not give its current version
   */
  async afterWrites(writes: readonly Write[]): Promise<string | undefined> {
    if (writes.length === 0) return undefined;
    const barrier = await this.#options.budget.run(() => this.#barriers.afterWrites(writes));
    const bytes = Buffer.byteLength(barrier ?? '');
    const isLeftOut = this.#options.isLeftOut();
    if (bytes <= (isLeftOut ? LONGEST_LEFT_OUT : LONGEST_BARRIER)) return barrier;
    // The server's current version is after all of these writes, and is one line.
    const now = this.ofNow();
    if (bytes > LONGEST_WITHOUT_SERVER || isLeftOut) return now;
    return (await now.catch(() => undefined)) ?? barrier;
  }

  /**
   * Returns a barrier that passes when the cache shows the server's current state, for runs whose writes are unknown.
   * @throws when the apiserver does not give its current version
   */
  ofNow(): Promise<string | undefined> {
    return this.#ofNow.submit(undefined);
  }

  async #askOfNow(): Promise<string | undefined> {
    const versions = await Promise.all(
      this.#options.views
        .filter(({ isComplete }) => isComplete?.() ?? true)
        .map(async ({ view, currentVersion }) => [view, await currentVersion()] as const),
    );
    // No event reports writes of a kind that is not served.
    const served = versions.flatMap(([view, version]) => (version === undefined ? [] : [[view, version] as const]));
    return this.#barriers.afterLost(new Map(served));
  }

  /** See `Process`. While the controller has no time, a barrier is not checked. */
  async passed(barrier: string): Promise<boolean | undefined> {
    const { budget, controller } = this.#options;
    const paid = (bytes: number): unknown => budget.charge(bytes / BYTES_PER_MS);
    try {
      return await budget.inTurn(() => this.#barriers.passed(barrier, { tenant: tenantOf(controller), paid }), TURN_MS);
    } catch (error) {
      if (error instanceof TimeLimitError) return undefined;
      throw error;
    }
  }

  /** See `Process`. */
  late(barrier: string): void {
    this.#options.budget.run(() => this.#askForLate(barrier));
  }

  #askForLate(barrier: string): void {
    const waitedFor = new Set(this.#barriers.viewsOf(barrier));
    for (const each of this.#options.views) {
      if (!waitedFor.has(each.view)) continue;
      // The server's version is read first: if a write never happened, no progress of the view lets the barrier pass.
      if (this.#barriers.hasHighWaterMark(barrier, each.view)) each.requestProgress();
      else void this.#askHighWaterMark(barrier, each);
    }
  }

  async #askHighWaterMark(barrier: string, { view, currentVersion, requestProgress }: DispatchView): Promise<void> {
    const { controller, runtime } = this.#options;
    const { clock, metrics } = runtime;
    const askedAtMs = clock.now();
    // Barriers that are late together share one answer; an apiserver that is away is not asked at each tick.
    if (askedAtMs - (this.#askedAtMs.get(view) ?? 0) < ASK_EVERY_MS) return;
    this.#askedAtMs.set(view, askedAtMs);
    try {
      const { incarnation } = await view.record.state();
      const version = await currentVersion();
      // A kind that is not served has no events, so any version of its view is new enough.
      this.#barriers.learn(view, { version: version ?? BEFORE_ALL, incarnation, askedAtMs });
      if (version === undefined || !this.#barriers.isImpossible(barrier, view)) return;
      metrics.count('levelhook_impossible_writes_total', { controller });
      const fields = { resource: view.name, barrier: boundedText(barrier, MOST_LOGGED) };
      this.#warn(fields, 'a barrier waits for a version that the server does not have');
    } catch (error) {
      this.#warn({ resource: view.name, error: messageOf(error) }, 'the version of a resource could not be read');
      requestProgress();
    }
  }

  #warn(fields: LogFields, message: string): void {
    const { admitLine, controller, runtime } = this.#options;
    const admitted = admitLine();
    if (admitted) runtime.logger.warn({ controller, ...fields, ...admitted }, message);
  }
}
