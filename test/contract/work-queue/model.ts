import { expect } from 'vitest';
import { RUN_MARGIN_MS } from '../../../src/gateway/controller/workqueue/queue-options.ts';
import type { PauseScope, Run } from '../../../src/gateway/controller/workqueue/work-queue.ts';

/** Why a key is to run: an add, a timer, a low add. */
export interface Cause {
  /** From then on it may start. */
  readonly fromMs: number;
  /** The queue has not said yet that it has it. */
  asked: boolean;
  /** It must run for this. Not when a run started while the queue was being told: that one may have answered it. */
  owed: boolean;
}

interface KeyModel {
  causes: Cause[];
  /** When it has last become free to run: its run ended, or a pause. */
  freeSinceMs: number;
  last: { run: number; deadlineMs: number; ended: boolean } | undefined;
}

/** Longer than a few keys ever queue in front of a few slots. */
const PATIENCE_MS = 5000;

/** client-go's promises as a model: told of all that is asked of a queue, it judges each run that starts. */
export class QueueModel {
  readonly #keys = new Map<string, KeyModel>();
  readonly #pauses = new Set<PauseScope>();
  runs = 0;
  /**
   * Runs that nothing asked for: no harm, a reconcile too many. Two gateways that see to one key at a time may cause
   * one.
   */
  idleRuns = 0;
  lost = 0;

  /** The queue is about to be told that the key is to run. `asked` ends when it has answered. */
  ask(key: string, fromMs: number, owed = true): Cause {
    const cause = { fromMs, asked: true, owed };
    this.#of(key).causes.push(cause);
    return cause;
  }

  /** Before the queue is told. */
  pause(scope: PauseScope): void {
    this.#pauses.add(scope);
  }

  /** Before the queue is told. */
  resume(scope: PauseScope, nowMs: number): void {
    this.#pauses.delete(scope);
    for (const [key, model] of this.#keys) if (covers(scope, key)) model.freeSinceMs = nowMs;
  }

  started({ key, run, deadlineMs }: Run, nowMs: number): void {
    const model = this.#of(key);
    const { last, causes } = model;
    this.runs += 1;
    if (last) expect(run, `${key}: run numbers grow`).toBeGreaterThan(last.run);
    if (last && !last.ended) {
      expect(nowMs, `${key}: run ${run} beside run ${last.run}`).toBeGreaterThanOrEqual(
        last.deadlineMs + RUN_MARGIN_MS,
      );
    }
    const first = Math.min(...causes.map(({ fromMs }) => fromMs));
    if (first > nowMs + 1) this.idleRuns += 1;
    for (const cause of causes) cause.owed = false;
    model.causes = causes.filter(({ asked }) => asked);
    model.last = { run, deadlineMs, ended: false };
  }

  /**
   * The run goes on elsewhere until then; but it never has less time than before, and no more once it counts as lost.
   */
  prolonged(key: string, run: number, nowMs: number, deadlineMs: number): void {
    const { last } = this.#of(key);
    if (last?.run !== run || nowMs >= last.deadlineMs + RUN_MARGIN_MS) return;
    last.deadlineMs = Math.max(last.deadlineMs, deadlineMs);
  }

  /** The outcome of a run is about to be told. Nothing, when it has been settled without it. */
  ended(key: string, run: number, nowMs: number, againAfterMs: number | undefined): void {
    const model = this.#of(key);
    if (model.last?.run !== run || model.last.ended) return;
    model.last.ended = true;
    model.freeSinceMs = nowMs;
    if (againAfterMs !== undefined) model.causes.push({ fromMs: nowMs + againAfterMs, asked: false, owed: true });
  }

  /** A run without an outcome is about to be settled. */
  settled(key: string, run: number, nowMs: number, againAfterMs: number | undefined): void {
    const { last } = this.#of(key);
    this.lost += 1;
    expect(last?.run, `${key}: the lost run`).toBe(run);
    expect(nowMs, `${key}: run ${run} is lost`).toBeGreaterThanOrEqual((last?.deadlineMs ?? 0) + RUN_MARGIN_MS);
    this.ended(key, run, nowMs, againAfterMs);
  }

  /** A run is settled as lost in the very moment in which its outcome is told: either may be the one that is taken. */
  doubt(key: string, againMs: number): void {
    const { causes } = this.#of(key);
    for (const cause of causes) cause.owed = false;
    causes.push({ fromMs: againMs, asked: false, owed: false });
  }

  /** The run's deadline, when it has not ended. */
  inFlightUntil(key: string, run: number): number | undefined {
    const { last } = this.#of(key);
    return last?.run === run && !last.ended ? last.deadlineMs : undefined;
  }

  /** Every key that may start has done so in time. */
  checkInTime(nowMs: number): void {
    for (const [key, { causes, last, freeSinceMs }] of this.#keys) {
      const owed = causes.filter((cause) => cause.owed);
      const isPaused = [...this.#pauses].some((scope) => covers(scope, key));
      if (owed.length === 0 || isPaused) continue;
      const blockedUntil = last && !last.ended ? last.deadlineMs + RUN_MARGIN_MS : freeSinceMs;
      const due = Math.max(Math.min(...owed.map(({ fromMs }) => fromMs)), blockedUntil);
      expect(due + PATIENCE_MS, `${key} was to run from ${due} on`).toBeGreaterThan(nowMs);
    }
  }

  /** Nothing is owed any more. */
  checkAtRest(): void {
    const owing = [...this.#keys].filter(([, { causes }]) => causes.some(({ owed }) => owed));
    expect(owing.map(([key]) => key)).toEqual([]);
  }

  #of(key: string): KeyModel {
    let model = this.#keys.get(key);
    if (!model) this.#keys.set(key, (model = { causes: [], freeSinceMs: 0, last: undefined }));
    return model;
  }
}

function covers(scope: PauseScope, key: string): boolean {
  if (scope === 'controller' || scope === 'recovery') return true;
  if (!scope.startsWith('namespace/')) return scope === `object/${key}` || scope === `key/${key}`;
  return key.startsWith(`${scope.slice('namespace/'.length)}/`);
}
