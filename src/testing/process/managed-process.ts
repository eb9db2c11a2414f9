import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';

import { UserError } from '../../core/errors.ts';
import { OwnedProcess } from './owned-process.ts';
import { startTimeOf } from './process-identity.ts';
import type { ProcessRecord } from './process-record.ts';

/** Everything needed to start and restart a process. */
export interface ProcessSpec {
  /** Its name in messages and in `processes.json`. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly directory: string;
  /** Standard output and error are appended here. */
  readonly logFile: string;
}

const endingSignals: ReadonlySet<string> = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP']);

/** A child process that is signalled by its own pid, and only while it is the process that we started. */
export class ManagedProcess {
  readonly pid: number;
  /** Resolves when the process has ended, for any reason. */
  readonly ended: Promise<void>;
  readonly #process: OwnedProcess;

  private constructor(process: OwnedProcess, ended: Promise<void>) {
    this.#process = process;
    this.pid = process.pid;
    this.ended = ended;
  }

  /** Starts the process and adds it to `record`. Throws `UserError` when the command cannot be executed. */
  static async start(spec: ProcessSpec, record: ProcessRecord): Promise<ManagedProcess> {
    const log = openSync(spec.logFile, 'a', 0o600);
    // A process group of its own: Ctrl-C in a terminal reaches the whole group of the foreground process, and the parts
    // of a control plane must end in our order, not all at once.
    const child = spawn(spec.command, spec.args, {
      cwd: spec.directory,
      stdio: ['ignore', log, log],
      detached: true,
    });
    closeSync(log);
    const pid = child.pid;
    if (pid === undefined) {
      const error = await new Promise<Error>((resolve) => child.once('error', resolve));
      throw new UserError(`${spec.name}: ${spec.command} cannot be executed (${error.message})`);
    }
    // No event can come between spawn and this line, so the end of a short-lived process is not missed.
    const owned = new OwnedProcess(child, { end: 'exit' });
    record.set(spec.name, { pid, startTime: startTimeOf(pid) ?? '' });
    return new ManagedProcess(
      owned,
      owned.ended.then(() => record.delete(spec.name)),
    );
  }

  get alive(): boolean {
    return this.#process.alive;
  }

  /** Sends a signal. If the signal ends a process, waits until it has ended. */
  async kill(signal: NodeJS.Signals): Promise<void> {
    this.#process.send(signal);
    if (endingSignals.has(signal)) await this.ended;
  }

  /** SIGTERM, after `graceMs` SIGKILL; resolves when the process has ended. */
  async stop(graceMs = 10_000): Promise<void> {
    await this.#process.stop(graceMs);
    await this.ended;
  }
}

/** The error for a process that ended unexpectedly: its name, its log and the log's last line. */
export function endedError(spec: ProcessSpec): UserError {
  const lastLine = readLog(spec).trimEnd().split('\n').at(-1);
  return new UserError(`${spec.name} ended; its log ${spec.logFile} ends: ${lastLine || '(nothing)'}`);
}

/** Whether the log says that another process has taken a port that was free before. */
export function portWasTaken(spec: ProcessSpec): boolean {
  return /address already in use/i.test(readLog(spec));
}

function readLog({ logFile }: ProcessSpec): string {
  return existsSync(logFile) ? readFileSync(logFile, 'utf8') : '';
}
