import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Identifies a process for good: the kernel reuses pids, but not with the same start time. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startTime: string;
}

/** The start time of a process, or undefined if it has ended. A zombie has ended. */
export function startTimeOf(pid: number): string | undefined {
  try {
    if (process.platform !== 'linux') {
      return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
    }
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the command in parentheses and may contain parentheses; the other fields follow the last one
    // (proc(5)).
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** Whether exactly this process still runs, and not another one with its pid. */
export function isAlive(identity: ProcessIdentity): boolean {
  return startTimeOf(identity.pid) === identity.startTime;
}
