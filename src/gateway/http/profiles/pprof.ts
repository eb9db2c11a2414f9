import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { z } from 'zod';
import {
  Function as PprofFunction,
  Line,
  Location,
  Mapping,
  Profile,
  Sample,
  StringTable,
  ValueType,
} from 'pprof-format';
import { CPU_INTERVAL_US, HEAP_INTERVAL_BYTES, type ProfileKind } from '../../../contract/node/profile-request.ts';
import { type CallFrame, cpuProfile, type CpuProfile, type HeapNode, heapProfile } from './v8-profile.ts';

export interface V8Profile {
  readonly kind: ProfileKind;
  /** As V8's inspector gives it. A function may have sent anything else. */
  readonly json: string;
  /** When it was complete, by the wall clock. */
  readonly endWallMs: number;
  /** How long it took. */
  readonly seconds: number;
}

/** V8 itself records 255 frames of a stack at most. Frames below are left out. */
const MAX_DEPTH = 512;

/**
 * Encodes a profile of V8 for pprof: gzipped protobuf, as Go's net/http/pprof serves it
 * (github.com/google/pprof, proto/profile.proto). Sample types:
 *
 * - `cpu`: `samples/count` and `cpu/nanoseconds`, without the time in which the process was idle
 * - `heap`: `inuse_space/bytes`
 * - `allocs`: `alloc_space/bytes`
 *
 * V8 names no counts of objects.
 * @throws when it is not a profile of V8.
 */
export function pprofOf({ kind, json, endWallMs, seconds }: V8Profile): Uint8Array {
  const value: unknown = JSON.parse(json);
  const builder = new PprofBuilder();
  if (kind === 'cpu') {
    builder.describe([['samples', 'count'], CPU], { type: CPU, period: CPU_INTERVAL_US * 1000 });
    addCpuSamples(builder, decoded(cpuProfile, value));
  } else {
    const type = kind === 'heap' ? 'inuse_space' : 'alloc_space';
    builder.describe([[type, 'bytes']], { type: ['space', 'bytes'], period: HEAP_INTERVAL_BYTES });
    addHeapSamples(builder, decoded(heapProfile, value).head);
  }
  return gzipSync(builder.encode(endWallMs, seconds));
}

/** @throws one line, for a message. */
function decoded<T>(schema: z.ZodType<T>, value: unknown): T {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const [issue] = error.issues;
  throw new Error(`it is wrong at ${issue?.path.join('.')}: ${issue?.message}`);
}

type Unit = readonly [type: string, unit: string];
const CPU: Unit = ['cpu', 'nanoseconds'];

/** A sample stands for the time until the next one, as in Chrome's CPUProfileDataModel. */
function addCpuSamples(builder: PprofBuilder, profile: CpuProfile): void {
  const { nodes, samples, timeDeltas, startTime, endTime } = profile;
  const parents = new Map<number, number>();
  for (const { id, children = [] } of nodes) for (const child of children) parents.set(child, id);
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const taken = new Map<number, { count: number; us: number }>();
  let atUs = startTime;
  for (const [at, id] of samples.entries()) {
    atUs += timeDeltas[at] ?? 0;
    const us = timeDeltas[at + 1] ?? endTime - atUs;
    const sum = taken.get(id) ?? { count: 0, us: 0 };
    // V8 may record two samples in the wrong order.
    taken.set(id, { count: sum.count + 1, us: sum.us + Math.max(0, us) });
  }
  for (const [id, { count, us }] of taken) {
    const stack: CallFrame[] = [];
    for (let each: number | undefined = id; each !== undefined && stack.length < MAX_DEPTH; each = parents.get(each)) {
      const frame = frames.get(each);
      if (frame) stack.push(frame);
    }
    if (stack[0]?.functionName !== '(idle)') builder.add(stack, [count, Math.round(us * 1000)]);
  }
}

function addHeapSamples(builder: PprofBuilder, head: HeapNode): void {
  const stack: CallFrame[] = [];
  const visit = ({ callFrame, selfSize, children }: HeapNode): void => {
    stack.unshift(callFrame);
    if (selfSize > 0) builder.add(stack.slice(0, MAX_DEPTH), [Math.round(selfSize)]);
    children.forEach(visit);
    stack.shift();
  };
  visit(head);
}

class PprofBuilder {
  readonly #strings = new StringTable();
  readonly #functions: PprofFunction[] = [];
  readonly #locations = new Map<string, Location>();
  readonly #samples: Sample[] = [];
  #types: Pick<Profile, 'sampleType' | 'periodType' | 'period'> | undefined;

  describe(sampleTypes: readonly Unit[], { type, period }: { readonly type: Unit; readonly period: number }): void {
    const sampleType = sampleTypes.map((each) => this.#valueType(each));
    this.#types = { sampleType, periodType: this.#valueType(type), period };
  }

  /** @param stack the innermost frame first. */
  add(stack: readonly CallFrame[], value: number[]): void {
    const frames = stack.filter(({ functionName }) => functionName !== '(root)');
    if (frames.length === 0) return;
    this.#samples.push(new Sample({ locationId: frames.map((frame) => this.#locationOf(frame).id), value }));
  }

  encode(endWallMs: number, seconds: number): Uint8Array {
    return new Profile({
      ...this.#types,
      sample: this.#samples,
      // It says that there is nothing left to look up in the program's file.
      mapping: [new Mapping({ id: 1, hasFunctions: true, hasFilenames: true, hasLineNumbers: true })],
      location: [...this.#locations.values()],
      function: this.#functions,
      stringTable: this.#strings,
      timeNanos: BigInt(Math.round(endWallMs - seconds * 1000)) * 1_000_000n,
      durationNanos: seconds * 1e9,
    }).encode();
  }

  #valueType([type, unit]: Unit): ValueType {
    return new ValueType({ type: this.#strings.dedup(type), unit: this.#strings.dedup(unit) });
  }

  #locationOf({ functionName, url, lineNumber }: CallFrame): Location {
    const key = JSON.stringify([functionName, url, lineNumber]);
    const known = this.#locations.get(key);
    if (known) return known;
    const id = this.#locations.size + 1;
    const line = Math.max(0, lineNumber + 1);
    const filename = pathOf(url);
    // pprof adds up functions of one name and file.
    const name = this.#strings.dedup(functionName || `(anonymous:${line})`);
    this.#functions.push(
      new PprofFunction({ id, name, systemName: name, filename: this.#strings.dedup(filename), startLine: line }),
    );
    const location = new Location({ id, mappingId: 1, line: [new Line({ functionId: id, line })] });
    this.#locations.set(key, location);
    return location;
  }
}

/** pprof shows the lines of files that it finds. */
function pathOf(url: string): string {
  try {
    return url.startsWith('file:') ? fileURLToPath(url) : url;
  } catch {
    return url;
  }
}
