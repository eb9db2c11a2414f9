import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const PRELOAD = fileURLToPath(new URL('settable-clock.ts', import.meta.url));

/** A wall clock of processes, which a test sets: see `settable-clock.ts`. */
export class SetClock {
  readonly #directory = mkdtempSync(join(tmpdir(), 'levelhook-clock-'));
  readonly #file = join(this.#directory, 'offset');

  constructor() {
    writeFileSync(this.#file, '0');
  }

  /** The environment of a process that goes by it. */
  get variables(): Readonly<Record<string, string>> {
    return { SETTABLE_CLOCK_FILE: this.#file, NODE_OPTIONS: `--import=${PRELOAD}` };
  }

  /** Sets it to so much after the real time, or before it. Resolves when its processes go by that. */
  async set(offsetMs: number): Promise<void> {
    writeFileSync(`${this.#file}.new`, String(offsetMs));
    renameSync(`${this.#file}.new`, this.#file);
    await sleep(100);
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true });
  }
}
