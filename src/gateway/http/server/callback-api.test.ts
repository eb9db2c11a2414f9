import { describe, expect, it } from 'vitest';
import { LimitedLines, type LogFields, silentLogger, systemClock } from '../../../core/index.ts';
import { type CallbackBody, generateSecret, importSecret, LEVELHOOK_HEADER, sign } from '../../../contract/index.ts';
import { ownBounds } from '../../../../test/harness/own-bounds.ts';
import { CpuBudgets } from '../../controller/cel/cpu-budget.ts';
import { HeldBytes } from '../../controller/endpoint/held-bytes.ts';
import { callbackApi, type CallbackApiOptions, type CallbackTaker } from './callback-api.ts';

const secret = generateSecret();
const keys = [await importSecret(secret)];
const body: CallbackBody = {
  version: 'v1',
  controller: 'web',
  token: 't',
  namespace: 'a',
  name: 'b',
  run: 7,
  result: { status: 'done' },
};

const taker = (callback: CallbackTaker['callback']): CallbackTaker => ({
  functionName: 'web',
  keys,
  bounds: ownBounds(),
  callback,
});

async function send(options: Partial<CallbackApiOptions> = {}, text = JSON.stringify(body)) {
  const taken: CallbackBody[] = [];
  const app = callbackApi({
    healthy: () => true,
    mayCome: () => false,
    controller: (name) => {
      if (name !== 'web') return undefined;
      return taker(async (given) => {
        taken.push(given);
        return { kind: 'taken' };
      });
    },
    clock: systemClock,
    logger: silentLogger,
    ...options,
  });
  const signature = await sign(keys, { id: 'msg', nowMs: Date.now(), body: text });
  const headers = { ...signature, 'content-length': String(Buffer.byteLength(text)) };
  const response = await app.request('/web', { method: 'POST', headers, body: text });
  // The sender must know that the gateway itself answers.
  expect(response.headers.get(LEVELHOOK_HEADER)).toBe('v1');
  const answer = (await response.json()) as Record<string, unknown>;
  return { status: response.status, retryAfter: response.headers.get('retry-after'), answer, taken };
}

