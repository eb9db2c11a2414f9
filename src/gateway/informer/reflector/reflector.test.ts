import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type KubernetesObject, type LogFields, resource, silentLogger } from '../../../core/index.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';
import { eventually } from '../../../../test/harness/eventually.ts';
import { quietRuntime } from '../../../../test/harness/quiet-runtime.ts';
import { type Exchange, ScriptedApiserver } from '../../../../test/harness/scripted-apiserver.ts';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import { EventBuffer } from './event-buffer.ts';
import { withoutMember } from './json-text.ts';
import { ListWatch } from './list-watch.ts';
import { Reflector, type ReflectorOptions } from './reflector.ts';
import type { WatchEvent } from './watch-event.ts';

const pods = resource('v1', 'Pod');
const TOO_LARGE = {
  reason: 'Timeout',
  message: 'Timeout: Too large resource version: 100, current: 50',
  details: { causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }] },
};

function pod(name: string, resourceVersion: string | number, rest: object = {}): KubernetesObject {
  const metadata = { name, namespace: 'ns', uid: `uid-${name}`, resourceVersion: String(resourceVersion), ...rest };
  return { apiVersion: 'v1', kind: 'Pod', metadata };
}

/** An event as a word: its kind, its object and its version. */
function told(event: WatchEvent): string {
  switch (event.kind) {
    case 'init':
      return event.rewound ? 'init, rewound' : 'init';
    case 'init-done':
      return `done ${event.version} list ${event.list}`;
    case 'bookmark':
      return `bookmark ${event.version}`;
    case 'gone':
    case 'unserved':
      return event.kind;
    default:
      return `${event.kind} ${event.object.metadata.name}@${event.object.metadata.resourceVersion}`;
  }
}

let server: ScriptedApiserver;
let clock: InstantClock;
let abort: AbortController;
let events: WatchEvent[];
let warnings: LogFields[];
let running: Promise<unknown>;
let reflector: Reflector;
let buffer: EventBuffer;

beforeEach(async () => {
  server = await ScriptedApiserver.start();
  clock = new InstantClock();
  abort = new AbortController();
  events = [];
  warnings = [];
  running = Promise.resolve();
  buffer = new EventBuffer(clock);
});

afterEach(async () => {
  abort.abort();
  await running;
  await server[Symbol.asyncDispose]();
});

function create(options: Partial<ReflectorOptions> = {}): Reflector {
  return new Reflector({
    resource: pods,
    listWatch: new ListWatch(server.client, pods),
    buffer,
    runtime: quietRuntime({ clock, logger: { ...silentLogger, warn: (fields) => warnings.push(fields) } }),
    random: () => 0.5,
    transform: {
      object: ({ metadata }) => delete metadata.managedFields,
      text: (json) => withoutMember(json, ['metadata', 'managedFields']),
    },
    ...options,
  });
}

function start(stored?: string, options: Partial<ReflectorOptions> & { consume?: boolean } = {}): void {
  reflector = create(options);
  running = Promise.all([reflector.run(stored, abort.signal), options.consume === false ? undefined : consume()]);
}

async function consume(): Promise<void> {
  while (!abort.signal.aborted) {
    const taken = await buffer.take(100, abort.signal);
    events.push(...taken);
  }
}

function tells(...expected: string[]): Promise<void> {
  return eventually(async () => expect(events.map(told)).toEqual(expected), 60_000, 2);
}

/** The next request is a streaming list. */
async function streamingList(resourceVersion = ''): Promise<Exchange> {
  const asked = await server.next();
  expect(asked.query).toMatchObject({
    watch: 'true',
    sendInitialEvents: 'true',
    resourceVersionMatch: 'NotOlderThan',
    allowWatchBookmarks: 'true',
    resourceVersion,
  });
  expect(Number(asked.query['timeoutSeconds'])).toBe(450);
  return asked;
}

/** The next request is a watch that goes on from `resourceVersion`. */
async function watch(resourceVersion: string): Promise<Exchange> {
  const asked = await server.next();
  expect(asked.query).toMatchObject({ watch: 'true', allowWatchBookmarks: 'true', resourceVersion });
  expect(asked.query).not.toHaveProperty('sendInitialEvents');
  return asked;
}

