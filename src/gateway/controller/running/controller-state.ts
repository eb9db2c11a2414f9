import type { RunningController } from './controller.ts';
import type { Controllers } from './controllers.ts';
import type { OpenCircuit } from '../endpoint/open-circuit.ts';
import type { QueueLevels } from '../workqueue/work-queue.ts';

/** The facts about a controller that a gateway knows without asking Redis. */
export interface ControllerNotes {
  /** Problems of the controller, the worst first. */
  readonly problems: readonly string[];
  /** Facts that a person may want to know although all is well. */
  readonly remarks: readonly string[];
  /** It does not run yet: it is being started, or waits until its views are complete. The first remark says so. */
  readonly isStarting: boolean;
  /** Undefined while this gateway sends triggers to its function freely. */
  readonly circuit: OpenCircuit | undefined;
}

/** The facts about a controller that its queue knows. */
export interface QueueFacts extends Pick<QueueLevels, 'pauses' | 'pausedObjects'> {
  readonly sizes: Pick<QueueLevels['sizes'], 'queued' | 'running' | 'failing' | 'backlog' | 'dead'>;
}

/** All known facts about a controller; its state is derived from them. */
export interface ControllerFacts extends ControllerNotes, QueueFacts {}

/** The parts of a gateway that watch over controllers. */
export interface ControllerWatch {
  readonly controllers: Pick<Controllers, 'get' | 'waitsFor'>;
  /** `stalled` says for how long keys of a controller have been stalled; undefined: they are not. */
  readonly progress: { stalled(controller: string): string | undefined };
}

const STARTING = 'it is being started, or waits until its views are complete';

/** @param watch undefined while the gateway is starting. */
export function notesOf(controller: RunningController, watch: ControllerWatch | undefined): ControllerNotes {
  const { name, circuit } = controller;
  const { missesEvents, remarks } = controller.failures;
  const isRunning = watch?.controllers.get(name) === controller;
  const problems = [
    controller.sources.refusal,
    isRunning ? watch.controllers.waitsFor(controller) : undefined,
    circuit?.reason,
    controller.queue.fullReason,
    missesEvents,
    watch?.progress.stalled(name),
  ];
  return {
    problems: problems.filter((each) => each !== undefined),
    remarks: [isRunning ? undefined : STARTING, remarks, controller.sources.behind].filter(
      (each) => each !== undefined,
    ),
    isStarting: !isRunning,
    circuit,
  };
}

/**
 * The state of a controller, in a word. Pages, `/queues`, `levelhook get controllers`, metrics, `/readyz` and the
 * condition `Ready` show this state. `levelhook doctor` shows it without the facts that gateways alone know: problems,
 * remarks and the circuit.
 */
export const CONTROLLER_STATES = [
  'circuit open',
  'problem',
  'starting',
  'waits for recovery',
  'dead letters',
  'failing',
  'paused',
  'partly paused',
  'remark',
  'busy',
  'idle',
] as const;
export type ControllerStateWord = (typeof CONTROLLER_STATES)[number];

/** States that need no person's attention. */
const WELL: readonly ControllerStateWord[] = ['busy', 'idle', 'remark', 'partly paused'];

export const isWell = (word: ControllerStateWord): boolean => WELL.includes(word);

/** Derives the state from the most urgent fact. A controller with failing keys or dead letters is never well. */
export function controllerState(facts: ControllerFacts): ControllerStateWord {
  const { problems, remarks, isStarting, pauses, pausedObjects, circuit, sizes } = facts;
  const has = (scope: string): boolean => pauses.some((each) => each.scope === scope || each.scope.startsWith(scope));
  if (circuit?.reason !== undefined) return 'circuit open';
  if (problems.length > 0) return 'problem';
  if (isStarting) return 'starting';
  if (has('recovery')) return 'waits for recovery';
  if (sizes.dead > 0) return 'dead letters';
  if (sizes.failing > 0) return 'failing';
  if (has('controller')) return 'paused';
  if (has('namespace/') || has('key/') || pausedObjects > 0) return 'partly paused';
  if (remarks.length > 0) return 'remark';
  return sizes.running + sizes.queued + sizes.backlog > 0 ? 'busy' : 'idle';
}
