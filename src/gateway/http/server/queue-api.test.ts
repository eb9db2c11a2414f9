import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../core/index.ts';
import type { PastRun, RunPage, WorkQueue } from '../../controller/workqueue/work-queue.ts';
import { ReadingTimes } from '../cache-api/reading-time.ts';
import type { LoginEnv, Visitor } from '../login/visitor.ts';
import { queueApi } from './queue-api.ts';

/** The queues for visitors whose name the header `visitor` has. */
function visited(queue: Partial<WorkQueue>, clock = { now: () => 0 }): Hono<LoginEnv> {
  const queues = new Map([['web', { name: 'web', ...queue } as WorkQueue]]);
  const api = queueApi({
    queues: () => queues,
    controller: () => undefined,
    clock,
    times: new ReadingTimes(systemClock),
  });
  return new Hono<LoginEnv>()
    .use(async (context, next) => {
      context.set('visitor', { client: context.req.header('visitor') ?? 'ann' } as Visitor);
      return next();
    })
    .route('/queues', api);
}

it.each([
  ['apps.replicasets', 'there is replicasets.apps'],
  ['replicasets', 'there is replicasets.apps'],
  ['greeting.shop', 'there is shop.greeting'],
  ['pods', 'there is greeter, replicasets.apps, shop.greeting'],
])('a controller that is asked for as %s is explained', async (name, expected) => {
  const there = ['shop.greeting', 'replicasets.apps', 'greeter'];
  const app = queueApi({
    queues: () => new Map(there.map((each) => [each, {} as WorkQueue])),
    controller: () => undefined,
    clock: { now: () => 0 },
  });
  const answer = await app.request(`/${name}/keys/default/hello`);
  expect(answer.status).toBe(404);
  expect(await answer.json()).toEqual({ error: `there is no controller "${name}" in this gateway: ${expected}` });
});

it('a selection of a controller is queued one at a time, and keys that are named besides', async () => {
  const first = Promise.withResolvers<number>();
  const app = queueApi({
    queues: () => new Map([['web', { name: 'web' } as WorkQueue]]),
    controller: () => ({
      problems: [],
      remarks: [],
      isStarting: false,
      circuit: undefined,
      namespaced: true,
      objectOf: async () => ({ state: 'cached' }),
      requeue: async ({ which }) => ('keys' in which ? 1 : first.promise),
    }),
    clock: { now: () => 0 },
  });
  const post = async (body: object): Promise<[number, unknown]> => {
    const headers = { 'content-type': 'application/json' };
    const answer = await app.request('/web/reconcile', { method: 'POST', headers, body: JSON.stringify(body) });
    return [answer.status, await answer.json()];
  };
  const all = post({ all: true });
  expect(await post({ namespace: 'a' })).toEqual([
    400,
    { error: 'the same is being done for web already: try again later' },
  ]);
  expect(await post({ keys: ['a/x'] })).toEqual([200, { queued: 1 }]);
  first.resolve(7);
  expect(await all).toEqual([200, { queued: 7 }]);
  expect(await post({ namespace: 'a' })).toEqual([200, { queued: 7 }]);
});

describe('a key or a namespace that no key of the controller can have', () => {
  const NAMESPACED = 'keys of web are namespace/name';
  const CLUSTER = 'keys of web have no namespace';
  const byNamespace = (name: string): string => `${NAMESPACED}: name the namespace by --namespace ${name}`;

  /** Answers of a queue that must not be asked: the API asks it only when the request is right. */
  async function ask(namespaced: boolean, path: string, body?: object): Promise<[number, unknown]> {
    const queue = { name: 'web' } as WorkQueue;
    const app = queueApi({
      queues: () => new Map([['web', queue]]),
      controller: () => ({
        problems: [],
        remarks: [],
        isStarting: false,
        circuit: undefined,
        namespaced,
        objectOf: async () => ({ state: 'cached' }),
        requeue: async () => 0,
      }),
      clock: { now: () => 0 },
    });
    app.onError(() => new Response('', { status: 500 }));
    const headers = { 'content-type': 'application/json' };
    const answer = await app.request(`/web/${path}`, body && { method: 'POST', headers, body: JSON.stringify(body) });
    const text = await answer.text();
    return [answer.status, answer.status === 400 ? (JSON.parse(text) as { error: string }).error : text];
  }

  it.each<[boolean, string, object | undefined, string]>([
    [true, 'keys/default', undefined, NAMESPACED],
    [true, 'runs?key=default', undefined, NAMESPACED],
    [true, 'pause', { scope: 'key/default' }, byNamespace('default')],
    [true, 'replay', { keys: ['default'] }, byNamespace('default')],
    [true, 'drop', { keys: ['default'] }, byNamespace('default')],
    // No namespace has such a name.
    [true, 'pause', { scope: 'key/system:x' }, NAMESPACED],
    [false, 'keys/a/x', undefined, CLUSTER],
    [false, 'runs?key=a%2Fx', undefined, CLUSTER],
    [false, 'pause', { scope: 'key/a/x' }, CLUSTER],
    [false, 'pause', { scope: 'namespace/a' }, CLUSTER],
    [false, 'replay', { keys: ['a/x'] }, CLUSTER],
    [false, 'drop', { namespace: 'a' }, CLUSTER],
  ])('is refused (kind with namespaces: %s): %s %j', async (namespaced, path, body, error) => {
    expect(await ask(namespaced, path, body)).toEqual([400, error]);
    // The same request is right for the other sort of kind, except that this queue cannot do it.
    expect((await ask(!namespaced, path, body))[0]).toBe(500);
  });

  it('can be resumed, so that any pause on record can end', async () => {
    for (const namespaced of [true, false]) {
      for (const scope of ['key/default', 'key/a/x', 'namespace/a']) {
        expect((await ask(namespaced, 'resume', { scope }))[0]).toBe(500);
      }
    }
  });

  it.each([{ keys: Array.from({ length: 1001 }, (_, at) => `a/${at}`) }, {}])(
    'a wrong selection is refused with the bounds (%#)',
    async (body) => {
      const bounds = 'must be {keys} with 1 to 1000 keys, {namespace}, or {all: true}';
      expect(await ask(true, 'drop', body)).toEqual([400, bounds]);
    },
  );
});

