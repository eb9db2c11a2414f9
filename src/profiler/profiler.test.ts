import { Session } from 'node:inspector/promises';
import { describe, expect, it, vi } from 'vitest';
import { Profiler, ProfilerBusyError } from './profiler.ts';

interface CpuNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string };
  readonly children?: readonly number[];
}

interface HeapNode {
  readonly callFrame: { readonly functionName: string };
  readonly selfSize: number;
  readonly children: readonly HeapNode[];
}

const never = new AbortController().signal;

function burnProcessorTime(ms: number): number {
  let sum = 0;
  // Of this thread, so that a machine that stands still takes no samples away.
  const threadMs = (): number => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  // Seldom enough that a sample finds this function, and not the clock, at the top of the stack.
  for (const from = threadMs(); threadMs() < from + ms;) {
    for (let count = 0; count < 100_000; count += 1) sum += Math.sqrt(sum + 1);
  }
  return sum;
}

const kept: object[] = [];
function allocateAndKeep(): void {
  for (let at = 0; at < 100_000; at += 1) kept.push({ at, text: `kept ${at}` });
}
let last: object | undefined;
function allocateAndDrop(): void {
  for (let at = 0; at < 200_000; at += 1) last = { at, before: `dropped ${at}` };
}

/** Takes a profile and does the work just before the profiler stops V8, so that the work is in it on any machine. */
async function during<T>(take: () => Promise<T>, work: () => void): Promise<T> {
  // oxlint-disable-next-line typescript/unbound-method -- it is called with the session below
  const { post } = Session.prototype;
  const spy = vi.spyOn(Session.prototype, 'post').mockImplementation(function (this: Session, ...given) {
    if (/[.]stop(Sampling)?$/.test(given[0])) work();
    return Reflect.apply(post, this, given);
  });
  try {
    return await take();
  } finally {
    spy.mockRestore();
  }
}

function bytesOf({ callFrame, selfSize, children }: HeapNode, name: string): number {
  const own = callFrame.functionName === name ? selfSize : 0;
  return children.reduce((sum, child) => sum + bytesOf(child, name), own);
}

describe('Profiler', () => {
  it('takes a CPU profile of the form that DevTools opens', async () => {
    const take = () => new Profiler().take({ kind: 'cpu', seconds: 1 }, never);
    const profile = JSON.parse(await during(take, () => burnProcessorTime(500))) as {
      nodes: CpuNode[];
      samples: number[];
      timeDeltas: number[];
      startTime: number;
      endTime: number;
    };
    const { nodes, samples, timeDeltas, startTime, endTime } = profile;
    const ids = new Set(nodes.map(({ id }) => id));
    expect(ids.size).toBe(nodes.length);
    // Each node but the root has one parent.
    const children = nodes.flatMap(({ children: own = [] }) => own);
    expect(new Set(children).size).toBe(nodes.length - 1);
    expect(children.every((id) => ids.has(id))).toBe(true);
    expect(samples.length).toBe(timeDeltas.length);
    expect(samples.every((id) => ids.has(id))).toBe(true);
    expect(endTime - startTime).toBeGreaterThan(900_000);
    const hot = nodes.filter(({ callFrame }) => callFrame.functionName === 'burnProcessorTime').map(({ id }) => id);
    expect(samples.filter((id) => hot.includes(id)).length).toBeGreaterThan(10);
  });

  it('takes a profile of the memory in use, or of all that was allocated', async () => {
    const profiler = new Profiler();
    const work = (): void => {
      allocateAndKeep();
      allocateAndDrop();
    };
    const dropping = (): void => {
      work();
      last = undefined;
    };
    const inUse = JSON.parse(await during(() => profiler.take({ kind: 'heap', seconds: 1 }, never), dropping)) as {
      head: HeapNode;
    };
    expect(bytesOf(inUse.head, 'allocateAndKeep')).toBeGreaterThan(1e6);
    expect(bytesOf(inUse.head, 'allocateAndDrop')).toBe(0);
    const all = JSON.parse(await during(() => profiler.take({ kind: 'allocs', seconds: 1 }, never), work)) as {
      head: HeapNode;
    };
    expect(bytesOf(all.head, 'allocateAndKeep')).toBeGreaterThan(1e6);
    expect(bytesOf(all.head, 'allocateAndDrop')).toBeGreaterThan(1e6);
    expect([kept.length, last]).toEqual([200_000, { at: 199_999, before: 'dropped 199999' }]);
  });

  it('takes one at a time, and another as soon as that one has ended or was ended', async () => {
    const profiler = new Profiler();
    const abort = new AbortController();
    const taken = profiler.take({ kind: 'cpu', seconds: 60 }, abort.signal);
    const busy = await profiler.take({ kind: 'heap', seconds: 1 }, never).catch((error: unknown) => error);
    expect(busy).toBeInstanceOf(ProfilerBusyError);
    expect((busy as Error).message).toMatch(/try again in (60|59) s$/);
    abort.abort(new Error('hung up'));
    await expect(taken).rejects.toThrow();
    await expect(profiler.take({ kind: 'cpu', seconds: 60 }, abort.signal)).rejects.toThrow('hung up');
    expect(JSON.parse(await profiler.take({ kind: 'heap', seconds: 1 }, never))).toHaveProperty('head');
  });
});
