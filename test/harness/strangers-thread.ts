import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { Stranger } from './stranger.ts';

/** What the strangers of a thread do, and from which address each. */
export interface StrangersOptions {
  /** Of the webhook. */
  readonly url: string;
  readonly namespace: string;
  readonly silent: { readonly address: string; readonly count: number };
  readonly bodies: { readonly address: string; readonly count: number };
  readonly slow: { readonly address: string; readonly count: number };
  readonly pipelining: { readonly address: string; readonly count: number };
}

// A thread, so that a test's own function answers while thousands of connections are made. It says when all have tried.
const { url, namespace, silent, bodies, slow, pipelining } = workerData as StrangersOptions;
const silents = new Stranger(silent.address, url);
const senders = new Stranger(bodies.address, url);
const reviewers = new Stranger(slow.address, url);
const floods = new Stranger(pipelining.address, url);
floods.keepPipelining(pipelining.count);
silents.keepSilent(silent.count);
senders.keepSendingBodies(bodies.count, 8 * 1024 * 1024);
reviewers.keepReviewing(slow.count, { namespace, name: 'slow' });
while (
  silents.tries < silent.count ||
  senders.tries < bodies.count ||
  reviewers.tries < slow.count ||
  floods.tries < pipelining.count
)
  await sleep(50);
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
parentPort?.postMessage('tried');
