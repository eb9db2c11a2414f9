/** The main module of the thread of `pprofInThread`. */
import { parentPort, workerData } from 'node:worker_threads';
import { pprofOf, type V8Profile } from './pprof.ts';

parentPort?.postMessage(pprofOf(workerData as V8Profile));
