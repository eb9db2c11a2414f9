import { readFile } from 'node:fs/promises';

/** The memory of a process that is resident now, in MiB. */
export async function residentMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+([0-9]+) kB$/m.exec(status)?.[1]) / 1024;
}
