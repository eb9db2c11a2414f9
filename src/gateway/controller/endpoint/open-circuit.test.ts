import { expect, it } from 'vitest';
import type { KeyStatus } from '../workqueue/key-status.ts';
import { withCircuit } from './open-circuit.ts';

const rest = { queued: false, backlog: false, waits: [] };
const circuit = { sinceMs: 1, untilMs: 9, reason: 'refused' };
const breaker = { reason: 'breaker', untilMs: 9 } as const;
const paused = { reason: 'paused', by: 'controller' } as const;

it.each<[string, Partial<KeyStatus>, KeyStatus['waits']]>([
  ['ready', { queued: true }, [breaker]],
  ['of low priority', { backlog: true }, [breaker]],
  ['paused', { backlog: true, waits: [paused] }, [paused, breaker]],
  ['at rest', {}, []],
  ['requeued', { timerMs: 20 }, []],
  ['running, and ready afterwards', { queued: true, running: { run: 3, deadlineMs: 20 } }, []],
])('while the circuit is open, a key that is %s: %j waits for %j', (_, facts, waits) => {
  const status = { ...rest, ...facts };
  expect(withCircuit(status, circuit)).toEqual({ ...status, waits });
  expect(withCircuit(status, undefined)).toEqual(status);
});

it('a key that waits for the start of a function says so', () => {
  const status = withCircuit({ ...rest, queued: true }, { ...circuit, reason: undefined });
  expect(status.waits).toEqual([{ ...breaker, isStarting: true }]);
});
