import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { VirtualClock } from '../../../test/harness/test-clock.ts';
import { Circuit } from './circuit.ts';

function create() {
  const clock = new VirtualClock();
  /** The room that was left after each change. */
  const rooms: number[] = [];
  const circuit: Circuit = new Circuit({ clock, onChanged: () => rooms.push(circuit.room) });
  const pass = async (ms: number): Promise<void> => {
    for (const end = clock.now() + ms; clock.now() < end; await setImmediate()) clock.step(end);
  };
  return { circuit, clock, rooms, pass };
}

describe('the circuit of a queue', () => {
  it('has no limit while it is closed', () => {
    const { circuit, rooms } = create();
    circuit.started('a', 1);
    circuit.started('b', 2);
    circuit.ended('a', 1);
    circuit.close();
    expect([circuit.room, circuit.state, rooms]).toEqual([Infinity, undefined, []]);
  });

  it('has no room until its time, and then room for one run at a time', async () => {
    const { circuit, clock, rooms, pass } = create();
    const sinceMs = clock.now();
    circuit.open(sinceMs + 500);
    expect(circuit.state).toEqual({ sinceMs, untilMs: sinceMs + 500 });
    await pass(499);
    expect(rooms).toEqual([0]);
    await pass(1);
    expect(rooms).toEqual([0, 1]);
    circuit.started('a', 1);
    circuit.started('b', 2);
    circuit.ended('b', 2);
    circuit.ended('a', 7);
    expect([circuit.room, rooms]).toEqual([0, [0, 1, 0]]);
    circuit.ended('a', 1);
    expect(rooms).toEqual([0, 1, 0, 1]);
    circuit.close();
    expect([circuit.room, circuit.state]).toEqual([Infinity, undefined]);
  });

  it('takes a run that had started before its time for none of its own', async () => {
    const { circuit, clock, pass } = create();
    circuit.open(clock.now() + 500);
    circuit.started('a', 1);
    await pass(500);
    expect(circuit.room).toBe(1);
  });

  it('counts from the last time, since the first one', async () => {
    const { circuit, clock, rooms, pass } = create();
    const sinceMs = clock.now();
    circuit.open(sinceMs + 500);
    await pass(500);
    circuit.started('a', 1);
    circuit.open(clock.now() + 1000);
    expect(circuit.state).toEqual({ sinceMs, untilMs: sinceMs + 1500 });
    // The run of the time before.
    circuit.ended('a', 1);
    await pass(999);
    expect(rooms).toEqual([0, 1, 0, 0]);
    await pass(1);
    expect(rooms).toEqual([0, 1, 0, 0, 1]);
  });

  it.each(['close', 'stop'] as const)('waits for no time after %s', async (end) => {
    const { circuit, clock, rooms, pass } = create();
    circuit.open(clock.now() + 500);
    circuit[end]();
    const before = rooms.length;
    await pass(1000);
    expect(rooms).toHaveLength(before);
  });
});
