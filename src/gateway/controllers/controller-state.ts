import type { RunningController } from './controller.ts';
import type { Controllers } from './controllers.ts';
import { KEY_LISTS } from '../workqueue/key-status.ts';
import type { KeyList, OpenCircuit, Pause, WorkQueue } from '../workqueue/work-queue.ts';

/** What a gateway knows of a controller without asking Redis. */
export interface ControllerNotes {
  /** What is wrong with it, the worst first. */
  readonly problems: readonly string[];
  /** What a person may want to know although all is well. */
  readonly remarks: readonly string[];
}

/** All that is known of a controller, from which its state is. */
export interface ControllerFacts extends ControllerNotes {
  readonly pauses: readonly Pause[];
  readonly circuit: OpenCircuit | undefined;
  /** Of each list of its keys. */
  readonly sizes: Readonly<Record<KeyList, number>>;
}

/** The parts of a gateway that watch over controllers. */
export interface ControllerWatch {
  readonly controllers: Pick<Controllers, 'get' | 'waitsFor'>;
  /** That keys of a controller stand still, and for how long. */
  readonly progress: { standstill(controller: string): string | undefined };
}

/** @param watch undefined while the gateway is starting. */
export function notesOf(controller: RunningController, watch: ControllerWatch | undefined): ControllerNotes {
  const { name, missesEvents, openReason, refusal, remarks } = controller;
  const isRunning = watch?.controllers.get(name) === controller;
  const problems = [
    refusal,
    isRunning ? watch.controllers.waitsFor(controller) : 'it is being started, or waits until its views are complete',
    openReason,
    missesEvents,
    watch?.progress.standstill(name),
  ];
  return {
    problems: problems.filter((each) => each !== undefined),
    remarks: remarks === undefined ? [] : [remarks],
  };
}

/** What its queue tells of a controller. */
export async function queueFacts(
  queue: Pick<WorkQueue, 'circuit' | 'list' | 'pauses'>,
): Promise<Omit<ControllerFacts, 'problems' | 'remarks'>> {
  const [pauses, ...totals] = await Promise.all([
    queue.pauses(),
    ...KEY_LISTS.map(async (list) => [list, (await queue.list(list, { offset: 0, limit: 1 })).total] as const),
  ]);
  return { pauses, circuit: queue.circuit, sizes: Object.fromEntries(totals) as ControllerFacts['sizes'] };
}

/** How it stands with a controller, in a word. Pages, `/queues` and `levelhook queue list` say the same one. */
export type ControllerStateWord =
  'problem' | 'circuit open' | 'paused' | 'dead letters' | 'failing' | 'partly paused' | 'remark' | 'busy' | 'idle';

/** Words that say that nobody need look. */
const WELL: readonly ControllerStateWord[] = ['busy', 'idle', 'remark', 'partly paused'];

export const isWell = (word: ControllerStateWord): boolean => WELL.includes(word);

/** The first of all that a person must know. A controller with a key that fails, or has given up, is never well. */
export function controllerState({ problems, remarks, pauses, circuit, sizes }: ControllerFacts): ControllerStateWord {
  const has = (scope: string): boolean => pauses.some((each) => each.scope === scope || each.scope.startsWith(scope));
  if (circuit) return 'circuit open';
  if (problems.length > 0) return 'problem';
  if (sizes.dead > 0) return 'dead letters';
  if (sizes.failing > 0) return 'failing';
  if (has('controller')) return 'paused';
  if (has('namespace/') || has('key/')) return 'partly paused';
  if (remarks.length > 0) return 'remark';
  return sizes.running + sizes.queued > 0 ? 'busy' : 'idle';
}
