import { formatKind, formatObjectKey, type TracedRun } from '../../../core/index.ts';
import type { Write } from '../../../contract/index.ts';
import type { Outcome } from '../endpoint/outcome.ts';
import type { Finish, Run, ShownWrite, WriteSummary } from '../workqueue/work-queue.ts';

const WRITES_IN_HISTORY = 5;
const WRITES_IN_TRACE = 32;
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
    const object = nameOf(write);
    const { resourceVersion, deleted } = write;
    if (deleted) return { object, deleted };
    return resourceVersion === undefined ? { object } : { object, resourceVersion };
  });
  return { count: writes.length, first };
}

export function writesOf(outcome: Outcome): readonly Write[] {
  return 'writes' in outcome ? outcome.writes : [];
}

/** The end of a run, as far as its trace shows it. */
export interface EndedForTrace {
  readonly outcome: Outcome;
  /** Those that the outcome names, and those that went through the gateway. */
  readonly writes: readonly Write[];
}

/** For the trace of its trigger. @param end undefined: there was none. */
export function tracedRun(
  { key, run, failures, reasons, waitedMs }: Run,
  { outcome, writes }: EndedForTrace = NO_END,
): TracedRun {
  return {
    key,
    run,
    attempt: failures + 1,
    waitedMs,
    reasons: reasons.map(({ type, object, resourceVersion }) => wordsOf(type, object, resourceVersion)),
    wokenBy: reasons.flatMap(({ object, resourceVersion }) =>
      object === undefined || resourceVersion === undefined
        ? []
        : [wordsOf(object.slice(0, OBJECT_CHARACTERS), resourceVersion)],
    ),
    outcome: outcome.kind,
    error: 'message' in outcome ? outcome.message : undefined,
    wrote: [
      ...new Set(
        writes
          .slice(0, WRITES_IN_TRACE)
          .map((write) => wordsOf(nameOf(write), write.resourceVersion, write.deleted && 'deleted')),
      ),
    ],
  };
}

const NO_END: EndedForTrace = { outcome: { kind: 'unknown', reason: 'body', message: '' }, writes: [] };

function nameOf(write: Write): string {
  return `${formatKind(write)} ${formatObjectKey(write)}`.slice(0, OBJECT_CHARACTERS);
}

function wordsOf(...words: readonly (string | undefined)[]): string {
  return words.filter((word) => word !== undefined).join(' ');
}
