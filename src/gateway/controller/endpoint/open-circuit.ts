import type { KeyStatus, Wait } from '../workqueue/key-status.ts';

/**
 * The function cannot be reached from this gateway, which therefore starts none of its keys until `untilMs`, and then
 * one at a time. Other gateways may start them.
 */
export interface OpenCircuit {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Why, for people. Undefined while the function is starting, which is no fault. */
  readonly reason: string | undefined;
}

/** An open circuit, as it is served. */
export interface ServedCircuit {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** The function is starting, which is no fault. Absent: it is not. */
  readonly isStarting?: true;
}

export function servedCircuit({ sinceMs, untilMs, reason }: OpenCircuit): ServedCircuit {
  return { sinceMs, untilMs, ...(reason === undefined ? { isStarting: true } : {}) };
}

/** The status of a key, as its queue has it, with the wait of a key that could run but for the open circuit. */
export function withCircuit<T extends Pick<KeyStatus, 'running' | 'queued' | 'backlog' | 'waits'>>(
  status: T,
  circuit: OpenCircuit | undefined,
): T {
  const { running, queued, backlog, waits } = status;
  if (!circuit || running || !(queued || backlog)) return status;
  const { sinceMs: _, ...until } = servedCircuit(circuit);
  const wait: Wait = { reason: 'breaker', ...until };
  return { ...status, waits: [...waits, wait] };
}