/** The next request is the look at the server's version, read consistently. */
async function lookAtVersion(current: string): Promise<void> {
  const asked = await server.next();
  expect(asked.query).toEqual({ limit: '1' });
  asked.list([], current);
}

/**
 * The next requests are a watch that goes on from `resourceVersion`, and with it open the look at the server's version.
 */
async function watched(resourceVersion: string, current: string): Promise<Exchange> {
  const stream = (await watch(resourceVersion)).open();
  await lookAtVersion(current);
  return stream;
}

/** The next request is the first page of a list. */
async function firstPage(resourceVersion: string): Promise<Exchange> {
  const asked = await server.next();
  expect(asked.query).toEqual({ limit: '500', resourceVersion });
  return asked;
}

/** A reflector that has listed a@5 at version 10 and watches on the same stream. */
async function watching(options: Partial<ReflectorOptions> & { consume?: boolean } = {}): Promise<Exchange> {
  start(undefined, options);
  const stream = await streamingList();
  stream.event('ADDED', pod('a', 5)).initialEventsEnd('10');
  await tells('init', 'listed a@5', 'done 10 list 0');
  events = [];
  return stream;
}

describe('a list', () => {
  it('comes as a stream that goes on as the watch', async () => {
    start();
    const stream = await streamingList();
    expect(stream.path).toBe('/api/v1/pods');
    stream.event('ADDED', pod('b', 7), pod('a', 5)).initialEventsEnd('10');
    stream.event('ADDED', pod('c', 11)).event('MODIFIED', pod('a', 12)).event('DELETED', pod('b', 13)).bookmark('20');
    await tells(
      'init',
      'listed b@7',
      'listed a@5',
      'done 10 list 0',
      'changed c@11',
      'changed a@12',
      'deleted b@13',
      'bookmark 20',
    );
    expect(server.asked).toBe(1);
  });

  it('counts what changes before its end as part of it, and moves no version by an earlier bookmark', async () => {
    start();
    const stream = await streamingList();
    stream.event('ADDED', pod('a', 5)).event('MODIFIED', pod('a', 6)).event('DELETED', pod('b', 7)).bookmark('8');
    stream.initialEventsEnd('10');
    await tells('init', 'listed a@5', 'listed a@6', 'deleted b@7', 'done 10 list 0');
  });

  it.each([400, 422])('comes by pages after a refusal with %d, then and later', async (code) => {
    start();
    (await streamingList()).refuse(code, { reason: 'Invalid', message: 'sendInitialEvents: Forbidden' });
    const first = await server.next();
    expect(first.query).toEqual({ limit: '500', resourceVersion: '0' });
    first.list([pod('a', 5)], '10', 'token');
    const second = await server.next();
    expect(second.query).toEqual({ limit: '500', continue: 'token' });
    second.list([pod('b', 6)], '10');
    const stream = await watch('10');
    await tells('init', 'listed a@5', 'listed b@6', 'done 10 list 0');
    for (const event of events)
      if ('object' in event) expect(event.object).toMatchObject({ apiVersion: 'v1', kind: 'Pod' });
    stream.error({ code: 410, reason: 'Expired' });
    expect((await server.next()).query).toEqual({ limit: '500', resourceVersion: '10' });
    expect(clock.sleeps).toEqual([]);
  });

  it.each([403, 500, 503, 504])(
    'comes by pages in the same round after a refusal with %d, and tries the stream again next time',
    async (code) => {
      start();
      (await streamingList()).refuse(code);
      (await firstPage('0')).list([], '10');
      (await watch('10')).error({ code: 410, reason: 'Gone' });
      await streamingList('10');
      expect(clock.sleeps).toEqual([]);
    },
  );

  it('begins anew from the latest data when a continue token has expired, so that what is gone does not stay', async () => {
    start();
    (await streamingList()).refuse(400);
    (await firstPage('0')).list([pod('gone', 5), pod('a', 6)], '10', 'token');
    (await server.next()).refuse(410, { reason: 'Expired' });
    (await firstPage('')).list([pod('a', 6)], '21', 'another');
    (await server.next()).list([pod('b', 20)], '21');
    await tells('init', 'listed gone@5', 'listed a@6', 'init', 'listed a@6', 'listed b@20', 'done 21 list 0');
    await watch('21');
    expect(clock.sleeps).toEqual([]);
  });

  it('goes on by pages in the same round when its stream is cut before its end, and nothing of it counts', async () => {
    start();
    const stream = await streamingList();
    stream.event('ADDED', pod('a', 5)).bookmark('8');
    await tells('init', 'listed a@5');
    stream.cut();
    (await firstPage('0')).list([pod('b', 6)], '10');
    (await watch('10')).error({ code: 410, reason: 'Expired' });
    await tells('init', 'listed a@5', 'init', 'listed b@6', 'done 10 list 0');
    await streamingList('10');
    expect(clock.sleeps).toEqual([]);
  });

  it('goes on by pages when its stream is cut before an answer', async () => {
    start();
    (await streamingList()).cut();
    (await firstPage('0')).list([pod('b', 6)], '10');
    await watch('10');
    await tells('init', 'listed b@6', 'done 10 list 0');
    expect(clock.sleeps).toEqual([]);
  });

  it('goes on by pages when its stream ends in order before its end mark', async () => {
    start();
    (await streamingList()).event('ADDED', pod('a', 5)).end();
    (await firstPage('0')).list([], '10');
    await watch('10');
    await tells('init', 'listed a@5', 'init', 'done 10 list 0');
    expect(clock.sleeps).toEqual([]);
  });

  it('goes on by pages after a line that is not JSON', async () => {
    start();
    (await streamingList()).event('ADDED', pod('a', 5)).raw('{"type":"ADD\n');
    (await firstPage('0')).list([], '10');
    await watch('10');
    await tells('init', 'listed a@5', 'init', 'done 10 list 0');
    expect(clock.sleeps).toEqual([]);
  });

  it('goes on by pages after an error of the server in its stream', async () => {
    start();
    (await streamingList()).event('ADDED', pod('a', 5)).error({ code: 500, reason: 'InternalError' });
    (await firstPage('0')).list([], '10');
    await watch('10');
    await tells('init', 'listed a@5', 'init', 'done 10 list 0');
    expect(clock.sleeps).toEqual([]);
  });

  it('is a stream again, after a wait, when the connection was refused', async () => {
    const nobody = await ScriptedApiserver.start();
    await nobody.stopListening();
    const listWatch = new ListWatch(server.client, pods);
    const refused = new ListWatch(nobody.client, pods);
    vi.spyOn(listWatch, 'watch').mockImplementationOnce((query, signal) => refused.watch(query, signal));
    start(undefined, { listWatch });
    (await streamingList()).initialEventsEnd('10');
    await tells('init', 'done 10 list 0');
    expect(clock.sleeps).toEqual([1200]);
    expect(warnings).toMatchObject([{ error: expect.stringContaining('ECONNREFUSED') as string }]);
    await nobody[Symbol.asyncDispose]();
  });

  it('is a stream again, after a wait, when the resource was not found', async () => {
    start();
    (await streamingList()).refuse(404, { reason: 'NotFound' });
    (await streamingList()).initialEventsEnd('10');
    await tells('init', 'done 10 list 0');
    expect(clock.sleeps).toEqual([1200]);
  });

  it('asks for the latest data after "too large resource version"', async () => {
    const stream = await watching();
    stream.error({ code: 410, reason: 'Expired' });
    (await streamingList('10')).refuse(504, TOO_LARGE);
    await lookAtVersion('10');
    (await streamingList('')).initialEventsEnd('11');
    await tells('init', 'done 11 list 0');
    expect(clock.sleeps).toEqual([]);
  });

  it('comes by fewer objects at a time where they are large, and by more again behind them', async () => {
    const large = pod('large', 5, { annotations: { text: 'x'.repeat(9 * 1024 * 1024) } });
    const page = async (limit: number, rest: object = {}): Promise<Exchange> => {
      const asked = await server.next();
      expect(asked.query).toEqual({ limit: String(limit), ...rest });
      return asked;
    };
    start();
    (await streamingList()).refuse(400);
    // What the apiserver's watch cache answers it answers whole, whatever the limit.
    (await page(500, { resourceVersion: '0' })).list([large, pod('b', 6), pod('c', 7)], '10');
    for (const limit of [500, 63, 8]) (await page(limit, { resourceVersion: '' })).list([large], '10', 'second');
    // One object has to be read, whatever it has.
    (await page(1, { resourceVersion: '' })).list([large], '10', 'second');
    (await page(1, { continue: 'second' })).list([pod('b', 6)], '10', 'third');
    (await page(2, { continue: 'third' })).list([pod('c', 7)], '10');
    await tells('init', 'listed large@5', 'listed b@6', 'listed c@7', 'done 10 list 0');
  });

  it('asks for the latest data after 410, by stream and by pages', async () => {
    start('10');
    (await watch('10')).refuse(410, { reason: 'Expired' });
    await lookAtVersion('12');
    (await streamingList('10')).refuse(410, { reason: 'Expired' });
    await lookAtVersion('12');
    (await streamingList('')).refuse(400);
    await firstPage('');
    expect(clock.sleeps).toEqual([]);
  });

  it.each([
    ['410', 410, { reason: 'Expired' }],
    ['"too large resource version"', 504, TOO_LARGE],
  ])('asks for the latest data at once after %s, and waits if that fails in the same way', async (_what, code, why) => {
    start('10');
    (await watch('10')).refuse(410, { reason: 'Expired' });
    await lookAtVersion('12');
    (await streamingList('10')).refuse(code, why);
    await lookAtVersion('12');
    expect(clock.sleeps).toEqual([]);
    (await streamingList('')).refuse(code, why);
    await lookAtVersion('12');
    expect(clock.sleeps).toEqual([1200]);
    (await streamingList('')).initialEventsEnd('12');
    await tells('init', 'done 12 list 0');
  });

  it.each([
    ['410', 410, { reason: 'Expired' }],
    ['"too large resource version"', 504, TOO_LARGE],
  ])('asks for the latest data at once after %s to its pages', async (_what, code, why) => {
    start('10');
    (await watch('10')).refuse(410, { reason: 'Expired' });
    await lookAtVersion('12');
    (await streamingList('10')).refuse(400);
    (await firstPage('10')).refuse(code, why);
    await lookAtVersion('12');
    (await firstPage('')).list([], '12');
    await watch('12');
    await tells('init', 'init', 'done 12 list 0');
    expect(clock.sleeps).toEqual([]);
  });

  it('is asked for again when the server is overloaded, not before the time that it named', async () => {
    start();
    (await streamingList()).refuse(429, { reason: 'TooManyRequests' }, { 'retry-after': '7' });
    (await streamingList()).initialEventsEnd('10');
    await tells('init', 'done 10 list 0');
    expect(clock.sleeps).toEqual([7000]);
  });

  it('backs off from 0.8 s to 30 s, half as much again by chance', async () => {
    start();
    for (let at = 0; at < 8; at += 1) {
      (await streamingList()).refuse(500);
      (await firstPage('0')).refuse(500);
    }
    await streamingList();
    expect(clock.sleeps).toEqual([1200, 2400, 4800, 9600, 19_200, 38_400, 45_000, 45_000]);
  });

  it('hands on what the server sends less what the transform leaves out, as object and as text', async () => {
    const object = { ...pod('a', 5, { managedFields: [{}] }), spec: { unknown: [1] } };
    start();
    (await streamingList()).event('ADDED', object).initialEventsEnd('10');
    await tells('init', 'listed a@5', 'done 10 list 0');
    const left = { ...pod('a', 5), spec: { unknown: [1] } };
    expect(events[1]).toEqual({ kind: 'listed', object: left, json: JSON.stringify(left) });
  });

  it('keeps no text that lacks the kind, as an item of a list does', async () => {
    const { kind: _, ...unnamed } = pod('a', 5);
    start();
    (await streamingList()).event('ADDED', unnamed as KubernetesObject).initialEventsEnd('10');
    await tells('init', 'listed a@5', 'done 10 list 0');
    expect(events[1]).toEqual({ kind: 'listed', object: pod('a', 5), json: undefined });
  });
});

