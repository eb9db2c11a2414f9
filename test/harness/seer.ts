import { type Listening, type Setting, startFunctionProcess } from './levelhook.ts';
import type { Line, TestProcess } from './process.ts';

/** The seer's controller name. */
export const SEER = 'seer';
/** How many runs a ConfigMap with this in its data gets. */
export const ROUNDS = 'rounds';

/** What one run saw of what the run before had written. */
export interface Sight {
  readonly msg: 'saw';
  readonly parent: string;
  readonly round: number;
  /** The pod that it had made was not in the cache. */
  readonly missed: boolean;
  /** The pod that it had deleted was there as before. */
  readonly undead: boolean;
}

/** @param pauseMs a run takes up to this between its look and its writes. */
export function startSeer(setting: Setting, namespace: string, pauseMs = 0): Promise<Listening> {
  const variables = { SEER_NAMESPACE: namespace, SEER_PAUSE_MS: String(pauseMs) };
  return startFunctionProcess(setting, 'test/harness/seer-function.ts', { variables });
}

/** Those of the parents that have not had all their rounds: a run that takes longer than its time is done again. */
export function unfinished(process: TestProcess, parents: readonly string[], rounds: number): string[] {
  const sights = Map.groupBy(sightsOf(process), ({ parent }) => parent);
  return parents.filter((parent) => new Set(sights.get(parent)?.map(({ round }) => round)).size < rounds);
}

export function sightsOf({ lines }: TestProcess): Sight[] {
  return lines.filter((line): line is Line & Sight => line['msg'] === 'saw');
}
