import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** A command line that runs in the shell, in a process group of its own. Its output is that of this process. */
export class ShellCommand {
  /** Resolves with its exit code when it has ended. */
  readonly ended: Promise<number>;
  readonly #process: ChildProcess;

  constructor(command: string, env: NodeJS.ProcessEnv) {
    this.#process = spawn(command, { shell: true, detached: true, stdio: ['ignore', 'inherit', 'inherit'], env });
    this.ended = once(this.#process, 'close').then(([code]) => (code as number | null) ?? 1);
  }

  /** Sends SIGTERM, and SIGKILL after ten seconds. */
  async stop(): Promise<void> {
    this.#send('SIGTERM');
    const timer = setTimeout(() => this.#send('SIGKILL'), 10_000);
    await this.ended;
    clearTimeout(timer);
  }

  #send(signal: NodeJS.Signals): void {
    const { exitCode, pid, signalCode } = this.#process;
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, signal);
  }
}