describe('a watch', () => {
  it('that ends in order goes on from the last version, without a list', async () => {
    const stream = await watching();
    stream.event('MODIFIED', pod('a', 11)).end();
    const second = await watch('11');
    second.bookmark('15').end();
    const third = await watch('15');
    third.event('DELETED', pod('a', 16));
    await tells('changed a@11', 'bookmark 15', 'deleted a@16');
    expect(clock.sleeps).toEqual([]);
  });

  it('that ends at once, without an event, is tried again after a wait', async () => {
    const stream = await watching();
    stream.end();
    (await watch('10')).end();
    await watched('10', '10');
    expect(clock.sleeps).toEqual([1200]);
  });

  it('that ends without an event after a while is opened again at once', async () => {
    const stream = await watching();
    stream.end();
    const second = (await watch('10')).open();
    clock.advance(450_000);
    second.end();
    await watch('10');
    expect(clock.sleeps).toEqual([]);
  });

  it('whose version has expired is listed again, from the last version: refused when it is opened', async () => {
    const stream = await watching();
    stream.event('MODIFIED', pod('a', 11)).end();
    (await watch('11')).refuse(410, { reason: 'Expired' });
    (await streamingList('11')).event('ADDED', pod('a', 11)).initialEventsEnd('30');
    await tells('changed a@11', 'init', 'listed a@11', 'done 30 list 0');
  });

  it.each(['Expired', 'Gone'])('whose version has expired is listed again: told by an event (%s)', async (reason) => {
    const stream = await watching();
    stream.event('MODIFIED', pod('a', 11)).error({ code: 410, reason, message: 'too old resource version' });
    (await streamingList('11')).initialEventsEnd('30');
    await tells('changed a@11', 'init', 'done 30 list 0');
  });

  it('keeps its version when the server is overloaded, and waits as long as it was told', async () => {
    const stream = await watching();
    stream
      .event('MODIFIED', pod('a', 11))
      .error({ code: 429, reason: 'TooManyRequests', details: { retryAfterSeconds: 5 } });
    (await watch('11')).refuse(429, {}, { 'retry-after': '9' });
    await watch('11');
    expect(clock.sleeps).toEqual([5000, 9000]);
    await tells('changed a@11');
  });

  it('never skips a line that is not JSON: it goes on from the last good version', async () => {
    const stream = await watching();
    const lost = JSON.stringify({ type: 'MODIFIED', object: pod('a', 12) });
    stream
      .event('MODIFIED', pod('a', 11))
      .raw(`${lost.slice(0, 20)}\n`)
      .event('MODIFIED', pod('a', 13));
    (await watched('11', '13')).event('MODIFIED', pod('a', 12), pod('a', 13));
    await tells('changed a@11', 'changed a@12', 'changed a@13');
    expect(warnings).toMatchObject([{ error: 'a line of the watch is not JSON' }]);
  });

  it('goes on from the last good version after an event without one', async () => {
    const stream = await watching();
    stream.raw('{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a"}}}\n');
    await watched('10', '13');
    await tells();
  });

  it('that is cut goes on from the last version, and half a line is no line', async () => {
    const stream = await watching();
    stream.event('MODIFIED', pod('a', 11)).raw('{"type":"MODIFIED","obj');
    await tells('changed a@11');
    stream.cut();
    (await watched('11', '12')).event('MODIFIED', pod('a', 12));
    await tells('changed a@11', 'changed a@12');
    expect(clock.sleeps).toEqual([1200]);
  });

  it('that is cut after its list was complete is no broken list: it goes on from the last version', async () => {
    const stream = await watching();
    stream.cut();
    const second = (await watched('10', '10')).event('MODIFIED', pod('a', 11));
    await tells('changed a@11');
    second.cut();
    await watched('11', '11');
    await tells('changed a@11');
    expect(clock.sleeps).toEqual([1200, 2400]);
  });

  it('joins a line that comes in pieces, in the middle of a letter too', async () => {
    const stream = await watching();
    const line = Buffer.from(`${JSON.stringify({ type: 'MODIFIED', object: pod('äöü', 11) })}\n`);
    const half = line.indexOf('ö') + 1;
    stream.raw(line.subarray(0, half));
    await new Promise((resolve) => setTimeout(resolve, 20));
    stream.raw(line.subarray(half));
    await tells('changed äöü@11');
  });

  it('is taken for dead when nothing comes for too long', async () => {
    const stream = await watching({ silenceMs: 1000 });
    await stream.closed;
    await watched('10', '10');
    // On a machine that stands still the second watch is silent for too long as well.
    expect(warnings[0]).toMatchObject({ error: 'nothing came for 1 s' });
  });

  it('is not taken for dead while something comes', async () => {
    // The time of the silence passes as the test says, however long the machine stands still.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const stream = await watching({ silenceMs: 2000 });
      for (let at = 11; at < 17; at += 1) {
        stream.bookmark(String(at));
        await eventually(async () => expect(events).toHaveLength(at - 10), 60_000, 2);
        vi.advanceTimersByTime(1900);
      }
      expect(server.asked).toBe(1);
    } finally {
      vi.useRealTimers();
    }
  });

  it('is tried again after an error of the server', async () => {
    const stream = await watching();
    stream.error({ code: 500, reason: 'InternalError', message: 'etcd' });
    (await watch('10')).refuse(503);
    await watched('10', '10');
    expect(clock.sleeps).toEqual([1200, 2400]);
  });
});

