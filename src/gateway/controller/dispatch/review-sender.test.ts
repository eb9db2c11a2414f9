import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { HELD_MS, holdTimers } from '../../../../test/harness/held-timers.ts';
import { ReviewFunction, allow } from '../../../../test/harness/review-function.ts';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import { type Clock, type RequestSource, systemClock } from '../../../core/index.ts';
import { generateSecret, type CacheLocation, type ReviewRequest } from '../../../contract/index.ts';
import { importExtractableSecret } from '../../../contract/signature.ts';
import { CpuBudgets } from '../cel/cpu-budget.ts';
import { type Answer, Endpoint } from '../endpoint/endpoint.ts';
import { REVIEW_CONNECTIONS, ReviewSender, type ReviewSenderOptions } from './review-sender.ts';

const secret = generateSecret();
const location: CacheLocation = { views: {}, url: 'https://gateway.test/cache', token: 't' };
const json = '{"apiVersion":"a/v1","kind":"R","request":{"uid":"u","number":12345678901234567890}}';
const apiserver: RequestSource = { name: '10.0.0.1', isKnown: true };
const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };

let fn: ReviewFunction;
let sender: ReviewSender;

beforeEach(async () => {
  fn = new ReviewFunction({ name: 'guard', for: configMap }, secret);
  await fn.open();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await sender.close();
  await fn.close();
});

async function senderOf(options: Partial<ReviewSenderOptions> = {}): Promise<ReviewSender> {
  const keys = [await importExtractableSecret(secret)];
  sender = new ReviewSender({
    functionName: 'guard',
    endpoint: () => new Endpoint(fn.url, keys, { connections: 2 }),
    cache: () => location,
    ages: async () => new Map([['v1/ConfigMap', 1500]]),
    clock: systemClock,
    startWindowMs: 60_000,
    ...options,
  });
  return sender;
}

async function send(timeoutMs = 5000, source = apiserver) {
  const deadlineMs = systemClock.now() + timeoutMs;
  return sender.send({ webhook: 'names', json, source, deadlineMs, maxAnswerBytes: 1000 }, await sender.cache());
}

describe('a review on its way to the function', () => {
  it('is signed, and has the cache, its age and the deadline', async () => {
    await senderOf();
    const startedMs = performance.now();
    expect(await send()).toMatchObject({ kind: 'answered', status: 200 });
    const tookSeconds = (performance.now() - startedMs) / 1000;
    const [review] = fn.reviews;
    expect(review).toMatchObject({ controller: 'guard', webhook: 'names', authenticated: true, cache: location });
    // The time that has passed since the age was read counts.
    expect(review?.cacheAgeSeconds['v1/ConfigMap']).toBeGreaterThanOrEqual(1.5);
    expect(review?.cacheAgeSeconds['v1/ConfigMap']).toBeLessThan(2 + tookSeconds);
    expect(review?.remainingSeconds).toBeGreaterThan(0);
    expect(review?.remainingSeconds).toBeLessThanOrEqual(5);
    expect(Date.parse(review?.deadline ?? '') - Date.now()).toBeLessThan(5000);
  });

  it('says that its sender is not known, and comes without the cache then', async () => {
    await senderOf();
    expect(await send(5000, { name: '10.0.0.1', isKnown: false })).toMatchObject({ kind: 'answered', status: 200 });
    expect(fn.reviews[0]).toMatchObject({ authenticated: false, cacheAgeSeconds: {} });
    expect(fn.reviews[0]?.cache).toEqual({ views: {} });
  });

  it('has no age while Redis does not answer', async () => {
    await senderOf({ ages: () => new Promise<never>(() => {}) });
    expect(await send()).toMatchObject({ kind: 'answered', status: 200 });
    expect(fn.reviews[0]).toMatchObject({ cache: location, cacheAgeSeconds: {} });
  });

  it('waits for a connection, and its time runs', async () => {
    fn.behaviour = () => {};
    await senderOf();
    // The last one is over before the others give their connections back.
    const passDeadline = holdTimers();
    const held = [send(HELD_MS), send(HELD_MS)];
    await expect.poll(() => fn.reviews.length).toBe(2);
    expect(await send(400)).toMatchObject({ kind: 'refused' });
    passDeadline();
    for (const answer of await Promise.all(held)) expect(answer).toMatchObject({ kind: 'failed' });
    expect(fn.reviews).toHaveLength(2);
  });
});

