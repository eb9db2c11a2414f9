import { boundedText } from '../../core/index.ts';
import type { FunctionCondition, ConditionType } from './condition.ts';
import type { ReconcileFunctionStatus } from './reconcile-function.ts';

/** What is known of a ReconcileFunction: each as its condition's status, reason and message. */
export type Findings = Readonly<Record<Exclude<ConditionType, 'Ready'>, Finding>>;

export interface Finding {
  readonly status: FunctionCondition['status'];
  readonly reason: string;
  readonly message: string;
}

export const TRUE = (reason: string, message: string): Finding => ({ status: 'True', reason, message });
export const FALSE = (reason: string, message: string): Finding => ({ status: 'False', reason, message });

/** The order in which `Ready` reports failures: the one to be mended first comes first. */
const SUMMED_UP = ['Authorized', 'Synced', 'EventsHandled', 'Reachable'] as const;

const MAX_MESSAGE = 4096;

/**
 * The status that says this; the very one given when it says it already, so that nothing is written.
 * `lastTransitionTime` moves with the status alone, as apimachinery's `meta.SetStatusCondition` has it.
 * @param failure what keeps it from being run at all, if anything.
 */
export function statusOf(
  before: ReconcileFunctionStatus | undefined,
  findings: Findings,
  more: {
    readonly generation: number | undefined;
    readonly url: string | undefined;
    readonly failure: Finding | undefined;
    readonly now: Date;
  },
): ReconcileFunctionStatus {
  const { generation, url, failure, now } = more;
  const all: [ConditionType, Finding][] = [
    ['Ready', failure ?? summary(findings)],
    ...(Object.entries(findings) as [ConditionType, Finding][]),
  ];
  const conditions = all.map(([type, finding]): FunctionCondition => {
    const old = before?.conditions?.find((each) => each.type === type);
    const lastTransitionTime =
      old?.status === finding.status ? old.lastTransitionTime : now.toISOString().replace(/\.\d+Z$/, 'Z');
    return {
      type,
      ...finding,
      // The definition allows longer messages than a person reads.
      message: boundedText(finding.message, MAX_MESSAGE),
      ...(generation === undefined ? {} : { observedGeneration: generation }),
      lastTransitionTime,
    };
  });
  const status = {
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    ...(url === undefined ? {} : { url }),
    conditions,
  };
  return JSON.stringify(sorted(before)) === JSON.stringify(sorted(status)) ? (before ?? status) : status;
}

function summary(findings: Findings): Finding {
  const failure = SUMMED_UP.map((type) => findings[type]).find(({ status }) => status !== 'True');
  if (failure) return { ...failure, status: 'False' };
  const paused = findings.Paused.status === 'True';
  return paused
    ? { status: 'True', reason: 'Paused', message: 'Running, but its keys wait: see the condition Paused.' }
    : { status: 'True', reason: 'Running', message: 'Its keys are being run.' };
}

/** The apiserver gives fields back in an order of its own. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, each]) => [key, sorted(each)]),
  );
}
