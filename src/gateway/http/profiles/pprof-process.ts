import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { V8Profile } from './pprof.ts';
import type { PprofAnswer } from './pprof-child.ts';

/** `.ts` in the sources, `.js` in the package. */
const CHILD = fileURLToPath(new URL(import.meta.url.replace(/[^/]*([.][jt]s)$/, 'pprof-child$1')));
/** A profile of 8 MB takes a fifth of it, and less than a second. */
const MEMORY_MB = 256;
const LIMIT_MS = 20_000;

/**
 * As `pprofOf`, in a process of its own with limits of memory and time: a profile has megabytes of JSON that a function
 * has written, and the gateway must go on. A thread would not do, because V8 may end the whole process when a thread
 * reaches its limit of memory.
 * @throws what `pprofOf` does, and when a limit is reached.
 * @throws what aborted the signal
 */
export async function pprofInProcess(profile: V8Profile, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  signal.throwIfAborted();
  const late = AbortSignal.timeout(LIMIT_MS);
  const ended = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
  const onAbort = (): void => ended.reject(signal.aborted ? signal.reason : new Error('it takes too long'));
  const either = AbortSignal.any([signal, late]);
  either.addEventListener('abort', onAbort, { once: true });
  const child = fork(CHILD, {
    execArgv: [...process.execArgv, `--max-old-space-size=${MEMORY_MB}`],
    // It needs none of the gateway's settings, which are secret in part.
    env: {},
    serialization: 'advanced',
    // V8 prints pages when it has no memory left.
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  child.once('message', (answer: PprofAnswer) => {
    if ('bytes' in answer) ended.resolve(new Uint8Array(answer.bytes));
    else ended.reject(new Error(answer.error));
  });
  child.once('error', (error) => ended.reject(error));
  // Behind its answer, whereas its `exit` may come before.
  child.once('disconnect', () =>
    ended.reject(new Error(`it takes more than ${MEMORY_MB} MB of memory, or its process was ended`)),
  );
  child.send(profile, (error) => error && ended.reject(error));
  try {
    return await ended.promise;
  } finally {
    either.removeEventListener('abort', onAbort);
    child.kill('SIGKILL');
  }
}
