import { readdirSync, readFileSync } from 'node:fs';

/** The value of `getconf CLK_TCK` on Linux. */
const TICKS_PER_SECOND = 100;

/** The most resident memory that a process ever had, in bytes. Linux only. */
export function peakMemory(pid: number): number {
  return memory(pid, 'VmHWM');
}

/** Resident memory of a process, in bytes. Linux only. */
export function residentMemory(pid: number): number {
  return memory(pid, 'VmRSS');
}

/**
 * What a process alone has in memory, in bytes: without the pages of files, such as its executable, that other
 * processes share. Linux only.
 */
export function privateMemory(pid: number): number {
  return memory(pid, 'RssAnon');
}

/** Processor time of a process since its start, in user and kernel mode, in seconds. Linux only. */
export function cpuSeconds(pid: number): number {
  return statOf(pid)?.seconds ?? 0;
}

/** Processor time of the threads that a process has now, in milliseconds, finer than `cpuSeconds`. Linux only. */
export function processorMs(pid: number): number {
  const tasks = `/proc/${pid}/task`;
  const times = readdirSync(tasks).map((id) =>
    Number(readFileSync(`${tasks}/${id}/schedstat`, 'utf8').split(' ', 1)[0]),
  );
  return times.reduce((sum, each) => sum + each, 0) / 1e6;
}

/**
 * Returns the processor time in seconds of a process and of all its descendants, including ended ones. Linux only.
 */
export function treeCpuSeconds(root: number): number {
  const stats = readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .flatMap((name) => {
      const stat = statOf(Number(name));
      return stat ? [{ pid: Number(name), ...stat }] : [];
    });
  const byParent = Map.groupBy(stats, ({ parent }) => parent);
  const sum = (pid: number): number =>
    (byParent.get(pid) ?? []).reduce((total, each) => total + each.secondsWithEnded + sum(each.pid), 0);
  return (statOf(root)?.secondsWithEnded ?? 0) + sum(root);
}

/** Since the machine's start, over all processors, in seconds. */
export interface MachineTimes {
  readonly busy: number;
  /** Taken by the host from a virtual machine that had work to do. */
  readonly stolen: number;
}

/** Linux only. */
export function machineTimes(): MachineTimes {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = readFileSync('/proc/stat', 'utf8')
    .split('\n', 1)
    .join('')
    .split(/\s+/)
    .slice(1)
    .map((ticks) => Number(ticks) / TICKS_PER_SECOND);
  return { busy: user + nice + system + irq + softirq, stolen: steal };
}

function memory(pid: number, field: string): number {
  const match = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1]) * 1024;
}

/** Undefined when the process has ended. */
function statOf(pid: number): { parent: number; seconds: number; secondsWithEnded: number } | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // After the name, which may hold spaces and parentheses: the second field is the parent, the 12th and 13th are the
  // times, the 14th and 15th those of children that have ended.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const seconds = (at: number): number => Number(fields[at]) / TICKS_PER_SECOND;
  const own = seconds(11) + seconds(12);
  return { parent: Number(fields[1]), seconds: own, secondsWithEnded: own + seconds(13) + seconds(14) };
}
