import { Worker } from 'node:worker_threads';
import type { V8Profile } from './pprof.ts';

/** `.ts` in the sources, `.js` in the package. */
const WORKER = new URL(import.meta.url.replace(/[^/]*([.][jt]s)$/, 'pprof-worker$1'));
/** A profile of 8 MB takes a fifth of it, and less than a second. */
const LIMITS = { maxOldGenerationSizeMb: 256 };
const LIMIT_MS = 20_000;

/**
 * As `pprofOf`, in a thread of its own with limits of memory and time: a profile has megabytes of JSON that a function
 * has written, and the gateway's own thread must go on.
 * @throws what `pprofOf` does, and when a limit is reached.
 * @throws what aborted the signal
 */
export async function pprofInThread(profile: V8Profile, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  signal.throwIfAborted();
  const late = AbortSignal.timeout(LIMIT_MS);
  const ended = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
  const onAbort = (): void => ended.reject(signal.aborted ? signal.reason : new Error('it takes too long'));
  const either = AbortSignal.any([signal, late]);
  either.addEventListener('abort', onAbort, { once: true });
  const worker = new Worker(WORKER, { workerData: profile, resourceLimits: LIMITS });
  worker.once('message', (bytes: Uint8Array<ArrayBuffer>) => ended.resolve(bytes));
  worker.once('error', (error) => ended.reject(error));
  worker.once('exit', () => ended.reject(new Error('its thread has ended')));
  try {
    return await ended.promise;
  } finally {
    either.removeEventListener('abort', onAbort);
    await worker.terminate();
  }
}
