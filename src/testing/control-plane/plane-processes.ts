import { systemClock } from '../../core/clock.ts';
import { UserError } from '../../core/errors.ts';
import { freePort } from '../process/free-port.ts';
import { endedError, ManagedProcess, portWasTaken, type ProcessSpec } from '../process/managed-process.ts';
import { ProcessRecord } from '../process/process-record.ts';
import { type ControlPlanePart, controlPlaneParts } from './control-plane.ts';
import { partArguments, type PlaneLayout } from './part-arguments.ts';
import type { PlaneApi } from './plane-api.ts';
import { readyChecks } from './readiness.ts';

const readyWithinMs = 90_000;
const pollMs = 50;

/** The processes of one control plane: starts each until it is ready, restarts and ends them. */
export class PlaneProcesses {
  readonly #layout: PlaneLayout;
  readonly #api: PlaneApi;
  readonly #record: ProcessRecord;
  readonly #specs = new Map<ControlPlanePart, ProcessSpec>();
  readonly #processes = new Map<ControlPlanePart, ManagedProcess>();
  readonly #starting = new Map<ControlPlanePart, Promise<void>>();

  constructor(layout: PlaneLayout, api: PlaneApi) {
    this.#layout = layout;
    this.#api = api;
    this.#record = new ProcessRecord(layout.files.directory);
  }

  /** Starts a part for the first time, and once more on other ports if another process has taken its port. */
  async startFirst(part: ControlPlanePart, command: string): Promise<void> {
    const spec = (): ProcessSpec => ({
      name: part,
      command,
      args: partArguments[part](this.#layout),
      directory: this.#layout.files.directory,
      logFile: this.#layout.files.log(part),
    });
    const first = spec();
    try {
      await this.#startUntilReady(part, first);
    } catch (error) {
      if (this.pid(part) !== undefined || !portWasTaken(first)) throw error;
      const { ports } = this.#layout;
      ports[part] = await freePort();
      if (part === 'etcd') ports['etcd-peer'] = await freePort();
      await this.#startUntilReady(part, spec());
    }
  }

  /**
   * Restarts a part with its former arguments, unless it runs. Concurrent calls share one start, and all wait for it.
   */
  async startAgain(part: ControlPlanePart): Promise<void> {
    const spec = this.#specs.get(part);
    if (!spec) throw new UserError(`This control plane has no ${part}: ask startControlPlane for it`);
    if (!this.#starting.has(part)) {
      if (this.pid(part) !== undefined) return;
      const starting = this.#startUntilReady(part, spec).finally(() => this.#starting.delete(part));
      this.#starting.set(part, starting);
    }
    await this.#starting.get(part);
  }

  async kill(part: ControlPlanePart, signal: NodeJS.Signals): Promise<void> {
    await this.#processes.get(part)?.kill(signal);
  }

  pid(part: ControlPlanePart): number | undefined {
    const process = this.#processes.get(part);
    return process?.alive ? process.pid : undefined;
  }

  /** Ends every part, in reverse order of their start. */
  async stop(): Promise<void> {
    for (const part of controlPlaneParts.toReversed()) await this.#processes.get(part)?.stop();
  }

  async #startUntilReady(part: ControlPlanePart, spec: ProcessSpec): Promise<void> {
    const { signal } = this.#layout.options;
    signal?.throwIfAborted();
    const process = await ManagedProcess.start(spec, this.#record);
    this.#specs.set(part, spec);
    this.#processes.set(part, process);
    const end = systemClock.now() + readyWithinMs;
    // If another process has taken the port, the check may wait long for an answer after our own process has ended.
    const ended = process.ended.then(() => false);
    while (!(await Promise.race([readyChecks[part](this.#layout, this.#api), ended]))) {
      signal?.throwIfAborted();
      if (!process.alive) throw endedError(spec);
      if (systemClock.now() > end) {
        throw new UserError(`${part} is not ready after ${readyWithinMs / 1_000} s; its log is ${spec.logFile}`);
      }
      await systemClock.sleep(pollMs, signal);
    }
  }
}
