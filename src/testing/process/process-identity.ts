import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A process for good: pids are used again, a pid with its start time is not. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startTime: string;
}

/** When the process started, or undefined if it has ended. A zombie has ended. */
export function startTimeOf(pid: number): string | undefined {
  try {
    if (process.platform !== 'linux') {
      return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
    }
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the command in parentheses and may itself hold both; proc(5) counts on from the last one.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** Whether this very process, not another one of the same pid, still runs. */
export function isAlive(identity: ProcessIdentity): boolean {
  return startTimeOf(identity.pid) === identity.startTime;
}
