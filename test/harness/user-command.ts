import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const ROOT = resolve(import.meta.dirname, '../..');
const LINE_MS = 150_000;
const COMPILED = join(tmpdir(), 'node-compile-cache');

/**
 * A command as a user gives it: in a process group of its own, as a terminal does, without our environment, and with a
 * temporary directory of its own, by which everything it starts can be found.
 */
export class UserCommand {
  readonly stdout: string[] = [];
  readonly stderr: string[] = [];
  readonly temporary = mkdtempSync(join(tmpdir(), 'levelhook-test-'));
  readonly #process: ChildProcess;
  readonly #exited: Promise<number | string>;
  #listeners: (() => void)[] = [];

  constructor(
    command: string,
    args: readonly string[],
    options: { env?: Readonly<Record<string, string>>; cwd?: string; keys?: boolean } = {},
  ) {
    const { PATH, HOME } = process.env;
    this.#process = spawn(command, args, {
      cwd: options.cwd ?? ROOT,
      stdio: [options.keys ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      detached: true,
      // Compiled modules are kept beside those of all others: without them a command takes twice as long to start.
      env: {
        PATH,
        HOME,
        TMPDIR: this.temporary,
        NODE_COMPILE_CACHE: COMPILED,
        // Several commands run in the repository's folder at once.
        ...(options.cwd === undefined ? { LEVELHOOK_DATA: join(this.temporary, 'data') } : {}),
        ...options.env,
      },
    });
    for (const name of ['stdout', 'stderr'] as const) {
      const stream = this.#process[name];
      if (stream) createInterface({ input: stream }).on('line', (line) => this.#add(name, line));
    }
    this.#exited = once(this.#process, 'close').then(([code, signal]) => {
      this.#notify();
      return (code ?? signal) as number | string;
    });
  }

  /** Its lines on stderr but for what a command says after five seconds, which a busy machine takes. */
  get complaints(): string[] {
    return this.stderr.filter((line) => !line.startsWith('still waiting for '));
  }

  /** Exit code, or the name of the signal that ended it. */
  get exited(): Promise<number | string> {
    return this.#exited;
  }

  /** All that it wrote, for the message of a failed assertion. */
  get output(): string {
    return [...this.stdout, '--- stderr', ...this.stderr].join('\n');
  }

  /**
   * The first line on stdout that matches, past or to come. Rejects with the output when the command ends without one,
   * and after 150 s, which is less than a test may take.
   */
  async line(pattern: RegExp): Promise<string> {
    const late = setTimeout(() => this.#notify(), LINE_MS);
    const deadlineMs = performance.now() + LINE_MS;
    try {
      return await this.#line(pattern, deadlineMs);
    } finally {
      clearTimeout(late);
    }
  }

  async #line(pattern: RegExp, deadlineMs: number): Promise<string> {
    for (;;) {
      const found = this.stdout.find((line) => pattern.test(line));
      if (found !== undefined) return found;
      const { exitCode, signalCode } = this.#process;
      if (exitCode !== null || signalCode !== null) throw new Error(`it ended without ${pattern}:\n${this.output}`);
      if (performance.now() >= deadlineMs) throw new Error(`no line like ${pattern} in time:\n${this.output}`);
      await new Promise<void>((wake) => this.#listeners.push(wake));
    }
  }

  /** Presses keys, of a command with the option `keys`. */
  press(keys: string): void {
    this.#process.stdin?.write(keys);
  }

  /** To the command alone, as `kill` does, or to its whole group, as Ctrl-C in a terminal does. */
  signal(signal: NodeJS.Signals, to: 'command' | 'group' = 'command'): void {
    const { pid, exitCode, signalCode } = this.#process;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    process.kill(to === 'group' ? -pid : pid, signal);
  }

  /** Command lines of the processes that it started and that still run, itself included. Linux only: elsewhere none. */
  running(): { pid: number; command: string }[] {
    if (!existsSync('/proc/self/environ')) return [];
    return readdirSync('/proc').flatMap((entry) => {
      if (!/^[0-9]+$/.test(entry)) return [];
      const environment = read(`/proc/${entry}/environ`).split('\0');
      if (!environment.includes(`TMPDIR=${this.temporary}`)) return [];
      return [{ pid: Number(entry), command: read(`/proc/${entry}/cmdline`).replaceAll('\0', ' ') }];
    });
  }

  /** What it left in its temporary directory; Node's own compile cache is not its doing. */
  leftFiles(): string[] {
    return readdirSync(this.temporary).filter((name) => name.startsWith('levelhook'));
  }

  /** For `afterEach`: ends what a failed test has left, and removes the temporary directory. */
  async clean(): Promise<void> {
    this.signal('SIGTERM', 'group');
    const stopped = this.#exited;
    await Promise.race([stopped, new Promise((wake) => setTimeout(wake, 20_000).unref())]);
    for (const { pid } of this.running()) process.kill(pid, 'SIGKILL');
    await stopped;
    rmSync(this.temporary, { recursive: true, force: true, maxRetries: 5 });
  }

  #add(name: 'stdout' | 'stderr', line: string): void {
    // npm's own warnings, about the settings of the machine, are not ours.
    if (name === 'stderr' && line.startsWith('npm warn')) return;
    this[name].push(line);
    this.#notify();
  }

  #notify(): void {
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener();
  }
}

/** Our command line, from its sources. */
export function levelhook(args: readonly string[], env: Readonly<Record<string, string>> = {}): UserCommand {
  return new UserCommand(process.execPath, ['--conditions=levelhook-source', 'src/cli/levelhook.js', ...args], { env });
}

/** A process may end between the look at the folder and the look at its file. */
function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