describe('a function that refuses connections', () => {
  it('gets the review when it is there, once', async () => {
    await senderOf();
    await fn.close();
    const answer = send(60_000);
    await new Promise((resolve) => setTimeout(resolve, 500));
    await fn.open();
    expect(await answer).toMatchObject({ kind: 'answered', status: 200 });
    expect(fn.reviews).toHaveLength(1);
  });

  it('is tried until the deadline, and no longer', async () => {
    await senderOf();
    await fn.close();
    const startedMs = systemClock.now();
    expect(await send(3000)).toMatchObject({ kind: 'refused', reason: 'refused' });
    expect(systemClock.now() - startedMs).toBeGreaterThan(1500);
  });

  it('is tried once when it has not started in its window', async () => {
    let attempts = 0;
    const refused: Answer = { kind: 'refused', reason: 'refused', message: 'connection refused' };
    const send = async (): Promise<Answer> => {
      attempts += 1;
      return refused;
    };
    const clock = new InstantClock();
    await senderOf({
      startWindowMs: 1000,
      clock,
      endpoint: () => ({ send, close: async () => {} }),
    });
    const sent = { webhook: 'names', json, source: apiserver, maxAnswerBytes: 1000 };
    const cache = { location, ages: new Map<string, number>(), atMs: clock.now() };
    expect(await sender.send({ ...sent, deadlineMs: clock.now() + 20_000 }, cache)).toBe(refused);
    expect(attempts).toBeGreaterThan(5);
    attempts = 0;
    expect(await sender.send({ ...sent, deadlineMs: clock.now() + 20_000 }, cache)).toBe(refused);
    expect(attempts).toBe(1);
  });
});

describe('a large review to a function that is absent', () => {
  const review = (clock: Clock) => ({
    webhook: 'names',
    json: `{"text":"${'x'.repeat(1024 * 1024)}"}`,
    source: apiserver,
    maxAnswerBytes: 1000,
    deadlineMs: clock.now() + 20_000,
  });
  const refused: Answer = { kind: 'refused', reason: 'refused', message: 'connection refused' };
  const answered: Answer = { kind: 'answered', status: 200, headers: {}, body: '', isStream: false };

  it('is signed for the first attempt, and when the function is there', async () => {
    const bodies: string[] = [];
    const clock = new InstantClock();
    await senderOf({
      clock,
      endpoint: () => ({
        send: async ({ body }) => (bodies.push(body) <= 50 ? refused : answered),
        close: async () => {},
      }),
    });
    const cache = { location, ages: new Map([['v1/ConfigMap', 0]]), atMs: clock.now() };
    expect(await sender.send(review(clock), cache)).toBe(answered);
    expect(bodies.length).toBeGreaterThan(50);
    const [first, last, ...more] = bodies
      .filter((body) => body !== '')
      .map((body) => JSON.parse(body) as ReviewRequest);
    expect(more).toEqual([]);
    // The time has passed for the second.
    expect(first?.remainingSeconds).toBe(20);
    expect(last?.remainingSeconds).toBeLessThan(16);
    expect(last?.cacheAgeSeconds['v1/ConfigMap']).toBeGreaterThan(4);
  });

  it('is signed again when its budget allows it, if the function answers questions and refuses the review', async () => {
    const clock = new InstantClock();
    const startedMs = clock.now();
    const budget = new CpuBudgets({ now: () => clock.now(), sleep: (ms) => clock.sleep(ms) }).of('guard');
    const keys = await Promise.all([1, 2, 3, 4].map(() => importExtractableSecret(generateSecret())));
    const closed = new Endpoint(fn.url, keys, { connections: 2 });
    await fn.close();
    let signed = 0;
    await senderOf({
      clock,
      endpoint: () => ({
        send: async (request) => {
          if (request.body === '') return answered;
          signed += 1;
          return closed.send(request);
        },
        close: () => closed.close(),
      }),
    });
    const turn = (): Promise<void> => budget.inTurn(() => {});
    const charge = (ms: number): unknown => budget.charge(ms);
    const cache = { location, ages: new Map<string, number>(), atMs: clock.now() };
    expect(await sender.send({ ...review(clock), charge, turn }, cache)).toMatchObject({ kind: 'refused' });
    // Four keys take 16 ms for 1 MiB: there are 300 ms at once, and 50 ms in each second.
    expect(clock.now() - startedMs).toBeGreaterThan(19_000);
    expect(signed).toBeGreaterThan(10);
    expect(signed).toBeLessThan(90);
  });
});

