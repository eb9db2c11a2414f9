import { availableParallelism } from 'node:os';
import { machineMs } from '../harness/machine-clock.ts';
import { machineTimes, treeCpuSeconds } from './process-figures.ts';

/** The load that other programs put on the machine, in percent of the time of its processors. */
export interface MachineLoad {
  /** Taken by the host from this virtual machine. */
  readonly stolen: number;
  /** Used by processes that this program did not start. */
  readonly foreign: number;
}

/** Starts to measure, and returns a function that ends it. The lower these figures, the better is a comparison. */
export function measureMachine(): () => MachineLoad {
  const read = () => ({ atMs: machineMs(), ...machineTimes(), own: treeCpuSeconds(process.pid) });
  const from = read();
  return () => {
    const to = read();
    const percent = (seconds: number): number =>
      (100 * Math.max(0, seconds)) / (((to.atMs - from.atMs) / 1000) * availableParallelism());
    return {
      stolen: percent(to.stolen - from.stolen),
      foreign: percent(to.busy - from.busy - (to.own - from.own)),
    };
  };
}

/** `steal 0.3 %, foreign 12.0 %` */
export function formatLoad({ stolen, foreign }: MachineLoad): string {
  return `steal ${stolen.toFixed(1)} %, foreign ${foreign.toFixed(1)} %`;
}
