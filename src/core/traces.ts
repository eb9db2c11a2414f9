/** A trigger, as its trace shows it. Times are milliseconds since the epoch, by the wall clock. */
export interface TracedTrigger {
  /** Its UUID: `reconcileID` in logs. */
  readonly id: string;
  readonly controller: string;
  readonly sentMs: number;
  readonly answeredMs: number;
  readonly runs: readonly TracedRun[];
}

export interface TracedRun {
  readonly key: string;
  readonly run: number;
  /** 1 for the first run since the key last succeeded. */
  readonly attempt: number;
  /** Between the event and the start of the run. Undefined: unknown. */
  readonly waitedMs?: number | undefined;
  /** As `updated v1/Pod shop/web 1234`. */
  readonly reasons: readonly string[];
  /**
   * The objects of these reasons, each at its version, as `v1/Pod shop/web 1234`: as `wrote` has it of the run that
   * gave it this version. The writes of a deletion have none.
   */
  readonly wokenBy: readonly string[];
  readonly outcome: string;
  /** Undefined: it has none. */
  readonly error?: string | undefined;
  /** The objects that it has written, as `v1/Pod shop/web 1235`. */
  readonly wrote: readonly string[];
}

/** Records triggers for a collector of OpenTelemetry. */
export interface Traces {
  /**
   * The header `traceparent` of a trigger (W3C Trace Context), so that spans of the function and of the apiserver join
   * the trace. Undefined: this trigger is not sampled.
   */
  traceparent(id: string): string | undefined;
  /** Records the spans of a trigger, if it is sampled. */
  record(trigger: TracedTrigger): void;
  /** The page that shows the trace. Undefined: there is none. */
  urlOf(id: string): string | undefined;
}

/** The ID of the trace of a trigger: the digits of its UUID, so that whoever has one of them has the other. */
export function traceIdOf(id: string): string {
  return id.replaceAll('-', '');
}

/** The ID of the span of the request itself. */
export function spanIdOf(id: string): string {
  return traceIdOf(id).slice(-16);
}

/** The fields of a log line that belongs to a trace, by OpenTelemetry's names. None without a sampled `traceparent`. */
export function traceFields(traceparent: string | null | undefined): { trace_id?: string; span_id?: string } {
  const [, trace_id, span_id] = SAMPLED.exec(traceparent ?? '') ?? [];
  return trace_id === undefined || span_id === undefined ? {} : { trace_id, span_id };
}

const SAMPLED = /^00-([0-9a-f]{32})-([0-9a-f]{16})-01$/;
