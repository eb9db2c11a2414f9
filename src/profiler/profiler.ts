import type { Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../core/index.ts';
import { CPU_INTERVAL_US, HEAP_INTERVAL_BYTES, type ProfileSpec } from '../contract/node/profile-request.ts';

/** Another profile is being taken. */
export class ProfilerBusyError extends Error {
  override readonly name = 'ProfilerBusyError';
  /** Until that profile is complete, at the latest. */
  readonly leftSeconds: number;

  constructor(leftSeconds: number) {
    super(`a profile of this process is being taken already: try again in ${leftSeconds} s`);
    this.leftSeconds = leftSeconds;
  }
}

/** This process cannot be profiled; the message says why. */
export class ProfilerUnavailableError extends Error {
  override readonly name = 'ProfilerUnavailableError';
}

/**
 * Takes profiles of this process with V8's own profilers, which cost nothing until then. It needs no restart and no
 * option of Node, and opens no port: the session of the inspector is in the process. It takes one profile at a time.
 *
 * Costs: the start of a CPU profile stops the process for some 20 to 60 ms, because V8 lists the compiled code, and
 * optimises it anew in the first tenths of a second. The end of a memory profile stops it for a full garbage
 * collection. A profile does not show memory outside of V8's heap (Buffers).
 */
export class Profiler {
  #endsMs: number | undefined;

  /**
   * Takes a profile, and returns it in V8's JSON: `.cpuprofile` for `cpu`, `.heapprofile` for `heap` and `allocs`.
   * @param signal ends it early, without a profile.
   * @throws ProfilerBusyError
   * @throws ProfilerUnavailableError
   * @throws the signal's reason, when it is aborted
   */
  async take({ kind, seconds }: ProfileSpec, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    if (this.#endsMs !== undefined) {
      throw new ProfilerBusyError(Math.max(1, Math.ceil((this.#endsMs - performance.now()) / 1000)));
    }
    this.#endsMs = performance.now() + seconds * 1000;
    let session: Session | undefined;
    try {
      session = await openSession();
      await (kind === 'cpu' ? startCpu(session) : startHeap(session, kind === 'allocs')).catch(unavailable);
      await sleep(seconds * 1000, undefined, { signal });
      const { profile } = await (
        kind === 'cpu' ? session.post('Profiler.stop') : session.post('HeapProfiler.stopSampling')
      ).catch(unavailable);
      return JSON.stringify(profile);
    } finally {
      // This ends the profile, too.
      session?.disconnect();
      this.#endsMs = undefined;
    }
  }
}

async function openSession(): Promise<Session> {
  try {
    // Loaded here, because most processes never need it.
    const inspector = await import('node:inspector/promises');
    const session = new inspector.Session();
    session.connect();
    return session;
  } catch (error) {
    return unavailable(error);
  }
}

async function startCpu(session: Session): Promise<void> {
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: CPU_INTERVAL_US });
  await session.post('Profiler.start');
  // V8 does not know the functions of code that it optimised earlier: their time counts for the caller or for
  // `(program)`. Starting V8's coverage discards that code, and the profiler sees everything compiled from here on.
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  await session.post('Profiler.stopPreciseCoverage');
}

async function startHeap(session: Session, includeCollected: boolean): Promise<void> {
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: HEAP_INTERVAL_BYTES,
    includeObjectsCollectedByMajorGC: includeCollected,
    includeObjectsCollectedByMinorGC: includeCollected,
  });
}

function unavailable(error: unknown): never {
  throw new ProfilerUnavailableError(`this process cannot be profiled (${messageOf(error)})`, { cause: error });
}
