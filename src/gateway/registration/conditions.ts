import { boundedText, type Condition, formatJson, setStatusCondition, textWithin } from '../../core/index.ts';
import type { ControllerStateWord } from '../controller/running/controller-state.ts';
import type { ConditionType } from './condition-type.ts';
import type { ReconcileFunctionStatus } from './reconcile-function.ts';

/** The findings about a ReconcileFunction: the status, reason and message of each condition. */
export type Findings = Readonly<Record<Exclude<ConditionType, 'Ready'>, Finding>>;

export interface Finding {
  readonly status: Condition['status'];
  readonly reason: string;
  readonly message: string;
}

export const TRUE = (reason: string, message: string): Finding => ({ status: 'True', reason, message });
export const FALSE = (reason: string, message: string): Finding => ({ status: 'False', reason, message });

/** The order in which `Ready` reports failures: the failure to mend first comes first. */
const SUMMED_UP = ['Authorized', 'Synced', 'EventsHandled', 'Reachable'] as const;

/** The reason of `Ready` that may come and go with each run. */
export const KEYS_FAIL = 'KeysFail';
export const DEAD_LETTERS = 'DeadLetters';
/** Its keys are run, and its controller is well. */
export const RUNNING = 'Running';

/**
 * Characters of a whole status in JSON. A gateway writes some two thousand, and the conditions of others come on top:
 * as many as there is room for.
 */
export const MAX_STATUS = 16 * 1024;
/** Bytes of a message in JSON: six of them and a URL of 2,000 characters fit into a status. */
const MAX_MESSAGE = 2048;
/** Of conditions that others have added: who may write the status of an object may not make it large. */
const MAX_OTHERS = 10;
const MAX_OTHER_MESSAGE = 1024;

/**
 * The status with these findings; the given object itself when it has them already, so that nothing is written.
 * @param failure keeps it from being run at all, if anything does.
 */
export function statusOf(
  before: ReconcileFunctionStatus | undefined,
  findings: Findings,
  more: {
    readonly generation: number | undefined;
    readonly url: string | undefined;
    readonly failure: Finding | undefined;
    /** Of its controller; undefined while it does not run. */
    readonly state: ControllerStateWord | undefined;
    readonly nowMs: number;
  },
): ReconcileFunctionStatus {
  const { generation, url, failure, state, nowMs } = more;
  const all: [ConditionType, Finding][] = [
    ['Ready', failure ?? summary(findings, state)],
    ...(Object.entries(findings) as [ConditionType, Finding][]),
  ];
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const rest = { ...observed, ...(url === undefined ? {} : { url }) };
  const ours = new Set(all.map(([type]) => type));
  const found = all.reduce(
    (set, [type, finding]) => {
      // The definition allows longer messages than a person reads.
      const message = textWithin(boundedText(finding.message, MAX_MESSAGE), MAX_MESSAGE);
      return setStatusCondition(set, { type, ...finding, message, ...observed }, nowMs);
    },
    boundedOthers(before?.conditions ?? [], ours),
  );
  const conditions = fitting({ ...rest, conditions: found }, ours);
  const isSame = conditions === before?.conditions && before.observedGeneration === generation && before.url === url;
  return isSame ? before : { ...rest, conditions };
}

/**
 * The conditions without the last ones of others, as far as the status would be too large. The very same list when it
 * is not.
 */
function fitting(
  status: ReconcileFunctionStatus & { readonly conditions: readonly Condition[] },
  ours: ReadonlySet<string>,
): readonly Condition[] {
  const { conditions } = status;
  const last = conditions.findLast(({ type }) => !ours.has(type));
  if (!last || formatJson(status).length <= MAX_STATUS) return conditions;
  return fitting({ ...status, conditions: conditions.filter((each) => each !== last) }, ours);
}

/** The very same list when it is within the bounds. */
function boundedOthers(conditions: readonly Condition[], ours: ReadonlySet<string>): readonly Condition[] {
  const isOther = ({ type }: Condition): boolean => !ours.has(type);
  const others = conditions.filter(isOther);
  const isLong = ({ message }: Condition): boolean => message.length > MAX_OTHER_MESSAGE;
  if (others.length <= MAX_OTHERS && !others.some(isLong)) return conditions;
  const kept = others
    .slice(0, MAX_OTHERS)
    .map((each) => ({ ...each, message: boundedText(each.message, MAX_OTHER_MESSAGE) }));
  return [...conditions.filter((each) => !isOther(each)), ...kept];
}

/** True means that its keys are run; the reason then says whether its controller is well. */
function summary(findings: Findings, state: ControllerStateWord | undefined): Finding {
  const failure = SUMMED_UP.map((type) => findings[type]).find(({ status }) => status !== 'True');
  if (failure) return { ...failure, status: 'False' };
  switch (state) {
    case 'circuit open':
    case 'problem':
      return FALSE('NotWell', 'Its controller has a problem that the dashboard and GET /queues show.');
    case 'starting':
      return FALSE('Starting', 'Its controller is being started, or waits until its views are complete.');
    case 'waits for recovery':
      return FALSE('WaitsForRecovery', 'Redis has lost data: its keys wait until runs without a record must be over.');
    case 'dead letters':
      return TRUE(DEAD_LETTERS, 'Running, but keys have become dead letters: levelhook get keys shows them.');
    case 'failing':
      return TRUE(KEYS_FAIL, 'Running, but keys fail and are tried again: levelhook get keys shows them.');
    case 'paused':
    case 'partly paused':
    case 'remark':
    case 'busy':
    case 'idle':
    case undefined:
  }
  if (state === 'paused' || findings.Paused.status === 'True') {
    return TRUE('Paused', 'Running, but its keys wait: see the condition Paused.');
  }
  return TRUE(RUNNING, 'Its keys are being run.');
}
