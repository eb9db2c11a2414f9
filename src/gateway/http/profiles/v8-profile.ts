import { z } from 'zod';

/** Where a function is in the sources. Lines count from 0; -1 for V8's own. */
const callFrame = z.object({
  functionName: z.string(),
  url: z.string(),
  lineNumber: z.int(),
});
export type CallFrame = z.output<typeof callFrame>;

/** `Profiler.Profile` of V8's inspector, a `.cpuprofile`. Times are in microseconds. */
export const cpuProfile = z.object({
  nodes: z.array(z.object({ id: z.int(), callFrame, children: z.array(z.int()).optional() })),
  startTime: z.number(),
  endTime: z.number(),
  /** The node on top of the stack at each sample. */
  samples: z.array(z.int()),
  /** Before each sample, since the sample before. */
  timeDeltas: z.array(z.number()),
});
export type CpuProfile = z.output<typeof cpuProfile>;

const heapNode = z.object({
  callFrame,
  /** Bytes that were allocated here, and not by functions that this one called. */
  selfSize: z.number().nonnegative(),
  get children() {
    return z.array(heapNode);
  },
});
export type HeapNode = z.output<typeof heapNode>;

/** `HeapProfiler.SamplingHeapProfile`, a `.heapprofile`. */
export const heapProfile = z.object({ head: heapNode });
