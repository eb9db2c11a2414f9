import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { boundedText, type Clock, type Logger, messageOf } from '../../../core/index.ts';
import type { Replay, ReplayRecords } from '../../controller/workqueue/records/replay-records.ts';

export interface ReplaysOptions {
  readonly records: Pick<ReplayRecords, 'begin' | 'report'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger;
}

/** Progress is recorded at most once in this time; begin and end always. */
const REPORT_MS = 1000;

/** Runs replays of many dead letters, which go on after the request that began them, and records their progress. */
export class Replays {
  readonly #options: ReplaysOptions;

  constructor(options: ReplaysOptions) {
    this.#options = options;
  }

  /**
   * Begins a replay; a controller has one at a time, over all gateways.
   * @returns false when one of this controller is under way. The work's failure shows in the replay.
   */
  async start(
    controller: string,
    label: string,
    work: (onProgress: (done: number, total: number) => void) => Promise<number>,
  ): Promise<boolean> {
    const { clock, records } = this.#options;
    const begun = { id: randomUUID(), controller, label, gateway: hostname(), startedMs: clock.now(), done: 0 };
    if (!(await records.begin(begun))) return false;
    void this.#run(begun, work);
    return true;
  }

  /** Never rejects. */
  async #run(
    begun: Omit<Replay, 'seenMs'>,
    work: (onProgress: (done: number, total: number) => void) => Promise<number>,
  ): Promise<void> {
    const { clock } = this.#options;
    let replay = begun;
    let reportedMs = clock.now();
    // One report after the other: the last one is the state that stays.
    let reporting = Promise.resolve();
    const report = (): void => {
      const state = replay;
      reportedMs = clock.now();
      reporting = reporting.then(() => this.#report(state));
    };
    try {
      const done = await work((queued, total) => {
        replay = { ...replay, done: queued, total };
        if (clock.now() >= reportedMs + REPORT_MS) report();
      });
      replay = { ...replay, done, endedMs: clock.now() };
    } catch (error) {
      replay = { ...replay, endedMs: clock.now(), error: boundedText(messageOf(error), 1024) };
    }
    report();
    await reporting;
  }

  async #report(replay: Omit<Replay, 'seenMs'>): Promise<void> {
    const { logger, records } = this.#options;
    const { controller } = replay;
    await records.report(replay).catch((error: unknown) => {
      logger.warn({ controller, error: messageOf(error) }, 'the progress of a replay could not be recorded');
    });
  }
}
