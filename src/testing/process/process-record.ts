import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { z } from 'zod';

import { systemClock } from '../../core/clock.ts';
import { isAlive, type ProcessIdentity } from './process-identity.ts';

const recordSchema = z.record(z.string(), z.object({ pid: z.number(), startTime: z.string() }));

/**
 * `processes.json` of a directory: the processes that were started there. It survives a SIGKILL of this process, so
 * that `stopLeftovers` can end them.
 */
export class ProcessRecord {
  readonly #directory: string;
  readonly #processes: Record<string, ProcessIdentity> = {};

  constructor(directory: string) {
    this.#directory = directory;
  }

  set(name: string, identity: ProcessIdentity): void {
    this.#processes[name] = identity;
    this.#write();
  }

  delete(name: string): void {
    delete this.#processes[name];
    // Called when a process has ended, perhaps because its directory was removed, together with the record.
    if (existsSync(this.#directory)) this.#write();
  }

  // Synchronous, so that this process cannot be killed between the start of a child and its record.
  #write(): void {
    const file = recordFile(this.#directory);
    writeFileSync(`${file}.new`, JSON.stringify(this.#processes, null, 2));
    renameSync(`${file}.new`, file);
  }
}

/**
 * Stops the processes that `startControlPlane` or `startRedis` left running in `directory` because their parent was
 * killed: SIGTERM, after ten seconds SIGKILL, in reverse order of their start. A process is signalled only if both its
 * pid and its start time match the record. Returns the names of the stopped processes; none for an absent directory.
 */
export async function stopLeftovers(directory: string): Promise<string[]> {
  const left = Object.entries(readRecord(directory))
    .filter(([, identity]) => isAlive(identity))
    .toReversed();
  for (const [, identity] of left) await stopIdentity(identity);
  return left.map(([name]) => name);
}

function recordFile(directory: string): string {
  return join(directory, 'processes.json');
}

function readRecord(directory: string): Record<string, ProcessIdentity> {
  try {
    return recordSchema.parse(JSON.parse(readFileSync(recordFile(directory), 'utf8')));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return {};
    throw error;
  }
}

async function stopIdentity(identity: ProcessIdentity): Promise<void> {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const end = systemClock.now() + 10_000;
    if (!isAlive(identity)) return;
    process.kill(identity.pid, signal);
    while (isAlive(identity) && systemClock.now() < end) await systemClock.sleep(50);
  }
}