describe('a resume', () => {
  it('needs no list, but one look at the version of the server', async () => {
    start('10');
    (await watched('10', '10')).event('MODIFIED', pod('a', 11));
    await tells('changed a@11');
  });

  it('takes nothing from the watch before the look, and all of it after it', async () => {
    start('10');
    const stream = (await watch('10')).open();
    stream.event('MODIFIED', pod('a', 11), pod('a', 12));
    const look = await server.next();
    await sleep(20);
    expect(events).toEqual([]);
    look.list([], '12');
    await tells('changed a@11', 'changed a@12');
  });

  it('begins anew when the watch breaks during the look', async () => {
    start('10');
    const stream = (await watch('10')).open();
    const look = await server.next();
    stream.cut();
    await sleep(20);
    look.list([], '12');
    (await watched('10', '12')).event('MODIFIED', pod('a', 11));
    await tells('changed a@11');
  });

  it('tells of a server whose data is older than ours, and lists it', async () => {
    start('100');
    const stream = await watched('100', '50');
    await stream.closed;
    (await streamingList('')).event('ADDED', pod('a', 5)).initialEventsEnd('50');
    await tells('init, rewound', 'listed a@5', 'done 50 list 0');
  });

  it('looks again after a connection has failed', async () => {
    const stream = await watching();
    stream.cut();
    await watched('10', '9');
    (await streamingList('')).initialEventsEnd('9');
    await tells('init, rewound', 'done 9 list 0');
  });

  it('looks again after it has waited for an overloaded server', async () => {
    const stream = await watching();
    stream.error({ code: 429, reason: 'TooManyRequests', details: { retryAfterSeconds: 5 } });
    await watched('10', '9');
    (await streamingList('')).initialEventsEnd('9');
    await tells('init, rewound', 'done 9 list 0');
    expect(clock.sleeps).toEqual([5000]);
  });

  it('looks until it is answered', async () => {
    start('100');
    (await watch('100')).open();
    (await server.next()).refuse(503);
    (await watch('100')).open();
    (await server.next()).cut();
    await watched('100', '99');
    await streamingList('');
  });

  it('tells of older data also when a list was wanted anyway', async () => {
    const stream = await watching();
    reflector.relist();
    await stream.closed;
    (await streamingList('10')).refuse(504, TOO_LARGE);
    await lookAtVersion('4');
    (await streamingList('')).initialEventsEnd('4');
    await tells('init, rewound', 'done 4 list 1');
  });

  it('goes on saying that data was rewound when that list has to be made again', async () => {
    start('100');
    await watched('100', '50');
    const list = await streamingList('');
    list.event('ADDED', pod('a', 5));
    await tells('init, rewound', 'listed a@5');
    expect(reflector.relist()).toBe(1);
    await list.closed;
    (await streamingList('')).cut();
    (await firstPage('')).cut();
    (await streamingList('')).refuse(400);
    (await firstPage('')).list([], '50');
    await tells('init, rewound', 'listed a@5', 'init, rewound', 'init, rewound', 'done 50 list 1');
  });
});

