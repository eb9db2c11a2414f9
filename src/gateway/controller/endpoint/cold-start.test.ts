import { beforeEach, describe, expect, it } from 'vitest';
import { LEVELHOOK_HEADER } from '../../../contract/index.ts';
import { ColdStart } from './cold-start.ts';
import type { Answer, EndpointRequest } from './endpoint.ts';

const answered = (status: number, headers: Record<string, string> = {}): Answer => ({
  kind: 'answered',
  status,
  headers,
  body: '',
  isStream: false,
});
const fine = answered(200, { [LEVELHOOK_HEADER]: 'v1' });
const refused: Answer = { kind: 'refused', reason: 'refused', message: 'connection refused' };

const trigger = { body: '{}', id: 'msg', timeoutMs: 15_000 } as const;

describe('a cold start', () => {
  let nowMs: number;
  let answer: Answer | Promise<Answer>;
  /** The methods of the requests that were sent. */
  let sent: string[];
  let coldStart: ColdStart;

  beforeEach(() => {
    nowMs = 1_000_000;
    answer = fine;
    sent = [];
    coldStart = create(60_000);
  });

  function create(windowMs: number): ColdStart {
    const send = async ({ body }: Pick<EndpointRequest, 'body'>): Promise<Answer> => {
      sent.push(body === '' ? 'GET' : 'POST');
      return answer;
    };
    return new ColdStart({ endpoint: { send }, clock: { now: () => nowMs }, windowMs });
  }

  /** As the dispatcher. */
  async function dispatch(): Promise<Answer | string> {
    const absence = coldStart.isInDoubt ? await coldStart.absence(15_000) : undefined;
    return absence ?? (await coldStart.send(trigger));
  }

  it('reads no more of the answer than of a description, and counts its bytes', async () => {
    const requests: EndpointRequest[] = [];
    const send = async (request: EndpointRequest): Promise<Answer> => {
      requests.push(request);
      return answer;
    };
    coldStart = new ColdStart({ endpoint: { send }, clock: { now: () => nowMs }, windowMs: 60_000 });
    const hold = { add: () => true, release: () => {} };
    await coldStart.absence(15_000, undefined, hold);
    expect(requests).toMatchObject([{ body: '', maxAnswerBytes: 128 * 1024, hold }]);
  });

  it('asks a function that it has not heard, or not for more than ten seconds, and no other', async () => {
    await dispatch();
    expect(sent).toEqual(['GET', 'POST']);
    nowMs += 10_000;
    await dispatch();
    nowMs += 10_000;
    await dispatch();
    expect(sent.slice(2)).toEqual(['POST', 'POST']);
    nowMs += 10_001;
    await dispatch();
    expect(sent.slice(4)).toEqual(['GET', 'POST']);
  });

  it.each<[string, Answer, string]>([
    ['a refused connection', refused, 'connection refused'],
    ["a proxy's 429", answered(429), 'a proxy answered 429'],
    ["a proxy's 502", answered(502), 'a proxy answered 502'],
    ["a proxy's 503", answered(503), 'a proxy answered 503'],
    ["a proxy's 504", answered(504), 'a proxy answered 504'],
    ['a connection that breaks', { kind: 'failed', reason: 'connection', message: 'reset' }, 'reset'],
    ['no answer', { kind: 'failed', reason: 'timeout', message: 'no answer' }, 'no answer'],
  ])('sends no trigger after %s, until the function answers', async (_what, absent, message) => {
    answer = absent;
    expect(await dispatch()).toBe(message);
    nowMs += 30_000;
    expect(await dispatch()).toBe(message);
    expect(coldStart.isStarting).toBe(true);
    expect(sent).toEqual(['GET', 'GET']);
    answer = fine;
    expect(await dispatch()).toBe(fine);
    expect(sent).toEqual(['GET', 'GET', 'GET', 'POST']);
    expect(coldStart.isStarting).toBe(false);
  });

  it.each<[string, Answer]>([
    ["the function's own 503", answered(503, { [LEVELHOOK_HEADER]: 'v1' })],
    ['401', answered(401)],
    ['404', answered(404)],
    ['500', answered(500)],
    ['a description that is too large', { kind: 'failed', reason: 'too-large', message: 'm' }],
  ])('is over with any answer of the function: %s', async (_what, there) => {
    answer = there;
    expect(await dispatch()).toBe(there);
    expect(sent).toEqual(['GET', 'POST']);
  });

  it('asks again after a trigger that the function did not answer, before the next', async () => {
    await dispatch();
    answer = answered(502);
    await dispatch();
    expect(coldStart.isStarting).toBe(true);
    answer = fine;
    await dispatch();
    expect(sent.slice(2)).toEqual(['POST', 'GET', 'POST']);
  });

  it('sends triggers as to any function once the window is over', async () => {
    answer = refused;
    await dispatch();
    nowMs += 59_999;
    expect(await dispatch()).toBe('connection refused');
    nowMs += 1;
    expect(await dispatch()).toBe(refused);
    nowMs += 1000;
    expect(await dispatch()).toBe(refused);
    expect(coldStart.isStarting).toBe(false);
    expect(sent).toEqual(['GET', 'GET', 'POST', 'POST']);
  });

  it('has a new window when no key has called the function for a minute', async () => {
    answer = refused;
    await dispatch();
    nowMs += 60_000;
    expect(await dispatch()).toBe(refused);
    nowMs += 60_001;
    expect(await dispatch()).toBe('connection refused');
    expect(coldStart.isStarting).toBe(true);
  });

  it('has one window, however short, while a key tries again', async () => {
    coldStart = create(1000);
    answer = refused;
    await dispatch();
    for (let at = 0; at < 5; at += 1) {
      nowMs += 30_000;
      expect(await dispatch()).toBe(refused);
    }
    expect(sent).toEqual(['GET', 'POST', 'POST', 'POST', 'POST', 'POST']);
  });

  it('asks once for all triggers of a moment, and none while another is with the function', async () => {
    const held = Promise.withResolvers<Answer>();
    answer = held.promise;
    const all = [dispatch(), dispatch(), dispatch()];
    expect(sent).toEqual(['GET']);
    held.resolve(fine);
    await Promise.all(all);
    expect(sent).toEqual(['GET', 'POST', 'POST', 'POST']);
    const long = Promise.withResolvers<Answer>();
    answer = long.promise;
    const run = dispatch();
    nowMs += 20_000;
    expect(coldStart.isInDoubt).toBe(false);
    long.resolve(fine);
    await run;
  });

  it('asks for nothing without a window', async () => {
    coldStart = create(0);
    answer = refused;
    for (let at = 0; at < 3; at += 1) expect(await dispatch()).toBe(refused);
    expect(coldStart.isStarting).toBe(false);
    expect(sent).toEqual(['POST', 'POST', 'POST']);
  });
});