describe('the callback API', () => {
  it('gives what was signed to the controller', async () => {
    expect(await send()).toMatchObject({ status: 200, answer: {}, taken: [body] });
  });

  it('decodes what is signed when the budget of the controller allows it, and refuses it for a while otherwise', async () => {
    let nowMs = 0;
    const sleep = async (ms: number): Promise<void> => void (nowMs += ms);
    const budget = new CpuBudgets({ now: () => nowMs, sleep }).of('web');
    const taken: CallbackBody[] = [];
    const controller = (): CallbackTaker => ({
      ...taker(async (given) => {
        taken.push(given);
        return { kind: 'taken' };
      }),
      bounds: { ...ownBounds(), budget },
    });
    // In debt for 6 s at least, refills included.
    budget.charge(600);
    expect(await send({ controller })).toMatchObject({ status: 503, retryAfter: '1' });
    expect(taken).toEqual([]);
    expect(nowMs).toBeCloseTo(5000, -2);
    expect(await send({ controller })).toMatchObject({ status: 200 });
    expect(taken).toEqual([body]);
    expect(nowMs).toBeGreaterThan(8000);
  });

  it('takes the time to read and to hash what is signed from its controller, and reads nothing large without time', async () => {
    let nowMs = 0;
    const sleep = async (ms: number): Promise<void> => void (nowMs += ms);
    const budget = new CpuBudgets({ now: () => nowMs, sleep }).of('web');
    const controller = (): CallbackTaker => ({
      ...taker(async () => ({ kind: 'taken' })),
      bounds: { ...ownBounds(), budget },
    });
    const large = JSON.stringify({ ...body, token: 't'.repeat(900_000) });
    let taken = 0;
    for (let sent = 0; sent < 300; sent += 1) if ((await send({ controller }, large)).status === 200) taken += 1;
    expect(taken).toBeGreaterThan(100);
    // 2.8 ms each at least, of a burst of 300 ms and 50 ms a second.
    expect(taken * 2.8).toBeLessThan(300 + (50 * nowMs) / 1000 + 100);
    budget.charge(1000);
    const beforeMs = nowMs;
    expect(await send({ controller }, large)).toMatchObject({ status: 503, retryAfter: '1' });
    expect(nowMs).toBe(beforeMs);
  });

  it('keeps no more of one tenant than its callbacks may take together', async () => {
    const held = new HeldBytes({ perOwner: 100, total: 1000, reserved: 0 });
    const controller = (): CallbackTaker => ({
      ...taker(async () => ({ kind: 'taken' })),
      bounds: { ...ownBounds(), openHold: () => held.open('a') },
    });
    expect(await send({ controller })).toMatchObject({ status: 503, retryAfter: '1' });
  });

  it('tells how long a run may go on', async () => {
    const controller = () => taker(async () => ({ kind: 'taken', withinMs: 30_000 }));
    expect(await send({ controller })).toMatchObject({ status: 200, answer: { withinSeconds: 30 } });
  });

  it.each<[string, Partial<CallbackApiOptions>]>([
    ['Redis is away', { healthy: () => false }],
    ['the function of the controller has not answered yet', { controller: () => undefined, mayCome: () => true }],
    ['the outcome cannot be stored', { controller: () => taker(() => Promise.reject(new Error('no connection'))) }],
  ])('asks for patience while %s', async (_what, options) => {
    const { status, retryAfter, answer, taken } = await send(options);
    expect({ status, retryAfter, taken }).toEqual({ status: 503, retryAfter: '1', taken: [] });
    // The reason is for the log.
    expect(JSON.stringify(answer)).not.toContain('no connection');
  });

  it.each<[number, 'over' | 'superseded']>([
    [410, 'over'],
    [409, 'superseded'],
  ])('answers %i when the run is %s', async (status, kind) => {
    const controller = () => taker(async () => ({ kind, message: 'm' }));
    expect(await send({ controller })).toMatchObject({ status, answer: { error: 'm' } });
  });

  it.each<[number, string, Partial<CallbackApiOptions>, string]>([
    [400, 'no JSON', {}, 'x'],
    [400, 'no callback', {}, '{}'],
    [400, 'for another controller', {}, JSON.stringify({ ...body, controller: 'other' })],
    [404, 'of no controller', { controller: () => undefined }, JSON.stringify(body)],
  ])('answers %i to what is %s', async (status, _what, options, text) => {
    expect(await send(options, text)).toMatchObject({
      status,
      answer: { error: expect.any(String) as string },
      taken: [],
    });
  });

  it('answers 401 to another signature, and 405 to another method', async () => {
    const app = callbackApi({
      healthy: () => true,
      mayCome: () => false,
      controller: () => taker(async () => ({ kind: 'taken' })),
      clock: systemClock,
      logger: silentLogger,
    });
    const text = JSON.stringify(body);
    const another = [await importSecret(generateSecret())];
    const headers = { ...(await sign(another, { id: 'msg', nowMs: Date.now(), body: text })) };
    const refused = [
      await app.request('/web', { method: 'POST', headers, body: text }),
      await app.request('/web', { method: 'PUT', headers, body: text }),
    ];
    expect(refused.map(({ status }) => status)).toEqual([401, 405]);
    for (const { headers: answered } of refused) expect(answered.get(LEVELHOOK_HEADER)).toBe('v1');
  });

  it('reads no body that the headers rule out, and writes few lines about callbacks that are signed wrongly', async () => {
    const lines: LogFields[] = [];
    let nowMs = 0;
    const app = callbackApi({
      healthy: () => true,
      mayCome: () => false,
      controller: () => taker(async () => ({ kind: 'taken' })),
      clock: { now: () => nowMs, wallNow: () => Date.now() },
      logger: { ...silentLogger, warn: (fields) => lines.push(fields) },
    });
    let read = 0;
    const send = async (headers: Record<string, string>): Promise<number> => {
      const unread = new ReadableStream<Uint8Array>({ pull: () => void (read += 1) }, { highWaterMark: 0 });
      const sent = { method: 'POST', headers, body: unread, duplex: 'half' } as RequestInit;
      return (await app.request('/web', sent)).status;
    };
    const { 'webhook-signature': _, ...unsigned } = await sign(keys, { id: 'm', nowMs: Date.now(), body: '' });
    const old = await sign(keys, { id: 'm', nowMs: Date.now() - 3_600_000, body: '' });
    const other = { ...unsigned, 'webhook-signature': 'v2,AAAA' };
    for (const headers of [{}, unsigned, { ...old }, other]) expect(await send(headers)).toBe(401);
    expect(read).toBe(0);
    for (let at = 0; at < 200; at += 1) expect(await send({})).toBe(401);
    expect(lines).toHaveLength(10);
    nowMs += 1000;
    await send({});
    expect(lines.at(-1)).toMatchObject({ controller: 'web', leftOut: 194 });
  });

  it('writes few lines about callbacks of one tenant that cannot be taken', async () => {
    const lines = new LimitedLines({ now: () => 0 });
    const warned: LogFields[] = [];
    const controller = (): CallbackTaker => ({
      ...taker(() => Promise.reject(new Error('no connection'))),
      bounds: { ...ownBounds(), admitLine: (about) => lines.admit(`tenant ${about}`) },
    });
    const logger = { ...silentLogger, warn: (fields: LogFields) => void warned.push(fields) };
    for (let at = 0; at < 30; at += 1) expect(await send({ controller, logger })).toMatchObject({ status: 503 });
    expect(warned).toHaveLength(10);
    expect(warned[0]).toEqual({ controller: 'web', error: 'no connection' });
  });

  it('leaves room for the callbacks of others while one source sends large bodies', async () => {
    const app = callbackApi({
      healthy: () => true,
      mayCome: () => false,
      controller: () => taker(async () => ({ kind: 'taken' })),
      clock: systemClock,
      logger: silentLogger,
    });
    const from = (remoteAddress: string) => ({ incoming: { socket: { remoteAddress } } });
    const text = JSON.stringify(body);
    const headers = { ...(await sign(keys, { id: 'msg', nowMs: Date.now(), body: text })) };
    const over = Promise.withResolvers<void>();
    const held = Array.from({ length: 40 }, async () => {
      const slow = new ReadableStream<Uint8Array>({
        async pull(controller) {
          await over.promise;
          controller.close();
        },
      });
      const sent = { method: 'POST', headers, body: slow, duplex: 'half' } as RequestInit;
      return (await app.request('/web', sent, from('10.0.0.1'))).status;
    });
    const send = async (address: string): Promise<number> =>
      (await app.request('/web', { method: 'POST', headers, body: text }, from(address))).status;
    expect(await send('10.0.0.2')).toBe(200);
    expect(await send('10.0.0.1')).toBe(503);
    over.resolve();
    const statuses = await Promise.all(held);
    expect(statuses.filter((status) => status === 503)).toHaveLength(8);
    expect(await send('10.0.0.1')).toBe(200);
  });

  it('reads no more large bodies of a source for a while when many were signed wrongly, and takes all others', async () => {
    let nowMs = 0;
    const app = callbackApi({
      healthy: () => true,
      mayCome: () => false,
      controller: () => taker(async () => ({ kind: 'taken' })),
      clock: { now: () => nowMs, wallNow: () => Date.now() },
      logger: silentLogger,
    });
    const large = JSON.stringify({ ...body, more: 'x'.repeat(1024 * 1024 - 1024) });
    const another = [await importSecret(generateSecret())];
    let read = 0;
    const send = async (address: string, text: string, signers = keys): Promise<number> => {
      const headers = {
        ...(await sign(signers, { id: 'msg', nowMs: Date.now(), body: text })),
        'content-length': String(Buffer.byteLength(text)),
      };
      const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
        read += 1;
        controller.enqueue(Buffer.from(text));
        controller.close();
      };
      const sent = {
        method: 'POST',
        headers,
        body: new ReadableStream({ pull }, { highWaterMark: 0 }),
        duplex: 'half',
      };
      const from = { incoming: { socket: { remoteAddress: address } } };
      return (await app.request('/web', sent as RequestInit, from)).status;
    };
    for (let at = 0; at < 40; at += 1) expect(await send('10.0.0.1', large)).toBe(200);
    for (let at = 0; at < 32; at += 1) expect(await send('10.0.0.1', large, another)).toBe(401);
    read = 0;
    expect(await send('10.0.0.1', large, another)).toBe(503);
    expect(read).toBe(0);
    expect(await send('10.0.0.1', JSON.stringify(body))).toBe(200);
    expect(await send('10.0.0.1', JSON.stringify(body), another)).toBe(401);
    expect(await send('10.0.0.2', large)).toBe(200);
    nowMs += 10_000;
    expect(await send('10.0.0.1', large)).toBe(200);
  });

  it('takes no more than 1 MiB', async () => {
    const text = JSON.stringify({ ...body, more: 'x'.repeat(1024 * 1024) });
    expect(await send({}, text)).toMatchObject({ status: 413, taken: [] });
  });
});