describe('relist', () => {
  it('ends the watch and lists from the last version, with a number', async () => {
    const stream = await watching();
    stream.event('MODIFIED', pod('a', 11));
    await tells('changed a@11');
    expect(reflector.relist()).toBe(1);
    await stream.closed;
    (await streamingList('11')).initialEventsEnd('12');
    await tells('changed a@11', 'init', 'done 12 list 1');
    expect(reflector.relist()).toBe(2);
    expect(clock.sleeps).toEqual([]);
  });

  it('lists from a later version that the server is known to have', async () => {
    const stream = await watching();
    reflector.relist(false, '15');
    await stream.closed;
    (await streamingList('15')).refuse(400);
    const pages = await server.next();
    expect(pages.query).toEqual({ limit: '500', resourceVersion: '15' });
    pages.list([], '16');
    await tells('init', 'done 16 list 1');
    reflector.relist(false, '12');
    const later = await server.next();
    expect(later.query).toMatchObject({ resourceVersion: '16' });
  });

  it('does not take a list that runs already for the one it wants', async () => {
    start();
    const first = await streamingList();
    first.event('ADDED', pod('a', 5));
    await tells('init', 'listed a@5');
    expect(reflector.relist()).toBe(1);
    await first.closed;
    (await streamingList()).initialEventsEnd('10');
    await tells('init', 'listed a@5', 'init', 'done 10 list 1');
  });

  it('does not take pages that come already for the list it wants', async () => {
    start();
    (await streamingList()).refuse(400);
    const page = await server.next();
    reflector.relist();
    page.list([], '10');
    const again = await server.next();
    expect(again.query).toEqual({ limit: '500', resourceVersion: '10' });
    again.list([], '11');
    await tells('init', 'done 10 list 0', 'init', 'done 11 list 1');
  });

  it('is heard while a watch is being opened', async () => {
    start('10');
    const opening = await watch('10');
    expect(reflector.relist()).toBe(1);
    await opening.closed;
    await lookAtVersion('10');
    (await streamingList('10')).initialEventsEnd('12');
    await tells('init', 'done 12 list 1');
  });
});

