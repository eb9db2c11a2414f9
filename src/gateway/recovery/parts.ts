import type { Informer } from '../informer/cache/informer.ts';
import type { RunningController } from '../controller/running/controller.ts';
import type { UnrecordedEnd } from './unrecorded-runs.ts';

/** A part of Redis that recovery repairs: an informer's view, or a controller's queue. */
export type Part = Informer | RunningController;

/**
 * The state of a part, as this gateway knows it:
 *
 * - `unseen`, from the start: no check has found it in order since it was added, suspended or repaired, or since its
 *   controller has missed events.
 * - `sound`: a check has found it in order, and with a controller's queue all views that the controller needs.
 * - `awaited`: it is out of order and this gateway does not repair it. The leader repairs it, or the first list of a
 *   view is under way.
 * - `repairing`: this gateway, which leads, repairs it.
 * - `failed`: the repair has failed or was broken off, and the next check decides.
 *
 * A check that finds a loss makes a part `repairing` in the leader and `awaited` in a follower. A repair that ends
 * makes it `unseen` or `failed`, unless a check has made it `awaited` before the end. A check that finds no loss makes
 * `awaited` and `failed` `unseen`, and makes a controller, or in the leader a view, `sound` at its end.
 */
export type PartState = 'unseen' | 'sound' | 'awaited' | 'repairing' | 'failed';

interface PartRecord {
  state: PartState;
  /** Data missing in a view that was sound once were lost. A controller that was sound once has been let run. */
  wasSound: boolean;
  /** The repair that is under way. Never rejects. It may outlive the state `repairing`. */
  repair?: Promise<void> | undefined;
  /** The Redis process in which a controller's own runs were put back on record last. */
  putBackOn?: string;
  /** Another owner of the name has the controller's queue. */
  isForeign?: boolean;
  /** When unrecorded runs end, while the queue is lost. */
  unrecordedEnd?: UnrecordedEnd | undefined;
}

/** What recovery knows of each part. */
export class Parts {
  readonly #records = new WeakMap<Part, PartRecord>();

  of(part: Part): PartRecord {
    let record = this.#records.get(part);
    if (!record) this.#records.set(part, (record = { state: 'unseen', wasSound: false }));
    return record;
  }

  is(part: Part, state: PartState): boolean {
    return this.of(part).state === state;
  }

  /** Whether the part itself is out of order. */
  isBroken(part: Part): boolean {
    const { state } = this.of(part);
    return state === 'awaited' || state === 'repairing' || state === 'failed';
  }

  /** Whether the controller must not run, because its queue or a view that it reads is out of order. */
  isUnderRepair(controller: RunningController): boolean {
    return this.isBroken(controller) || controller.sources.needed.some((informer) => this.isBroken(informer));
  }

  /** A check has found the part in order. */
  found(part: Part): void {
    const record = this.of(part);
    record.state = 'sound';
    record.wasSound = true;
  }

  /** The controller was suspended or misses events: a check has to find it in order again. */
  unsettle(part: Part): void {
    const record = this.of(part);
    if (record.state === 'sound') record.state = 'unseen';
  }

  /** Follows a check. @param awaits whether this gateway leaves the part to the leader, or to its first list. */
  checked(part: Part, { isLost, awaits }: { isLost: boolean; awaits: boolean }): void {
    const record = this.of(part);
    if (awaits) record.state = 'awaited';
    else if (!isLost && (record.state === 'awaited' || record.state === 'failed')) record.state = 'unseen';
  }

  /** @param repair resolves with the state after it, and never rejects. */
  repair(part: Part, repair: Promise<'unseen' | 'failed'>): Promise<void> {
    const record = this.of(part);
    const untilRepaired = async (): Promise<void> => {
      const state = await repair;
      if (record.state === 'repairing') record.state = state;
      record.repair = undefined;
    };
    record.state = 'repairing';
    record.repair = untilRepaired();
    return record.repair;
  }
}
