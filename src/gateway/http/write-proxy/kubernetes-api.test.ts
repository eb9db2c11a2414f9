import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../test/harness/eventually.ts';
import { quietRuntime } from '../../../../test/harness/quiet-runtime.ts';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import { type LogFields, silentLogger } from '../../../core/index.ts';
import { TokenError } from '../../controller/access/token.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import { ReadingTimes } from '../cache-api/reading-time.ts';
import { KubernetesApi, type ProxiedController, type ProxyClient } from './kubernetes-api.ts';

const CONFIG_MAPS = '/api/v1/namespaces/ns/configmaps';

/** Requests of this API wait for their turn until `pass`. `sent` lists the requests that the apiserver has got. */
class World {
  readonly clock = new InstantClock();
  readonly times = new ReadingTimes(this.clock);
  readonly sent: string[] = [];
  waiting = 0;
  runGoesOn = true;
  isFull = false;
  isDeclared = true;
  /** Of the bearer. */
  hasAccount = (): boolean => true;
  /** The apiserver's answer to a request; undefined: there is none. */
  status: number | undefined = 200;
  /** Of the apiserver's answer. */
  chunks: () => Iterable<Buffer> = () => [Buffer.from('{}')];
  /** Of answers, as far as the caller has read them. */
  readBytes = 0;
  readonly warned: LogFields[] = [];
  readonly #turn = Promise.withResolvers<void>();
  readonly #api: KubernetesApi;

  constructor() {
    const client = {
      turn: () => {
        this.waiting += 1;
        return this.#turn.promise;
      },
      forward: async ({ method }: { method: string }) => {
        this.sent.push(method);
        if (this.status === undefined) throw new Error('no connection');
        return { status: this.status, headers: {}, body: Readable.from(this.chunks()) };
      },
    };
    this.#api = new KubernetesApi({
      times: this.times,
      runtime: quietRuntime({
        clock: this.clock,
        logger: { ...silentLogger, warn: (fields) => void this.warned.push(fields) },
      }),
      client: { for: () => client as unknown as ApiClient },
      verify: () => this.#verify(),
      available: () => true,
      mayCome: () => false,
    });
  }

  /** The status of a request, which waits for its turn. */
  async ask(method: string): Promise<number> {
    const body = method === 'GET' ? null : '{}';
    const request = new Request(`http://g${CONFIG_MAPS}`, { method, body, headers: { authorization: 'Bearer t' } });
    request.headers.set('content-type', 'application/json');
    const answer = await this.#api.handle(request, '');
    for await (const chunk of answer.body ?? []) this.readBytes += chunk.length;
    return answer.status;
  }

  pass(): void {
    this.#turn.resolve();
  }

  #verify(): ProxyClient {
    if (!this.isDeclared) throw new TokenError('the controller is declared anew');
    const proxied = {
      account: { credentials: 'proxy', controller: 'ns.web', namespace: 'ns', name: 'reader', uid: 'u' },
      resources: [],
      budget: { inTurn: async <T>(work: () => T) => work() },
      usedRights: { note: () => {} },
      writeRecords: {
        begin: async () =>
          this.isFull ? 'full' : this.runGoesOn && { id: '1', deadlineMs: this.clock.now() + 60_000 },
        end: async () => {},
      },
    } as unknown as ProxiedController;
    return {
      controller: 'ns.web',
      proxied,
      runs: { incarnation: 'i', keys: { 1: 'ns/a' } },
      expiresAt: this.clock.now() / 1000 + 3600,
      goesOn: async () => this.runGoesOn,
      hasAccount: async () => this.hasAccount(),
    };
  }
}

