import { isDeepStrictEqual } from 'node:util';
import { type Condition, idOf, messageOf, type Runtime } from '../../core/index.ts';
import type { ControllerStateWord } from '../controller/running/controller-state.ts';
import type { Controllers } from '../controller/running/controllers.ts';
import { type Finding, type Findings, statusOf } from './conditions.ts';
import type { FunctionStatusWriter } from './function-status-writer.ts';
import type { PartialReconcileFunction, ReconcileFunctionStatus } from './reconcile-function.ts';

export interface FunctionStatusOptions {
  readonly controllers: Pick<Controllers, 'log'>;
  readonly writer: FunctionStatusWriter;
  readonly runtime: Pick<Runtime, 'clock'>;
}

/** The parts of a status that are not findings. */
export interface Reported {
  readonly url: string | undefined;
  /** Why it does not run. Undefined: it runs, or is about to. */
  readonly failure: Finding | undefined;
  /** Of its controller; undefined while it does not run. */
  readonly state: ControllerStateWord | undefined;
}

export const NOT_CHECKED: Finding = { status: 'Unknown', reason: 'NotChecked', message: 'Not checked yet.' };

/**
 * The status of one ReconcileFunction: the findings behind its conditions, and the status that this gateway wrote last.
 * `write` writes it when a finding has changed it, and when another writer has.
 */
export class FunctionStatus {
  readonly #options: FunctionStatusOptions;
  #findings: Findings = {
    Authorized: NOT_CHECKED,
    Synced: NOT_CHECKED,
    EventsHandled: NOT_CHECKED,
    Reachable: NOT_CHECKED,
    Paused: NOT_CHECKED,
  };
  #written: ReconcileFunctionStatus | undefined;
  /** The object's status differs from the status that was written last. */
  #isForeign = false;

  constructor(object: PartialReconcileFunction, options: FunctionStatusOptions) {
    this.#options = options;
    this.#written = object.status;
  }

  /** The status that was written last; undefined: none was. */
  get written(): ReconcileFunctionStatus | undefined {
    return this.#written;
  }

  /** Begins from the status of the object, which the gateway that led before has written. */
  adopt(object: PartialReconcileFunction): void {
    this.#written = object.status;
  }

  /**
   * The object with the status as it was written last, if that came back: one copy is enough, whose texts are shared.
   */
  withoutCopy(object: PartialReconcileFunction): PartialReconcileFunction {
    const status = this.#written;
    return status && isDeepStrictEqual(object.status, status) ? { ...object, status } : object;
  }

  record(found: Partial<Findings>): void {
    this.#findings = { ...this.#findings, ...found };
  }

  /** @returns whether another writer has changed the status of the object; then the next `write` makes it good. */
  noticeOthers(object: PartialReconcileFunction): boolean {
    // Our own writes come back, too.
    if (isDeepStrictEqual(object.status, this.#written)) return false;
    this.#isForeign = true;
    return true;
  }

  /** Writes the status if it has changed. @returns false when it could not be written. */
  async write(object: PartialReconcileFunction, reported: Reported, signal: AbortSignal): Promise<boolean> {
    const { controllers, runtime, writer } = this.#options;
    const { clock } = runtime;
    const { generation } = object.metadata;
    const before = this.#withOthers(object);
    const now = { generation, ...reported, nowMs: clock.wallNow() };
    const status = statusOf(before, this.#findings, now);
    const { status: seen } = object;
    const isForged = this.#isForeign && statusOf(seen, this.#findings, now) !== seen;
    this.#isForeign = false;
    if (status === before && !isForged) return true;
    try {
      await writer.write(object, this.#written, status, signal);
      this.#written = status;
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      controllers.log.write('warn', idOf(object), { error: messageOf(error) }, 'a status could not be written');
      return false;
    }
  }

  /**
   * The status with our conditions as they were written last, and the conditions of others as the object has them now.
   */
  #withOthers(object: PartialReconcileFunction): ReconcileFunctionStatus | undefined {
    const isOurs = ({ type }: Condition): boolean => type === 'Ready' || Object.hasOwn(this.#findings, type);
    const ours = (this.#written?.conditions ?? []).filter(isOurs);
    const others = (object.status?.conditions ?? []).filter((each) => !isOurs(each));
    if (!this.#written && others.length === 0) return undefined;
    return { ...this.#written, conditions: [...ours, ...others] };
  }
}
