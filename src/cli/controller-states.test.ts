import { expect, it } from 'vitest';
import { VirtualClock } from '../../test/harness/test-clock.ts';
import { quietRuntime } from '../../test/harness/quiet-runtime.ts';
import type { RunningController } from '../gateway/controller/running/controller.ts';
import {
  CONTROLLER_STATES,
  type ControllerFacts,
  controllerState,
  type ControllerStateWord,
  isWell,
} from '../gateway/controller/running/controller-state.ts';
import { conditionTone } from '../gateway/http/dashboard/components/declaration.ts';
import { stateBadge } from '../gateway/http/dashboard/pages/overview.ts';
import type { ControllerSummary } from '../gateway/http/dashboard/data.ts';
import type { PageRequest } from '../gateway/http/dashboard/page.ts';
import { Times } from '../gateway/http/dashboard/times.ts';
import { report } from '../gateway/process/health.ts';
import { PrometheusMetrics } from '../gateway/process/metrics.ts';
import { Progress } from '../gateway/process/progress.ts';
import { type Findings, FALSE, statusOf, TRUE } from '../gateway/registration/conditions.ts';
import { queueApi, type ServedKey, type ServedQueue } from '../gateway/http/server/queue-api.ts';
import { renderMetrics, type ScrapedParts } from '../gateway/http/server/scrape.ts';
import type { WorkQueue } from '../gateway/controller/workqueue/work-queue.ts';
import { Diagnoses } from './doctor/diagnosis.ts';
import { judgeQueue } from './doctor/queue-findings.ts';
import { explainKey } from './explain-text.ts';
import { describeControllers } from './gateway-tables.ts';

const NOW = Date.UTC(2026, 0, 1);
const sizes = { queued: 0, running: 0, failing: 0, backlog: 0, dead: 0 };
const quiet: ControllerFacts = {
  problems: [],
  remarks: [],
  isStarting: false,
  pauses: [],
  pausedObjects: 0,
  circuit: undefined,
  sizes,
};
const atRest = {
  key: 'a/b',
  queued: false,
  dirty: false,
  backlog: false,
  waits: [],
  pauses: [],
  failures: 0,
  reasons: [],
};
const paused = [{ scope: 'controller', sinceMs: 0 }] as const;
const STARTING = 'it is being started, or waits until its views are complete';

/** The state of a controller, the reason of the condition Ready of its ReconcileFunction, and the facts. */
const ROWS: readonly (readonly [ControllerStateWord, string, Partial<ControllerFacts>])[] = [
  ['idle', 'Running', {}],
  ['busy', 'Running', { sizes: { ...sizes, queued: 1 } }],
  ['failing', 'KeysFail', { sizes: { ...sizes, failing: 1 } }],
  ['failing', 'KeysFail', { sizes: { ...sizes, running: 3, failing: 1 } }],
  ['dead letters', 'DeadLetters', { sizes: { ...sizes, dead: 1, failing: 1 } }],
  // A pause does not hide dead letters.
  ['dead letters', 'DeadLetters', { sizes: { ...sizes, dead: 1 }, pauses: paused }],
  ['paused', 'Paused', { pauses: paused }],
  ['partly paused', 'Running', { pauses: [{ scope: 'namespace/a', sinceMs: 0 }] }],
  ['partly paused', 'Running', { pauses: [{ scope: 'key/a/b', sinceMs: 0 }] }],
  ['partly paused', 'Running', { pausedObjects: 1 }],
  ['waits for recovery', 'WaitsForRecovery', { pauses: [{ scope: 'recovery', sinceMs: 0 }] }],
  // A function that starts is no fault.
  ['busy', 'Running', { circuit: { sinceMs: 0, untilMs: 1, reason: undefined }, sizes: { ...sizes, queued: 1 } }],
  ['busy', 'Running', { sizes: { ...sizes, backlog: 1 } }],
  ['problem', 'NotWell', { problems: ['its view is not complete'] }],
  ['starting', 'Starting', { isStarting: true, remarks: [STARTING], sizes: { ...sizes, failing: 1 } }],
  // A function that does not answer, or a refused kind, is why it does not start.
  ['problem', 'NotWell', { isStarting: true, remarks: [STARTING], problems: ['it may not list v1/Pod'] }],
  ['circuit open', 'NotWell', { circuit: { sinceMs: 0, untilMs: 1, reason: 'refused' }, problems: ['refused'] }],
  ['remark', 'Running', { remarks: ['an object is kept out'] }],
];
const WELL: readonly ControllerStateWord[] = ['idle', 'busy', 'partly paused', 'remark'];
/** Reasons of `Ready` that say that keys are not run. */
const NOT_RUNNING = ['NotWell', 'Starting', 'WaitsForRecovery'];
/** A controller without anything to look at. No other state is green. */
const GREEN: readonly ControllerStateWord[] = ['idle', 'busy'];