describe('a proxied request that waits for its turn', () => {
  it.each(['GET', 'POST'])('%s is sent when its turn comes', async (method) => {
    const world = new World();
    const answer = world.ask(method);
    await eventually(async () => expect(world.waiting).toBe(1));
    expect(world.sent).toEqual([]);
    world.pass();
    expect(await answer).toBe(200);
    expect(world.sent).toEqual([method]);
  });

  it.each<[string, { GET: number; POST: number }, (world: World) => unknown]>([
    ['run has ended', { GET: 401, POST: 403 }, (world) => (world.runGoesOn = false)],
    ['controller is declared anew', { GET: 401, POST: 401 }, (world) => (world.isDeclared = false)],
    ['ServiceAccount is gone', { GET: 401, POST: 401 }, (world) => (world.hasAccount = () => false)],
    [
      'ServiceAccount is unknown, as the apiserver does not answer',
      { GET: 503, POST: 503 },
      (world) => (world.hasAccount = () => expect.unreachable('no answer')),
    ],
  ])('is not sent when its %s during the wait or before it', async (_what, codes, change) => {
    for (const [method, code] of Object.entries(codes)) {
      const world = new World();
      const answer = world.ask(method);
      await eventually(async () => expect(world.waiting).toBe(1));
      change(world);
      world.pass();
      expect(await answer).toBe(code);
      expect(await world.ask(method)).toBe(code);
      expect(world.waiting).toBe(1);
      expect(world.sent).toEqual([]);
    }
  });

  it.each(['GET', 'POST'])('%s is refused while too many others of its tenant wait', async (method) => {
    const world = new World();
    const refused: number[] = [];
    const ask = async (): Promise<void> => {
      const code = await world.ask(method);
      if (code !== 200) refused.push(code);
    };
    const answers = Array.from({ length: 1500 }, ask);
    await eventually(async () => expect(world.waiting + refused.length).toBe(1500));
    expect(world.waiting).toBe(256);
    expect(new Set(refused)).toEqual(new Set([429]));
    world.pass();
    await Promise.all(answers);
    expect(world.sent.length).toBeGreaterThan(0);
    // All is given back.
    expect(await world.ask(method)).toBe(200);
  });

  it('POST is not sent when too many writes of its run have no outcome', async () => {
    const world = new World();
    world.isFull = true;
    world.pass();
    expect(await world.ask('POST')).toBe(429);
    expect(world.sent).toEqual([]);
  });
});

it.each(['GET', 'POST'])('%s without an answer from the apiserver does not fill the log', async (method) => {
  const world = new World();
  world.status = undefined;
  world.pass();
  for (let at = 0; at < 100; at += 1) expect(await world.ask(method)).toBe(504);
  expect(world.warned.length).toBeGreaterThanOrEqual(10);
  expect(world.warned.length).toBeLessThan(20);
  expect(world.warned[0]).toMatchObject({ controller: 'ns.web', error: 'no connection' });
});

const MIB = 1024 * 1024;

describe('a proxied request with a long answer', () => {
  it.each([
    ['GET', 1200],
    // The answer to a write is read into memory up to 3 MiB.
    ['DELETE', 1203],
  ])('%s takes time of its tenant for each MiB of the answer', async (method, count) => {
    const world = new World();
    const chunk = Buffer.alloc(MIB);
    world.chunks = () => Array.from({ length: count }, () => chunk);
    world.pass();
    expect(await world.ask(method)).toBe(200);
    expect(world.readBytes).toBe(count * MIB);
    expect(world.clock.sleeps).not.toEqual([]);
    expect(() => world.times.for('ns.other').check()).toThrow('take too much of the processor');
    world.times.for('elsewhere.web').check();
  });

  it.each([
    ['its run has ended', (world: World) => (world.runGoesOn = false)],
    ['its controller is declared anew', (world: World) => (world.isDeclared = false)],
    ['its ServiceAccount is gone', (world: World) => (world.hasAccount = () => false)],
  ])('GET breaks off soon after %s', async (_when, end) => {
    const world = new World();
    const chunk = Buffer.alloc(MIB / 16);
    world.chunks = function* () {
      for (let at = 0; at < 200; at += 1) {
        if (at === 100) end(world);
        world.clock.advance(100);
        yield chunk;
      }
    };
    world.pass();
    await expect(world.ask('GET')).rejects.toThrow();
    expect(world.readBytes).toBeGreaterThan(90 * chunk.length);
    expect(world.readBytes).toBeLessThan(120 * chunk.length);
  });
});