describe('requestProgress', () => {
  it('opens the watch for three seconds, and then as usual', async () => {
    const stream = await watching();
    clock.advance(10_000);
    reflector.requestProgress();
    await stream.closed;
    const short = await watch('10');
    expect(short.query['timeoutSeconds']).toBe('3');
    short.bookmark('17').end();
    const next = await watch('17');
    expect(next.query['timeoutSeconds']).toBe('450');
    await tells('bookmark 17');
  });

  it('does nothing while one runs: it would cut off the bookmark', async () => {
    const stream = await watching();
    clock.advance(10_000);
    reflector.requestProgress();
    await stream.closed;
    const short = await watch('10');
    clock.advance(3900);
    reflector.requestProgress();
    short.bookmark('17');
    await tells('bookmark 17');
    clock.advance(200);
    reflector.requestProgress();
    await short.closed;
    expect((await watch('17')).query['timeoutSeconds']).toBe('3');
  });

  it('is heard while a watch is being opened', async () => {
    start('10');
    const opening = await watch('10');
    reflector.requestProgress();
    await opening.closed;
    expect((await watched('10', '10')).query['timeoutSeconds']).toBe('3');
  });

  it('does nothing during a list, which moves the version itself', async () => {
    start();
    const stream = await streamingList();
    reflector.requestProgress();
    stream.initialEventsEnd('10');
    await tells('init', 'done 10 list 0');
    expect(server.asked).toBe(1);
  });
});

