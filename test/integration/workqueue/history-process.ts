import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from '../../harness/machine-clock.ts';
import type { Finish, Process, Run } from '../../../src/gateway/workqueue/work-queue.ts';
import { backoffMs } from '../../../src/gateway/workqueue/rate-limiter.ts';

/** One run as it was: from its first to its last moment, on the clock that all processes of a machine share. */
export interface RunRecord {
  readonly key: string;
  readonly run: number;
  readonly startMs: number;
  readonly endMs: number;
  /** What it asked for. */
  readonly againAfterMs?: number;
}

/** How often a key asks to be run again whose name begins with `chain/`: by nothing but its timers, and in no time. */
export const CHAIN_LENGTH = 40;

/** Runs of 0 to 8 ms that succeed, fail, or ask to be run again, by chance. */
export class HistoryProcess implements Process {
  readonly #random: () => number;
  readonly #record: (record: RunRecord) => void;

  constructor(random: () => number, record: (record: RunRecord) => void) {
    this.#random = random;
    this.#record = record;
  }

  async run({ key, run, failures }: Run): Promise<Finish> {
    const startMs = machineMs();
    const random = this.#random;
    // A process is busy with something else at times, between any two steps of the queue.
    if (random() < 0.05) spin(random() * 10);
    if (key.startsWith('chain/')) {
      const again = failures < CHAIN_LENGTH ? { againAfterMs: Math.floor(random() * 20) } : {};
      this.#record({ key, run, startMs, endMs: machineMs(), ...again });
      return { kind: 'known', failures: failures < CHAIN_LENGTH ? 'count' : 'forget', ...again };
    }
    if (random() < 0.8) await sleep(Math.floor(random() * 9));
    const chance = random();
    const finish: Finish =
      chance < 0.1
        ? { kind: 'known', failures: 'count', againAfterMs: backoffMs(failures + 1) }
        : chance < 0.2
          ? { kind: 'known', failures: 'forget', againAfterMs: Math.floor(random() * 300) }
          : { kind: 'known', failures: 'forget' };
    const again = 'againAfterMs' in finish ? { againAfterMs: finish.againAfterMs } : {};
    this.#record({ key, run, startMs, endMs: machineMs(), ...again });
    return finish;
  }

  async lost(): Promise<Finish & { readonly kind: 'known' }> {
    throw new Error('no run is ever lost here');
  }

  async passed(): Promise<boolean> {
    return true;
  }

  late(): void {}
}

function spin(ms: number): void {
  for (const end = machineMs() + ms; machineMs() < end;);
}
