/** The main module of the thread of `pprofInThread`. */
import { parentPort, workerData } from 'node:worker_threads';
import { pprofOf, type V8Profile } from './pprof.ts';

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- it is a thread, and no window
parentPort?.postMessage(pprofOf(workerData as V8Profile));
