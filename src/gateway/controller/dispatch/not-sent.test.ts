import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type MetricLabels, silentLogger, silentMetrics, systemClock } from '../../../core/index.ts';
import { generateSecret, LEVELHOOK_HEADER } from '../../../contract/index.ts';
import { importExtractableSecret } from '../../../contract/signature.ts';
import { CacheAccess } from '../access/cache-access.ts';
import { Endpoint } from '../endpoint/endpoint.ts';
import type { Finish, Run } from '../workqueue/work-queue.ts';
import { Dispatcher, type TriggerTarget } from './dispatcher.ts';
import type { RecordedWrites } from './recorded-writes.ts';
import type { RelatedObjects } from './related-objects.ts';
import { ownBounds } from '../../../../test/harness/own-bounds.ts';

/** The end of a run that is given back without a failure, to run again at once. */
const GIVEN_BACK = { kind: 'ended', failures: 'keep', againAfterMs: 0, sent: false };

describe('a trigger that is not sent', () => {
  let answer: RequestListener;
  let methods: string[];
  let counted: string[];
  let server: Server;
  let endpoint: Endpoint;
  let dispatcherFor: (more: Partial<TriggerTarget>) => Dispatcher;
  let dispatcher: Dispatcher;
  let rooms: number[];

  beforeEach(async () => {
    [methods, counted, rooms] = [[], [], []];
    server = createServer((request, response) => {
      methods.push(String(request.method));
      request.resume();
      answer(request, response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    endpoint = new Endpoint(url, [await importExtractableSecret(generateSecret())], { connections: 2 });
    const cacheAccess = new CacheAccess({ views: [], api: undefined, clock: systemClock });
    const count = (name: string, labels: MetricLabels): void => {
      counted.push(`${name} ${labels['reason'] ?? labels['outcome'] ?? labels['result'] ?? ''}`);
    };
    dispatcherFor = (more) =>
      new Dispatcher({
        bounds: ownBounds(),
        controller: 'c',
        views: [],
        starts: {
          keys: { allow: (room) => void rooms.push(room) },
          ending: new AbortController().signal,
        },
        target: { endpoint, cacheAccess, ...more },
        runtime: { clock: systemClock, logger: silentLogger, metrics: { ...silentMetrics, count } },
        settings: { logTriggers: false, startWindowMs: 60_000 },
      });
    dispatcher = dispatcherFor({});
  });

  afterEach(async () => {
    await endpoint.close();
    server.closeAllConnections();
    server.close();
  });

  const done: RequestListener = (_, response) => {
    const body = { version: 'v1', results: [{ status: 'done' }] };
    response.writeHead(200, { [LEVELHOOK_HEADER]: 'v1' }).end(JSON.stringify(body));
  };
  const run = (inMs = 60_000): Run => ({
    key: 'a/b',
    run: 1,
    incarnation: 'i',
    failures: 3,
    reasons: [],
    deadlineMs: systemClock.now() + inMs,
  });
  const dispatch = (inMs?: number): Promise<Finish> | undefined => dispatcher.run([run(inMs)])[0];

  it('because a proxy answers for the function leaves the key as it was, and opens a circuit for a moment', async () => {
    answer = (_, response) => response.writeHead(502).end();
    expect(await dispatch()).toMatchObject({ ...GIVEN_BACK, error: expect.stringContaining('a proxy answered 502') });
    expect(methods).toEqual(['GET']);
    expect(counted).toEqual(['levelhook_triggers_not_sent_total starting']);
    // It lets a key through after 250 ms.
    await sleep(300);
    expect(rooms).toEqual([0, 1]);
    answer = done;
    expect(await dispatch()).toMatchObject({ kind: 'ended', failures: 'forget' });
    expect(methods).toEqual(['GET', 'GET', 'POST']);
    expect(rooms).toEqual([0, 1, Infinity]);
  });

  it('because the function started meanwhile, and took time of the run, gives the key a run with its whole time', async () => {
    answer = (request, response) => void setTimeout(() => done(request, response), 700);
    expect(await dispatch(6000)).toMatchObject({ ...GIVEN_BACK, error: 'the function has just started' });
    expect(methods).toEqual(['GET']);
    expect(rooms).toEqual([]);
    expect(await dispatch(6000)).toMatchObject({ kind: 'ended', failures: 'forget' });
    expect(methods).toEqual(['GET', 'POST']);
  });

  it('because its connection is refused, a moment after the function has answered, is no failure', async () => {
    answer = done;
    await dispatch();
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
    // The end of the connection has to arrive here, too.
    await sleep(50);
    counted = [];
    expect(await dispatch()).toMatchObject({ ...GIVEN_BACK, error: expect.stringContaining('connection refused') });
    expect(counted).toEqual(['levelhook_triggers_not_sent_total starting']);
  });

  it.each([
    ['a related kind is missing here', async () => true],
    ['Redis does not answer', () => Promise.reject(new Error('no answer'))],
  ])('because %s gives the key to other gateways', async (_, isBehind) => {
    const related = { isBehind } as unknown as RelatedObjects;
    const expected = { kind: 'ended', failures: 'keep', againAfterMs: 250, elsewhere: true, sent: false };
    expect(await dispatcherFor({ related }).run([run()])[0]).toEqual(expected);
    expect(methods).toEqual([]);
  });

  it('is another matter than one that a proxy answered: that may have been delivered', async () => {
    answer = done;
    await dispatch();
    answer = (_, response) => response.writeHead(502).end();
    expect(await dispatch()).toMatchObject({ kind: 'unknown' });
    expect(methods).toEqual(['GET', 'POST', 'POST']);
    expect(counted).toContain('levelhook_unknown_outcomes_total status');
  });

  it('or whose answer never came is settled at its deadline, also when its writes cannot be read', async () => {
    const recorded = { end: () => Promise.reject(new Error('not JSON')) } as unknown as RecordedWrites;
    const lost = dispatcherFor({ recorded }).lost({ key: 'a/b', run: 1, failures: 0 });
    expect(await lost).toMatchObject({ kind: 'ended', failures: 'count' });
  });
});