it('rests in the turn of its view after large objects', async () => {
  vi.spyOn(TimeSlice.prototype, 'isOver', 'get').mockReturnValue(true);
  const tenants = new Set<string>();
  vi.spyOn(TimeSlice.prototype, 'next').mockImplementation(async function (this: TimeSlice) {
    tenants.add(this.tenant);
  });
  try {
    start('10');
    (await watched('10', '10')).event('MODIFIED', pod('a', 11));
    await tells('changed a@11');
    expect(tenants).toContain('view v1/Pod');
  } finally {
    vi.restoreAllMocks();
  }
});

describe('a full buffer', () => {
  it('ends the watch, and it goes on from the last line when all is taken', async () => {
    buffer = new EventBuffer(clock, 4 * 2000);
    start('10', { consume: false });
    const stream = await watched('10', '10');
    const sent = Array.from({ length: 40 }, (_, at) => pod('a', 11 + at));
    for (const object of sent) stream.event('MODIFIED', object);
    await stream.closed;
    expect(buffer.full).toBe(true);
    expect(server.asked).toBe(2);
    const consuming = consume();
    const last = (await server.next()).open();
    // The server may have been restored while the buffer was drained.
    await lookAtVersion('50');
    // Everything read was pushed; everything else comes again.
    const from = Number(last.query['resourceVersion']);
    expect(events.map(told)).toEqual(
      sent.slice(0, from - 10).map((object) => `changed a@${object.metadata.resourceVersion}`),
    );
    expect(from).toBeGreaterThan(11);
    last.bookmark('60');
    await eventually(async () => expect(events.map(told).at(-1)).toBe('bookmark 60'), 60_000, 2);
    expect(clock.sleeps).toEqual([]);
    abort.abort();
    await consuming;
  });

  it('is one of little text that takes much memory', async () => {
    start('10', { consume: false });
    const stream = await watched('10', '10');
    const spec = Array.from({ length: 466_000 }, () => []);
    for (let at = 0; at < 3; at += 1) stream.event('MODIFIED', { ...pod('a', 11 + at), spec } as KubernetesObject);
    await stream.closed;
    expect(buffer.full).toBe(true);
  });

  it('holds a streaming list back, without losing its place', async () => {
    buffer = new EventBuffer(clock, 4 * 3000);
    start(undefined, { consume: false });
    const stream = await streamingList();
    const sent = Array.from({ length: 4000 }, (_, at) => pod(`pod-${at}`, 11 + at));
    for (const object of sent) stream.event('ADDED', object);
    stream.initialEventsEnd('5000');
    await eventually(async () => expect(buffer.full).toBe(true), 60_000, 2);
    await sleep(50);
    expect(buffer.weight).toBeLessThan((4 * JSON.stringify(sent).length) / 2);
    const consuming = consume();
    await eventually(async () => expect(events.map(told).at(-1)).toBe('done 5000 list 0'), 60_000, 2);
    expect(events.slice(1, -1).map((event) => 'object' in event && event.object)).toEqual(sent);
    expect(server.asked).toBe(1);
    abort.abort();
    await consuming;
  });

  it('delays pages', async () => {
    // One object, whatever it has, is more than little.
    buffer = new EventBuffer(clock, 4 * 16 * 64);
    start(undefined, { consume: false });
    (await streamingList()).refuse(400);
    (await firstPage('0')).list([pod('a', 5), pod('b', 6)], '10', 'token');
    await sleep(50);
    expect(server.asked).toBe(2);
    const consuming = consume();
    (await server.next()).list([pod('c', 6)], '10');
    // Restored while the pages waited.
    await watched('10', '9');
    await firstPage('');
    abort.abort();
    await consuming;
  });
});

describe('an abort', () => {
  it.each<[string, () => Promise<Exchange>]>([
    ['during a watch', () => watching()],
    [
      'while a list is asked for',
      () => {
        start();
        return server.next();
      },
    ],
    [
      'during a streaming list',
      async () => {
        start();
        return (await streamingList()).event('ADDED', pod('a', 5));
      },
    ],
    [
      'during the look at the version',
      () => {
        start('10');
        return server.next();
      },
    ],
  ])('ends everything %s', async (_when, begin) => {
    const exchange = await begin();
    const { asked } = server;
    abort.abort();
    await running;
    await exchange.closed;
    expect(server.asked).toBe(asked);
  });

  it('ends the wait for the buffer', async () => {
    buffer = new EventBuffer(clock, 1);
    start('10', { consume: false });
    const stream = await watched('10', '10');
    stream.bookmark('11');
    await stream.closed;
    abort.abort();
    await running;
  });

  it('before the start asks for nothing', async () => {
    abort.abort();
    await create().run(undefined, abort.signal);
    expect(server.asked).toBe(0);
  });
});
