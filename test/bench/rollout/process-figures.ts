import { readFileSync } from 'node:fs';

/** `getconf CLK_TCK` on every Linux there is. */
const TICKS_PER_SECOND = 100;

/** The most resident memory that a process ever had, in bytes. Linux only. */
export function peakMemory(pid: number): number {
  const match = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1]) * 1024;
}

/** Processor time of a process since its start, in seconds, its own and the kernel's for it. Linux only. */
export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // After the name, which may hold spaces and parentheses: the 12th and 13th field are the times.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}
