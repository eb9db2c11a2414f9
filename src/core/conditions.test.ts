import { describe, expect, it } from 'vitest';
import {
  type Condition,
  findStatusCondition,
  isStatusConditionFalse,
  isStatusConditionTrue,
  removeStatusCondition,
  setStatusCondition,
} from './conditions.ts';

const now = Date.parse('2026-01-01T00:01:00.250Z');
const before = '2026-01-01T00:00:00Z';
const ready: Condition = {
  type: 'Ready',
  status: 'True',
  reason: 'Up',
  message: 'all well',
  observedGeneration: 3,
  lastTransitionTime: before,
};
const other: Condition = { ...ready, type: 'Synced' };

describe('setStatusCondition', () => {
  it('adds one with the time to the second', () => {
    const added = setStatusCondition(undefined, { type: 'Ready', status: 'False', reason: 'Down' }, now);
    expect(added).toEqual([
      { type: 'Ready', status: 'False', reason: 'Down', message: '', lastTransitionTime: '2026-01-01T00:01:00Z' },
    ]);
    expect(setStatusCondition([other], ready, now)).toEqual([other, ready]);
  });

  it('returns the very same conditions when nothing changes', () => {
    const conditions = [other, ready];
    const { lastTransitionTime: _, ...same } = ready;
    expect(setStatusCondition(conditions, same, now)).toBe(conditions);
  });

  it.each([
    ['reason', { reason: 'Better' }, before],
    ['message', { message: 'still well' }, before],
    ['generation', { observedGeneration: 4 }, before],
    ['status', { status: 'False' as const }, '2026-01-01T00:01:00Z'],
  ])('changes the %s in its place, and the time with the status alone', (_, change, lastTransitionTime) => {
    const { lastTransitionTime: __, ...same } = ready;
    const conditions = [ready, other];
    const next = setStatusCondition(conditions, { ...same, ...change }, now);
    expect(next).toEqual([{ ...ready, ...change, lastTransitionTime }, other]);
    expect(conditions).toEqual([ready, other]);
  });

  it('takes a given time with a new status only, keeps fields of others, and drops a generation that is not said again', () => {
    const given = '2025-01-01T00:00:00Z';
    const theirs = { ...ready, lastUpdateTime: before };
    const still = setStatusCondition(
      [theirs],
      { type: 'Ready', status: 'True', reason: 'Up', lastTransitionTime: given },
      now,
    );
    const { observedGeneration: _, ...rest } = theirs;
    expect(still).toEqual([{ ...rest, message: '' }]);
    const changed = setStatusCondition([ready], { ...ready, status: 'Unknown', lastTransitionTime: given }, now);
    expect(changed[0]?.lastTransitionTime).toBe(given);
  });
});

it('conditions are found, asked for and removed by their type', () => {
  const conditions = [ready, other];
  expect(findStatusCondition(conditions, 'Ready')).toBe(ready);
  expect(findStatusCondition(undefined, 'Ready')).toBeUndefined();
  const unknown = [{ ...ready, status: 'Unknown' as const }];
  expect([isStatusConditionTrue(conditions, 'Ready'), isStatusConditionFalse(conditions, 'Ready')]).toEqual([
    true,
    false,
  ]);
  expect([isStatusConditionTrue(unknown, 'Ready'), isStatusConditionFalse(unknown, 'Ready')]).toEqual([false, false]);
  expect([isStatusConditionTrue(undefined, 'Ready'), isStatusConditionFalse([], 'Ready')]).toEqual([false, false]);
  expect(removeStatusCondition(conditions, 'Ready')).toEqual([other]);
  expect(removeStatusCondition(conditions, 'Absent')).toBe(conditions);
  expect(removeStatusCondition(undefined, 'Ready')).toEqual([]);
});