/** A controller with these facts, and its queue. */
function controllerOf({
  problems,
  remarks,
  pauses,
  pausedObjects,
  circuit,
  sizes: found,
}: ControllerFacts): RunningController {
  const levels = { pauses, morePauses: 0, pausedObjects, sizes: found, low: 0, demand: 0 };
  const queue = {
    name: 'web',
    inspector: { levels: async () => levels, status: async () => atRest },
    history: { runsOf: async () => [] },
    unfinished: () => ({ totalMs: 0, longestMs: 0 }),
    stalledMs: async () => 0,
    stall: { levels },
    gate: { closed: false },
  };
  return {
    name: 'web',
    queue,
    circuit,
    sources: { refusal: problems[0] },
    failures: { remarks: remarks[0] },
  } as unknown as RunningController;
}

function apiOf(
  { queue, circuit }: RunningController,
  { problems, remarks, isStarting }: ControllerFacts,
): ReturnType<typeof queueApi> {
  return queueApi({
    queues: () => new Map([['web', queue as WorkQueue]]),
    controller: () => ({
      problems,
      remarks,
      isStarting,
      circuit,
      namespaced: true,
      objectOf: async () => ({ state: 'cached' }),
      requeue: async () => 0,
    }),
    clock: { now: () => NOW },
  });
}

async function servedQueues(controller: RunningController, facts: ControllerFacts): Promise<readonly ServedQueue[]> {
  const answer = await apiOf(controller, facts).request('/');
  return ((await answer.json()) as { queues: ServedQueue[] }).queues;
}

async function servedKey(controller: RunningController, facts: ControllerFacts): Promise<ServedKey> {
  return (await (await apiOf(controller, facts).request('/web/keys/a/b')).json()) as ServedKey;
}

function partsOf(
  controller: RunningController,
  { isStarting }: ControllerFacts,
  progress: Pick<Progress, 'outboxMs' | 'stalled'>,
): ScrapedParts {
  return {
    controllers: {
      known: () => new Map([['web', controller]]),
      get: () => (isStarting ? undefined : controller),
      waitsFor: () => undefined,
    },
    informers: { all: () => [] },
    progress,
    recovery: { healthy: true },
  };
}

it.each(ROWS)('a controller is %s, with Ready %s, wherever it is shown: %o', async (word, reason, more) => {
  const facts = { ...quiet, ...more };
  expect(controllerState(facts)).toBe(word);
  expect(isWell(word)).toBe(WELL.includes(word));

  const summary = { ...facts, id: 'web' } as unknown as ControllerSummary;
  const page = { times: new Times(NOW, NOW) } as PageRequest;
  const badge = stateBadge(page, summary).toString();
  expect(badge).toContain(`>${word}</span>`);
  expect(badge.includes('class="state ok"')).toBe(GREEN.includes(word));

  const { problems, remarks } = facts;
  const controller = controllerOf(facts);
  const served = await servedQueues(controller, facts);
  expect(served).toMatchObject([{ state: word }]);
  expect(describeControllers(served)).toMatch(new RegExp(`^web +${word} `, 'm'));
  const explained = explainKey('web', await servedKey(controller, facts), NOW);
  expect(explained.includes(`\n  its controller: ${word}\n`)).toBe(!GREEN.includes(word));

  if (facts.circuit === undefined && problems.length + remarks.length === 0) {
    // The doctor reads Redis, which does not have these facts.
    const findings = new Diagnoses();
    const none = { timers: 0, waiting: 0 };
    judgeQueue(findings, {
      controller: 'web',
      sizes: { ...none, ...facts.sizes },
      pauses: facts.pauses,
      morePauses: 0,
      pausedObjects: facts.pausedObjects,
      oldestDueMs: 0,
    });
    const [verdict] = findings.all;
    expect(verdict?.level).toBe(isWell(word) ? 'ok' : 'warning');
    expect(verdict?.text).toMatch(new RegExp(`^queue web: ${word}, `));
  }

  const progress = new Progress({
    informers: () => [],
    neededViews: () => [],
    controllers: () => [controller],
    notes: () => facts,
    isNeededForReady: () => true,
    onChanged: () => {},
    runtime: quietRuntime(),
  });
  const { lines, healthy } = report(new Map([['controllers', () => progress.notWell()]]));
  expect(lines).toEqual([isWell(word) ? '[+]controllers ok' : `[+]controllers warning: web: ${word}`]);
  expect(healthy).toBe(true);

  const text = await renderMetrics(new PrometheusMetrics(), partsOf(controller, facts, progress), new VirtualClock());
  const series = text.split('\n').filter((line) => line.startsWith('levelhook_controller_state{'));
  expect(series).toEqual([`levelhook_controller_state{controller="web",state="${word}"} 1`]);

  const good = TRUE('Good', 'Good.');
  const findings: Findings = {
    Authorized: good,
    Synced: good,
    EventsHandled: good,
    Reachable: good,
    Paused: FALSE('NotPaused', 'No.'),
  };
  const now = { generation: 1, url: undefined, failure: undefined, state: word, nowMs: NOW };
  const ready = statusOf(undefined, findings, now).conditions?.find(({ type }) => type === 'Ready');
  expect(ready).toMatchObject({ reason, status: NOT_RUNNING.includes(reason) ? 'False' : 'True' });
  // Only a healthy controller is shown as healthy.
  expect(ready?.reason === 'Running').toBe(isWell(word));
  expect(ready && conditionTone(ready) === 'ok').toBe(isWell(word));
});

it('each state has a row', () => {
  expect(new Set(ROWS.map(([word]) => word))).toEqual(new Set(CONTROLLER_STATES));
});
