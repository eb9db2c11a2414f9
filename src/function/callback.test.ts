import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type CallbackBody, generateSecret, importSecret, LEVELHOOK_HEADER, verify } from '../contract/index.ts';
import { resource } from '../core/index.ts';
import { complete, heartbeat, type RunToken, RunOverError } from './callback.ts';

const secret = generateSecret();
const secrets = [secret];
const pods = resource('v1', 'Pod');
const token: RunToken = {
  url: 'https://gateway.example.com/cache/callbacks/web',
  token: 't',
  maxSeconds: 600,
  controller: 'web',
  namespace: 'a',
  name: 'b',
  run: 7,
};

describe('a callback', () => {
  let posted: { at: number; id: string | null; body: CallbackBody }[];
  let answers: (() => Response)[];

  beforeEach(() => {
    vi.useFakeTimers({ now: 1_700_000_000_000 });
    posted = [];
    answers = [];
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const ours =
    (status: number, body: object = {}, headers: Record<string, string> = {}) =>
    () =>
      Response.json(body, { status, headers: { [LEVELHOOK_HEADER]: 'v1', ...headers } });
  const post = async (url: unknown, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    const text = init.body as string;
    expect(url).toBe(token.url);
    // Like the gateway: each attempt needs a signature of its own time.
    await verify([await importSecret(secret)], { headers, nowMs: Date.now(), body: text });
    posted.push({ at: Date.now(), id: headers.get('webhook-id'), body: JSON.parse(text) as CallbackBody });
    return (answers.shift() ?? ours(200))();
  };
  const options = { secrets, fetch: post as typeof fetch };

  /** Lets time pass until the promise settles. */
  async function passing<T>(work: Promise<T>): Promise<T> {
    const ended = work.then(
      () => true,
      () => true,
    );
    const pass = async (): Promise<false> => {
      // Another thread signs, and the test's clock does not advance for it, even on a busy machine. So wait for real.
      await sleep(1);
      if (vi.getTimerCount() > 0) await vi.advanceTimersByTimeAsync(100);
      return false;
    };
    while (!(await Promise.race([ended, pass()])));
    return work;
  }

  it('carries what the trigger named, signed, and the outcome', async () => {
    await passing(complete(token, { status: 'done', requeueAfterSeconds: 5 }, options));
    const { url: _url, maxSeconds: _max, ...run } = token;
    expect(posted[0]?.body).toEqual({ version: 'v1', ...run, result: { status: 'done', requeueAfterSeconds: 5 } });
  });

  it('is sent again until the gateway has taken it, signed anew under the same id', async () => {
    answers = [
      () => {
        throw new TypeError('fetch failed');
      },
      ours(503, { error: 'not ready' }, { 'retry-after': '400' }),
      () => new Response('<html>', { status: 404 }),
      () => new Response('{}', { status: 200 }),
      () => new Response('<html>', { status: 410 }),
      ours(500),
    ];
    const signal = new AbortController().signal;
    await passing(complete(token, { status: 'done' }, { ...options, signal }));
    expect(posted).toHaveLength(7);
    expect(new Set(posted.map(({ id }) => id)).size).toBe(1);
    // The time between them exceeds the validity of a signature.
    expect((posted[6]?.at ?? 0) - (posted[0]?.at ?? 0)).toBeGreaterThan(400_000);
  });

  it.each([409, 410])('is refused for good by a %i of the gateway', async (status) => {
    answers = [ours(status, { error: 'run 7 is not in flight any more' })];
    const error = await passing(complete(token, { status: 'done' }, options).catch((reason: unknown) => reason));
    expect(error).toBeInstanceOf(RunOverError);
    expect(String(error)).toContain('run 7 is not in flight any more');
    expect(posted).toHaveLength(1);
  });

  it.each([400, 401, 404, 413])('is not sent again after a %i of the gateway', async (status) => {
    answers = [ours(status, { error: 'why' })];
    await expect(passing(complete(token, { status: 'done' }, options))).rejects.toThrow(`${status}: "why"`);
    expect(posted).toHaveLength(1);
  });

  it('is given up when its signal is aborted, and says why', async () => {
    answers = Array.from({ length: 50 }, () => ours(503, { error: 'the gateway is not ready' }));
    const given = new AbortController();
    setTimeout(() => given.abort(), 5000);
    const work = complete(token, { status: 'done' }, { ...options, signal: given.signal });
    await expect(passing(work)).rejects.toThrow(/run 7 was not taken: .*not ready/);
    // The number depends on how long signing takes, because the test's clock does not wait for it.
    expect(posted.length).toBeGreaterThan(1);
  });

  it('counts what was granted from before it was asked, at most what the gateway says', async () => {
    answers = [ours(503), ours(200, { withinSeconds: 60 })];
    const run = await passing(heartbeat(token, { ...options, withinSeconds: 5000, api: never }));
    expect(posted[0]?.body.result).toEqual({ status: 'accepted', withinSeconds: 600 });
    expect(run.deadlineMs).toBeLessThanOrEqual((posted[1]?.at ?? 0) + 60_000);
    expect(run.deadlineMs).toBeGreaterThan((posted[0]?.at ?? 0) + 60_000);
  });

  it('writes where the run may write alone, and does not tell the gateway where that is', async () => {
    answers = [ours(200, { withinSeconds: 60 })];
    const bound = { ...token, writesTo: 'a' };
    const run = await passing(heartbeat(bound, { ...options, withinSeconds: 60, api: never }));
    const write = (namespace: string) => run.api.delete(pods, { namespace, name: 'x' });
    await expect(write('b')).rejects.toThrow(/the namespace of its key alone, a\./);
    await expect(write('a')).rejects.toThrow('cut');
    expect(posted[0]?.body).not.toHaveProperty('writesTo');
  });

  it('writes what its controller declares, and nothing else', async () => {
    answers = [ours(200, { withinSeconds: 60 })];
    // As it comes to another process.
    const bound = JSON.parse(
      JSON.stringify({ ...token, writes: [{ resource: pods, verbs: ['delete'] }] }),
    ) as typeof token;
    const run = await passing(heartbeat(bound, { ...options, withinSeconds: 60, api: never }));
    await expect(run.api.create(pods, { metadata: { namespace: 'a', name: 'x' } })).rejects.toThrow(
      /have no create of pods/,
    );
    await expect(run.api.delete(pods, { namespace: 'a', name: 'x' })).rejects.toThrow('cut');
    expect(posted[0]?.body).not.toHaveProperty('writes');
  });

  it('says that nothing is known after a write without an answer, whatever it was told', async () => {
    const run = await passing(heartbeat(token, { ...options, withinSeconds: 60, api: never }));
    answers = [ours(200, { withinSeconds: 60 })];
    const granted = await passing(heartbeat(token, { ...options, withinSeconds: 60, api: never }));
    // An answer without a time grants no time.
    await expect(run.api.create(pods, { metadata: { name: 'x' } })).rejects.toThrow(/the run is over/);
    await expect(granted.api.create(pods, { metadata: { name: 'x' } })).rejects.toThrow('cut');
    await passing(granted.complete({ status: 'done' }));
    expect(posted.at(-1)?.body.result).toMatchObject({ status: 'unknown' });
  });
});

const never = async (): Promise<never> => {
  throw new Error('cut');
};