it('a sender that closes takes no more reviews, and waits for those in flight', async () => {
  await senderOf();
  const arrived = Promise.withResolvers<() => void>();
  fn.behaviour = (review, response) => arrived.resolve(() => allow(review, response));
  const first = send();
  const answer = await arrived.promise;
  const closed = sender.close();
  expect(sender.isClosed).toBe(true);
  expect(await send()).toMatchObject({ kind: 'refused', message: 'the controller is being stopped' });
  answer();
  expect(await first).toMatchObject({ kind: 'answered', status: 200 });
  await closed;
});

/** A function that answers a review when the test says so, and after `release` at once. */
async function heldAnswers() {
  const answers: (() => void)[] = [];
  const answered: Answer = { kind: 'answered', status: 200, headers: {}, body: '', isStream: false };
  let isHeld = true;
  const send = (): Promise<Answer> =>
    new Promise((resolve) => {
      answers.push(() => resolve(answered));
      if (!isHeld) resolve(answered);
    });
  const release = (): void => {
    isHeld = false;
    for (const each of answers) each();
  };
  await senderOf({ endpoint: () => ({ send, close: async () => {} }) });
  const cache = { location, ages: new Map<string, number>(), atMs: systemClock.now() };
  const ask = (timeoutMs: number, source = apiserver) => {
    const deadlineMs = systemClock.now() + timeoutMs;
    return sender.send({ webhook: 'names', json, source, maxAnswerBytes: 1000, deadlineMs }, cache);
  };
  return { answers, answered, ask, release };
}

it('slow reviews of strangers leave places to others, and their own wait', async () => {
  const { answers, ask, release } = await heldAnswers();
  const strangers = ['10.0.0.2', '10.0.0.3'].map((name): RequestSource => ({ name, isKnown: false }));
  const late = strangers.flatMap((source) => Array.from({ length: 64 }, () => ask(60_000, source)));
  // Half of 64, and half of the rest.
  await expect.poll(() => answers.length).toBe(32 + 16);
  const other: RequestSource = { name: '10.0.0.4', isKnown: false };
  const own = Array.from({ length: 8 }, () => ask(60_000, other));
  await expect.poll(() => answers.length).toBe(32 + 16 + 8);
  const known = Array.from({ length: 8 }, () => ask(60_000));
  await expect.poll(() => answers.length).toBe(REVIEW_CONNECTIONS);
  // All places are taken: the next free place goes to the source with the fewest, among the sources that may have more.
  const next = ask(60_000, { name: '10.0.0.5', isKnown: false });
  answers[0]?.();
  await expect.poll(() => answers.length).toBe(REVIEW_CONNECTIONS + 1);
  answers.at(-1)?.();
  expect(await next).toMatchObject({ kind: 'answered' });
  release();
  expect(await Promise.all([...own, ...known, ...late])).toHaveLength(16 + 128);
});

it('of more reviews than there are connections the others wait, and none is sent after its deadline', async () => {
  const { answers, answered, ask, release } = await heldAnswers();
  const first = Array.from({ length: REVIEW_CONNECTIONS }, () => ask(60_000));
  const [late, next] = [ask(50), ask(60_000)];
  expect(await late).toMatchObject({ kind: 'refused', reason: 'timeout' });
  expect(answers).toHaveLength(REVIEW_CONNECTIONS);
  answers[0]?.();
  expect(await first[0]).toBe(answered);
  await new Promise((wake) => setImmediate(wake));
  expect(answers).toHaveLength(REVIEW_CONNECTIONS + 1);
  release();
  expect(await Promise.all([...first, next])).toHaveLength(REVIEW_CONNECTIONS + 1);
});
