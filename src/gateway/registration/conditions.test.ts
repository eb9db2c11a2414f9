import { describe, expect, it } from 'vitest';
import { type Finding, type Findings, MAX_STATUS, statusOf } from './conditions.ts';
import type { ReconcileFunctionStatus } from './reconcile-function.ts';

const is = (status: Finding['status'], reason = 'Because'): Finding => ({ status, reason, message: reason });
const fine: Findings = {
  Authorized: is('True'),
  Synced: is('True'),
  EventsHandled: is('True'),
  Reachable: is('True'),
  Paused: is('False', 'NotPaused'),
};
const at = (seconds: number, more: object = {}) => ({
  generation: 1,
  url: 'http://a/',
  failure: undefined,
  state: undefined,
  nowMs: Date.UTC(2026, 0, 1, 0, 0, seconds, 123),
  ...more,
});
const of = (status: ReconcileFunctionStatus, type: string) => status.conditions?.find((each) => each.type === type);

describe('the status of a ReconcileFunction', () => {
  it.each<[Partial<Findings>, Finding | undefined, string, string]>([
    [{}, undefined, 'True', 'Running'],
    [{ Paused: is('True') }, undefined, 'True', 'Paused'],
    [{ Reachable: is('Unknown', 'NotChecked') }, undefined, 'False', 'NotChecked'],
    // The condition to mend first.
    [{ Reachable: is('False', 'R'), Synced: is('False', 'S'), Authorized: is('False', 'A') }, undefined, 'False', 'A'],
    [{ Reachable: is('False', 'R'), Synced: is('False', 'S') }, undefined, 'False', 'S'],
    [{ Reachable: is('False', 'R'), Paused: is('True') }, undefined, 'False', 'R'],
    [{ Authorized: is('False', 'A') }, is('False', 'InvalidSpec'), 'False', 'InvalidSpec'],
  ])('sums up %j and %j as Ready %s, %s', (found, failure, status, reason) => {
    expect(of(statusOf(undefined, { ...fine, ...found }, at(0, { failure })), 'Ready')).toMatchObject({
      status,
      reason,
      observedGeneration: 1,
    });
  });

  it('is the very same while it says the same, in whatever order the apiserver gives it back', () => {
    const first = statusOf(undefined, fine, at(0));
    expect(statusOf(first, fine, at(1))).toBe(first);
    const { conditions = [], ...rest } = first;
    const turned = {
      conditions: conditions.map((each) => Object.fromEntries(Object.entries(each).toReversed())),
      ...rest,
    };
    const stored = JSON.parse(JSON.stringify(turned)) as ReconcileFunctionStatus;
    expect(statusOf(stored, fine, at(2))).toBe(stored);
  });

  it('keeps the conditions of others, a few and short', () => {
    const other = (at: number, message: string) => ({
      type: `example.com/other-${at}`,
      status: 'True' as const,
      reason: 'Other',
      message,
      lastTransitionTime: '2026-01-01T00:00:00Z',
    });
    const first = statusOf(undefined, fine, at(0));
    const some = { ...first, conditions: [...(first.conditions ?? []), other(0, 'mine')] };
    expect(statusOf(some, fine, at(1))).toBe(some);
    const many = Array.from({ length: 30 }, (_, each) => other(each, 'x'.repeat(25_000)));
    const forged = { ...first, conditions: [...many, ...(first.conditions ?? [])] };
    const bounded = statusOf(forged, fine, at(1));
    expect(JSON.stringify(bounded).length).toBeLessThan(16_384);
    expect(of(bounded, 'example.com/other-0')?.message).toHaveLength(1024);
    expect(of(bounded, 'Ready')).toEqual(of(first, 'Ready'));
  });

  it('keeps the conditions of others whose numbers have 64 bits', () => {
    const observedGeneration = 9007199254740993n as unknown as number;
    const other = {
      type: 'example.com/other',
      status: 'True',
      reason: 'Other',
      message: '',
      observedGeneration,
    } as const;
    const stored = { conditions: [{ ...other, lastTransitionTime: '2026-01-01T00:00:00Z' }] };
    expect(of(statusOf(stored, fine, at(1)), other.type)).toEqual(stored.conditions[0]);
  });

  it('drops the last conditions of others when it would be larger than gateways take', () => {
    const others = Array.from({ length: 10 }, (_, at) => ({
      type: `example.com/${at}`.padEnd(316, 'x'),
      status: 'True' as const,
      reason: 'R'.repeat(1024),
      message: 'x'.repeat(1024),
      lastTransitionTime: '2026-01-01T00:00:00Z',
    }));
    const status = statusOf({ conditions: others }, fine, at(0));
    expect(JSON.stringify(status).length).toBeLessThanOrEqual(MAX_STATUS);
    expect(status.conditions?.slice(0, -6)).toEqual(others.slice(0, 6));
    expect(status.conditions?.slice(-6)).toEqual(statusOf(undefined, fine, at(0)).conditions);
    expect(statusOf(status, fine, at(1))).toBe(status);
  });

  it.each<[string, object]>([
    ['the generation', { generation: 2 }],
    ['the address', { url: undefined }],
  ])('is another one when %s changes, and its conditions changed when they did', (_what, more) => {
    const first = statusOf(undefined, fine, at(0));
    const second = statusOf(first, fine, at(9, more));
    expect(second).not.toBe(first);
    expect(of(second, 'Ready')?.lastTransitionTime).toBe('2026-01-01T00:00:00Z');
  });

  it('moves the time of a condition with its status alone', () => {
    const first = statusOf(undefined, fine, at(0));
    const second = statusOf(first, { ...fine, Paused: is('False', 'Another') }, at(5));
    expect(of(second, 'Paused')).toMatchObject({ reason: 'Another', lastTransitionTime: '2026-01-01T00:00:00Z' });
    const third = statusOf(second, { ...fine, Paused: is('True') }, at(9));
    expect(of(third, 'Paused')).toMatchObject({ lastTransitionTime: '2026-01-01T00:00:09Z' });
    expect(of(third, 'Synced')).toMatchObject({ lastTransitionTime: '2026-01-01T00:00:00Z' });
  });

  it('fits into what the definition allows, whatever a function answers', () => {
    const long = statusOf(undefined, { ...fine, Reachable: is('False', 'x'.repeat(100_000)) }, at(0));
    const lengths = (long.conditions ?? []).map(({ message }) => JSON.stringify(message).length - 2);
    expect(Math.max(...lengths)).toBeGreaterThan(2000);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(2048);
  });
});
