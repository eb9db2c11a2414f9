import { boundedText, type Condition, setStatusCondition } from '../../core/index.ts';
import type { ConditionType } from './condition-type.ts';
import type { ReconcileFunctionStatus } from './reconcile-function.ts';

/** What is known of a ReconcileFunction: each as its condition's status, reason and message. */
export type Findings = Readonly<Record<Exclude<ConditionType, 'Ready'>, Finding>>;

export interface Finding {
  readonly status: Condition['status'];
  readonly reason: string;
  readonly message: string;
}

export const TRUE = (reason: string, message: string): Finding => ({ status: 'True', reason, message });
export const FALSE = (reason: string, message: string): Finding => ({ status: 'False', reason, message });

/** The order in which `Ready` reports failures: the one to be mended first comes first. */
const SUMMED_UP = ['Authorized', 'Synced', 'EventsHandled', 'Reachable'] as const;

const MAX_MESSAGE = 4096;
/** Of conditions that others have added: who may write the status of an object may not make it large. */
const MAX_OTHERS = 10;
const MAX_OTHER_MESSAGE = 1024;

/**
 * The status that says this; the very one given when it says it already, so that nothing is written.
 * @param failure what keeps it from being run at all, if anything.
 */
export function statusOf(
  before: ReconcileFunctionStatus | undefined,
  findings: Findings,
  more: {
    readonly generation: number | undefined;
    readonly url: string | undefined;
    readonly failure: Finding | undefined;
    readonly nowMs: number;
  },
): ReconcileFunctionStatus {
  const { generation, url, failure, nowMs } = more;
  const all: [ConditionType, Finding][] = [
    ['Ready', failure ?? summary(findings)],
    ...(Object.entries(findings) as [ConditionType, Finding][]),
  ];
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const conditions = all.reduce(
    (set, [type, finding]) => {
      // The definition allows longer messages than a person reads.
      const message = boundedText(finding.message, MAX_MESSAGE);
      return setStatusCondition(set, { type, ...finding, message, ...observed }, nowMs);
    },
    boundedOthers(before?.conditions ?? [], new Set(all.map(([type]) => type))),
  );
  const isSame = conditions === before?.conditions && before.observedGeneration === generation && before.url === url;
  return isSame ? before : { ...observed, ...(url === undefined ? {} : { url }), conditions };
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

function summary(findings: Findings): Finding {
  const failure = SUMMED_UP.map((type) => findings[type]).find(({ status }) => status !== 'True');
  if (failure) return { ...failure, status: 'False' };
  const paused = findings.Paused.status === 'True';
  return paused
    ? { status: 'True', reason: 'Paused', message: 'Running, but its keys wait: see the condition Paused.' }
    : { status: 'True', reason: 'Running', message: 'Its keys are being run.' };
}
