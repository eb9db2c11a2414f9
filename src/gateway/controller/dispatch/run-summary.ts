import { formatKind, formatObjectKey, type TracedRun } from '../../../core/index.ts';
import type { Write } from '../../../contract/index.ts';
import type { Outcome } from '../endpoint/outcome.ts';
import type { Finish, Run, ShownWrite, WriteSummary } from '../workqueue/work-queue.ts';

const WRITES_IN_HISTORY = 5;
/** Characters of one object. Names of roles have any length, and the history is encoded character by character. */
const OBJECT_CHARACTERS = 512;

/** Adds the error, the writes and the notes of the function, for the history. */
export function withSummary(finish: Finish, outcome: Outcome): Finish {
  if (finish.kind === 'accepted') return finish;
  const withError = 'message' in outcome ? { ...finish, error: outcome.message } : finish;
  const writes = writesOf(outcome);
  if (withError.kind !== 'ended') return withError;
  const notes = 'notes' in outcome ? outcome.notes : undefined;
  if (writes.length === 0 && !notes) return withError;
  return { ...withError, ...(writes.length > 0 && { wrote: wroteOf(writes) }), ...notes };
}

export function wroteOf(writes: readonly Write[]): WriteSummary {
  const first = writes.slice(0, WRITES_IN_HISTORY).map((write): ShownWrite => {
    const object = `${formatKind(write)} ${formatObjectKey(write)}`.slice(0, OBJECT_CHARACTERS);
    const { resourceVersion, deleted } = write;
    if (deleted) return { object, deleted };
    return resourceVersion === undefined ? { object } : { object, resourceVersion };
  });
  return { count: writes.length, first };
}

export function writesOf(outcome: Outcome): readonly Write[] {
  return 'writes' in outcome ? outcome.writes : [];
}

/** For the trace of its trigger. @param outcome undefined: there was none. */
export function tracedRun(
  { key, run, failures, reasons, waitedMs }: Run,
  outcome: Outcome = { kind: 'unknown', reason: 'body', message: '' },
): TracedRun {
  const { first } = wroteOf(writesOf(outcome));
  return {
    key,
    run,
    attempt: failures + 1,
    waitedMs,
    reasons: reasons.map(({ type, object, resourceVersion }) => wordsOf(type, object, resourceVersion)),
    outcome: outcome.kind,
    error: 'message' in outcome ? outcome.message : undefined,
    wrote: first.map(({ object, resourceVersion, deleted }) => wordsOf(object, resourceVersion, deleted && 'deleted')),
  };
}

function wordsOf(...words: readonly (string | undefined)[]): string {
  return words.filter((word) => word !== undefined).join(' ');
}
