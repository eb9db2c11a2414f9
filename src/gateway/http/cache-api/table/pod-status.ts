import { fieldAt, type KubernetesObject } from '../../../../core/index.ts';
import { conditionIs, listAt, numberAt, textAt } from './columns.ts';
import { ageOf } from './human-duration.ts';

export interface PodSummary {
  /** `1/2` */
  readonly ready: string;
  readonly status: string;
  readonly restarts: string;
}

type Container = Record<string, unknown>;

/**
 * The columns of `kubectl get pods` for a pod: the apiserver's `printPod` (kubernetes,
 * pkg/printers/internalversion/printers.go).
 */
export function podSummary(pod: KubernetesObject, nowMs: number): PodSummary {
  const sidecars = new Set(
    listAt(pod, 'spec.initContainers')
      .filter((each) => each['restartPolicy'] === 'Always')
      .map((each) => each['name']),
  );
  const initial = initState(pod, sidecars);
  let { reason, ready, restarts, lastRestart } = initial;
  if (!initial.initializing || conditionIs(pod, 'Initialized') === 'True') {
    const main = mainState(pod, reason);
    reason = main.reason;
    ready += main.ready;
    restarts = initial.sidecarRestarts + main.restarts;
    lastRestart = latest(initial.lastSidecarRestart, main.lastRestart);
  }
  const phase = textAt(pod, 'status.phase');
  if (pod.metadata.deletionTimestamp) {
    if (textAt(pod, 'status.reason') === 'NodeLost') reason = 'Unknown';
    else if (phase !== 'Succeeded' && phase !== 'Failed') reason = 'Terminating';
  }
  const total = listAt(pod, 'spec.containers').length + sidecars.size;
  const ago = restarts > 0 && lastRestart ? ` (${ageOf(lastRestart, nowMs)} ago)` : '';
  return { ready: `${ready}/${total}`, status: reason, restarts: `${restarts}${ago}` };
}

function initState(pod: KubernetesObject, sidecars: ReadonlySet<unknown>) {
  const gated = listAt(pod, 'status.conditions').some(
    ({ type, reason }) => type === 'PodScheduled' && reason === 'SchedulingGated',
  );
  let reason = textAt(pod, 'status.reason') || textAt(pod, 'status.phase');
  if (gated) reason = 'SchedulingGated';
  let [ready, restarts, sidecarRestarts] = [0, 0, 0];
  let lastRestart: string | undefined;
  let lastSidecarRestart: string | undefined;
  const containers = listAt(pod, 'status.initContainerStatuses');
  for (const [index, container] of containers.entries()) {
    const sidecar = sidecars.has(container['name']);
    const finished = restartedAt(container);
    restarts += numberAt(container, 'restartCount');
    lastRestart = latest(lastRestart, finished);
    if (sidecar) {
      sidecarRestarts += numberAt(container, 'restartCount');
      lastSidecarRestart = latest(lastSidecarRestart, finished);
    }
    const terminated = fieldAt(container, 'state.terminated');
    if (terminated && numberAt(terminated, 'exitCode') === 0) continue;
    if (sidecar && container['started'] === true) {
      if (container['ready'] === true) ready += 1;
      continue;
    }
    const waiting = textAt(container, 'state.waiting.reason');
    if (terminated) reason = `Init:${endOf(terminated)}`;
    else if (waiting && waiting !== 'PodInitializing') reason = `Init:${waiting}`;
    else reason = `Init:${index}/${listAt(pod, 'spec.initContainers').length}`;
    return { initializing: true, reason, ready, restarts, lastRestart, sidecarRestarts, lastSidecarRestart };
  }
  return { initializing: false, reason, ready, restarts, lastRestart, sidecarRestarts, lastSidecarRestart };
}

function mainState(pod: KubernetesObject, before: string) {
  let reason = before;
  let failure = '';
  let [ready, restarts] = [0, 0];
  let running = false;
  let lastRestart: string | undefined;
  for (const container of listAt(pod, 'status.containerStatuses').toReversed()) {
    restarts += numberAt(container, 'restartCount');
    lastRestart = latest(lastRestart, restartedAt(container));
    const waiting = textAt(container, 'state.waiting.reason');
    const terminated = fieldAt(container, 'state.terminated');
    if (waiting) reason = waiting;
    else if (terminated) {
      reason = endOf(terminated);
      if (numberAt(terminated, 'exitCode') !== 0) failure = reason;
    } else if (container['ready'] === true && fieldAt(container, 'state.running')) {
      running = true;
      ready += 1;
    }
  }
  // Some have ended and others go on.
  if (reason === 'Completed') {
    if (running && conditionIs(pod, 'Ready') === 'True') reason = 'Running';
    else if (failure) reason = failure;
    else if (running) reason = 'NotReady';
  }
  return { reason, ready, restarts, lastRestart };
}

function endOf(terminated: unknown): string {
  const signal = numberAt(terminated, 'signal');
  const named = textAt(terminated, 'reason');
  if (named) return named;
  return signal === 0 ? `ExitCode:${numberAt(terminated, 'exitCode')}` : `Signal:${signal}`;
}

function restartedAt(container: Container): string | undefined {
  return textAt(container, 'lastState.terminated.finishedAt') || undefined;
}

function latest(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Date.parse(a) < Date.parse(b) ? b : a;
}