it.each(['/', '/greeter/keys', '/greeter/runs'])('%s says why the queues cannot be asked', async (path) => {
  const reason = 'The gateway is starting: the apiserver does not answer';
  const app = queueApi({ queues: () => reason, controller: () => undefined, clock: { now: () => 0 } });
  const answer = await app.request(path);
  expect(answer.status).toBe(503);
  expect(await answer.json()).toEqual({ error: reason });
});

it('all visitors share what is read of the queues for a moment, or until a change', async () => {
  let [nowMs, read] = [0, 0];
  const levels = async () => ({ sizes: {}, pauses: [], morePauses: 0, pausedObjects: 0, read: (read += 1) }) as never;
  const inspector = { levels } as unknown as WorkQueue['inspector'];
  const app = visited({ inspector, pause: async () => true }, { now: () => nowMs });
  const look = async (visitor: string): Promise<number> => {
    const answer = await app.request('/queues', { headers: { visitor } });
    expect(await answer.json()).toMatchObject({ queues: [{ controller: 'web' }] });
    return read;
  };
  expect([await look('ann'), await look('ben'), await look('ann')]).toEqual([1, 1, 1]);
  nowMs = 1000;
  expect([await look('ann'), await look('ben')]).toEqual([2, 2]);
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ scope: 'controller' });
  expect((await app.request('/queues/web/pause', { method: 'POST', headers, body })).status).toBe(200);
  expect([await look('ann'), await look('ben')]).toEqual([4, 4]);
});

it.each(['runs', 'samples', 'pauses', 'keys?list=dead', 'keys/a/x'])(
  'few reads of a visitor for %s are under way together',
  async (path) => {
    let begun = 0;
    const wait = (): Promise<never> => {
      begun += 1;
      return new Promise(() => {});
    };
    const never = async (): Promise<never> => new Promise(() => {});
    const inspector = { list: wait, pauses: wait, status: wait, levels: never } as unknown as WorkQueue['inspector'];
    const history = { runs: wait, samples: wait, runsOf: never } as unknown as WorkQueue['history'];
    const app = visited({ inspector, history });
    for (let at = 0; at < 20; at += 1) void app.request(`/queues/web/${path}`);
    await new Promise((resolve) => setImmediate(resolve));
    expect(begun).toBe(8);
    void app.request(`/queues/web/${path}`, { headers: { visitor: 'ben' } });
    await new Promise((resolve) => setImmediate(resolve));
    expect(begun).toBe(9);
  },
);

describe('an answer of runs', () => {
  const numbers = (runs: readonly PastRun[]): number[] => runs.map(({ run }) => run);

  /** A history of 1,000 runs with as much text, the newest first, whose cursors are places. */
  function historyOf(characters: number): WorkQueue['history'] {
    const all = Array.from({ length: 1000 }, (_, at): PastRun => {
      return { outcome: 'failed', key: 'a/x', run: 1000 - at, atMs: at, error: 'x'.repeat(characters) };
    });
    const runs: WorkQueue['history']['runs'] = async ({ limit, before = '0.0' }) => {
      const from = Number.parseInt(before, 10);
      const next = from + limit < all.length ? { next: `${from + limit}.0` } : {};
      return { runs: all.slice(from, from + limit), ...next, newest: '1000.1' };
    };
    return { runs } as WorkQueue['history'];
  }

  it('ends before its limit where runs are long, and those behind it follow', async () => {
    const app = visited({ history: historyOf(3072) });
    const seen: number[] = [];
    let next: string | undefined = '0.0';
    for (let answers = 0; next !== undefined && answers < 100; answers += 1) {
      const answer = await app.request(`/queues/web/runs?limit=1000&before=${next}`);
      const text = await answer.text();
      expect(text.length).toBeLessThan(256 * 1024);
      const page = JSON.parse(text) as RunPage;
      expect(page.newest).toBe('1000.1');
      seen.push(...numbers(page.runs));
      ({ next } = page);
    }
    expect(seen).toEqual(Array.from({ length: 1000 }, (_, at) => 1000 - at));
  });

  it('has its limit where they are short', async () => {
    const answer = await visited({ history: historyOf(10) }).request('/queues/web/runs?limit=1000');
    expect(answer.headers.get('content-type')).toBe('application/json');
    const { runs, next, newest } = (await answer.json()) as RunPage;
    expect([runs.length, next, newest]).toEqual([1000, undefined, '1000.1']);
    const some = await visited({ history: historyOf(10) }).request('/queues/web/runs?limit=40');
    expect(((await some.json()) as RunPage).runs).toHaveLength(40);
  });

  it('may have none', async () => {
    const history = { runs: async () => ({ runs: [] }) } as unknown as WorkQueue['history'];
    const answer = await visited({ history }).request('/queues/web/runs');
    expect(await answer.json()).toEqual({ runs: [] });
  });
});
