import { Hono } from 'hono';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { viewPrefix } from '../../../src/contract/cache-layout.ts';
import { silentLogger, systemClock, UserError } from '../../../src/core/index.ts';
import type { OpenCircuit } from '../../../src/gateway/controller/endpoint/open-circuit.ts';
import type { RequeueRequest } from '../../../src/gateway/controller/running/requeue.ts';
import { AdminServer } from '../../../src/gateway/http/server/admin-server.ts';
import type { ServedQueue } from '../../../src/gateway/http/server/queue-api.ts';
import type { KeyObject, RunPage, WorkQueue } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { eventually } from '../../harness/eventually.ts';
import { NO_LOGIN } from '../../harness/login.ts';
import { done, RecordingProcess } from '../../harness/recording-process.ts';
import { TestProcess } from '../../harness/process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';

let fixture: RedisQueueFixture;
let queue: WorkQueue;
let process: RecordingProcess;
let server: AdminServer;
let redisIsThere = true;
let problems: readonly string[] = [];
let circuit: OpenCircuit | undefined;
let object: KeyObject;
let namespaced: boolean;
let requeued: RequeueRequest[] = [];

beforeEach(async () => {
  fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock);
  queue = await fixture.open();
  process = new RecordingProcess();
  redisIsThere = true;
  problems = [];
  circuit = undefined;
  object = { state: 'cached' };
  namespaced = true;
  requeued = [];
  server = new AdminServer({
    listen: { host: '127.0.0.1', port: 0 },
    live: new Map(),
    ready: new Map(),
    metrics: async () => '',
    apis: {
      dashboard: new Hono(),
      reconcile: new Hono(),
      queues: {
        queues: () => (redisIsThere ? new Map([['controller', queue]]) : 'Redis cannot be asked: not connected'),
        controller: () => ({
          problems,
          remarks: [],
          isStarting: false,
          circuit,
          namespaced,
          objectOf: async () => object,
          requeue: async (asked) => {
            if ('selection' in asked.which && asked.which.selection.namespace === 'none') throw new UserError('none');
            return requeued.push(asked);
          },
        }),
        clock: systemClock,
      },
    },
    login: NO_LOGIN,
    logger: silentLogger,
  });
  await server.start();
  process.onRun = () => ({ kind: 'ended', failures: 'keep', dead: true, error: 'quota exceeded' });
  await queue.start(process);
});

afterEach(async () => {
  await server.stop();
  await fixture.close();
});

const dead = async (...keys: string[]): Promise<void> => {
  await queue.add(keys.map((key) => ({ key, reasons: [{ type: 'added', object: `apps/v1/ReplicaSet ${key}` }] })));
  await eventually(async () => expect(await deadKeys()).toEqual(expect.arrayContaining(keys)));
};
const deadKeys = async (): Promise<string[]> =>
  (await queue.inspector.list('dead', { offset: 0, limit: 1000 })).keys.map(({ key }) => key).toSorted();

async function request(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<[number, unknown]> {
  const sent = {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  };
  const answer = await fetch(server.url + path, body === undefined ? { headers } : sent);
  const text = await answer.text();
  return [answer.status, text.startsWith('{') ? JSON.parse(text) : text];
}

describe('/queues', () => {
  it('tells of every queue, its lists, and each key', async () => {
    await dead('a/x', 'b/y');
    await queue.pause('namespace/c');
    const keys = { queued: 0, running: 0, timers: 0, failing: 0, backlog: 0, waiting: 1, dead: 2 };
    const pauses = [{ scope: 'namespace/c', sinceMs: expect.any(Number) as number }];
    await queue.add([{ key: 'a/z', reasons: [], paused: true }]);
    await eventually(async () => expect((await queue.inspector.status('a/z')).waits).toHaveLength(1));
    const served = { controller: 'controller', state: 'dead letters', problems: [], remarks: [], keys, pauses };
    expect(await request('/queues')).toEqual([200, { queues: [{ ...served, morePauses: 0, pausedObjects: 1 }] }]);
    const all = [{ scope: 'object/a/z' }, ...pauses];
    const page = (await request('/queues/controller/pauses'))[1] as { pauses: unknown[] };
    expect(page).toEqual({
      pauses: expect.arrayContaining(all.map((each) => expect.objectContaining(each) as unknown)),
    });
    expect(page.pauses).toHaveLength(2);
    problems = ['its view is not complete'];
    expect(await request('/queues')).toMatchObject([200, { queues: [{ state: 'problem', problems }] }]);
    expect(await request('/queues/controller/keys?list=dead&limit=1')).toMatchObject([200, { total: 2, keys: [{}] }]);
    const history = await queue.history.runsOf('a/x');
    expect(history).toMatchObject([{ outcome: 'dead', error: 'quota exceeded', reasons: [{ type: 'added' }] }]);
    const status = await queue.inspector.status('a/x');
    expect(await request('/queues/controller/keys/a/x')).toEqual([
      200,
      { ...status, object, state: 'dead letter', history, controllerState: 'problem', problems },
    ]);
    expect(await request('/queues/other.controller/keys/a/x')).toEqual([
      404,
      { error: 'there is no controller "other.controller" in this gateway: there is controller' },
    ]);
  });

  it.each(['n\nl', 'n\rl', 'n\u2028l', 'n\u2029l', 'a b', 'system:x', '-x', '?#&'])(
    'tells of a key of any name, and operates it: %j',
    async (name) => {
      namespaced = false;
      await dead(name, 'a/other');
      expect(await request(`/queues/controller/keys/${encodeURIComponent(name)}`)).toMatchObject([200, { key: name }]);
      // A name may look like an option.
      const key = ['--', name];
      const [get, explained, paused] = await Promise.all([
        run('explain', 'controller', ...key),
        run('explain', 'controller', '--output', 'json', ...key),
        run('pause', 'controller', ...key),
      ]);
      expect(get).toEqual([0, expect.stringMatching(/^ +a dead letter since /m)]);
      expect([explained[0], JSON.parse(explained[1])]).toMatchObject([
        0,
        { key: name, history: [{ outcome: 'dead' }] },
      ]);
      expect(paused[0], paused[1]).toBe(0);
      expect((await queue.inspector.pauses()).pauses.map(({ scope }) => scope)).toEqual([`key/${name}`]);
      expect(await run('resume', 'controller', ...key)).toEqual([0, expect.stringContaining(' resumed; ')]);
      expect(await queue.inspector.pauses()).toEqual({ pauses: [] });
      expect(await run('replay', 'controller', ...key)).toEqual([0, 'replayed 1 dead letter of controller']);
      await eventually(async () => expect(await queue.history.runsOf(name)).toHaveLength(2));
      await eventually(async () => expect(await deadKeys()).toEqual([name, 'a/other'].toSorted()));
      expect(await run('drop', 'controller', ...key)).toEqual([0, 'dropped 1 dead letter of controller']);
      expect(await deadKeys()).toEqual(['a/other']);
    },
  );

  it('tells of the last runs, page by page and by outcome, and of the last hour', async () => {
    await dead('a/x', 'b/y');
    process.onRun = () => done;
    await queue.add([{ key: 'c/z', reasons: [] }]);
    await eventually(async () => expect(await queue.history.runsOf('c/z')).toHaveLength(1));
    const [, first] = (await request('/queues/controller/runs?limit=2')) as [number, RunPage];
    expect(first).toEqual(await queue.history.runs({ limit: 2 }));
    expect(first.runs.map(({ key }) => key)[0]).toBe('c/z');
    const [, rest] = (await request(`/queues/controller/runs?limit=2&before=${first.next}`)) as [number, RunPage];
    expect(rest.runs).toHaveLength(1);
    expect(await request(`/queues/controller/runs?after=${first.newest}`)).toMatchObject([200, { runs: [] }]);
    const [, failed] = (await request('/queues/controller/runs?outcome=dead')) as [number, RunPage];
    expect(failed.runs.map(({ key }) => key).toSorted()).toEqual(['a/x', 'b/y']);
    expect(await request('/queues/controller/samples')).toEqual([
      200,
      { seconds: 30, samples: expect.objectContaining({ length: 120 }) as unknown },
    ]);
  });

  it('tells what a key waits for in the cache', async () => {
    const prefix = viewPrefix({
      keyPrefix: 'levelhook',
      clusterId: 'c',
      resource: { apiVersion: 'apps/v1', kind: 'Deployment' },
      settings: 's',
    });
    const barrier = JSON.stringify({ [prefix]: { version: '77', deleted: [['a/old', 'uid']], endedAtMs: 1 } });
    process.unpassed.add(barrier);
    process.onRun = () => ({ kind: 'ended', failures: 'forget', barrier, againAfterMs: 0 });
    await queue.add([{ key: 'a/x', reasons: [] }]);
    const awaits = [{ kind: 'apps/v1/Deployment', resourceVersion: '77', deleted: ['a/old'] }];
    await eventually(async () => {
      const waits = [{ reason: 'barrier', sinceMs: expect.any(Number) as number, awaits }];
      expect(await request('/queues/controller/keys/a/x')).toMatchObject([
        200,
        { waits, history: [{ barrier: true }] },
      ]);
    });
    process.unpassed.clear();
    process.onRun = () => done;
    await eventually(async () => expect(await fixture.pending()).toBe(0));
  });

  it('tells while this gateway starts no keys, since it cannot reach the function', async () => {
    const times = { sinceMs: Date.now(), untilMs: Date.now() + 60_000 };
    circuit = { ...times, reason: 'the function does not answer' };
    const served = async (): Promise<unknown> => {
      const [, { queues }] = (await request('/queues')) as [number, { queues: ServedQueue[] }];
      return queues[0]?.circuit;
    };
    expect(await served()).toEqual(times);
    circuit = { ...times, reason: undefined };
    expect(await served()).toEqual({ ...times, isStarting: true });
    circuit = undefined;
    expect(JSON.stringify(await request('/queues'))).not.toContain('circuit');
  });

  it('replays and drops one dead letter, those of a namespace, or all', async () => {
    await dead('a/1', 'a/2', 'b/1', 'b/2', 'c/1');
    expect(await request('/queues/controller/drop', { keys: ['a/1', 'none/such'] })).toEqual([200, { dropped: 1 }]);
    expect(await request('/queues/controller/drop', { namespace: 'c' })).toEqual([200, { dropped: 1 }]);
    process.onRun = () => done;
    expect(await request('/queues/controller/replay', { namespace: 'b' })).toEqual([200, { replayed: 2 }]);
    await eventually(async () => expect(await deadKeys()).toEqual(['a/2']));
    expect(process.runsOf('b/1').at(-1)?.reasons).toEqual([{ type: 'manual' }]);
    expect(await request('/queues/controller/replay', { all: true })).toEqual([200, { replayed: 1 }]);
    await eventually(async () => expect(await deadKeys()).toEqual([]));
    expect(process.runsOf('a/1')).toHaveLength(1);
    expect(process.runsOf('c/1')).toHaveLength(1);
  });

  it('replays many at low priority', async () => {
    const keys = Array.from({ length: 150 }, (_, at) => `a/${at}`);
    await dead(...keys);
    process.onRun = () => done;
    await queue.pause('controller');
    expect(await request('/queues/controller/replay', { all: true })).toEqual([200, { replayed: 150 }]);
    await queue.resume('controller');
    await eventually(async () => expect(await deadKeys()).toEqual([]));
    await eventually(async () => {
      for (const key of keys) expect(process.runsOf(key)).toHaveLength(2);
    });
  });

  it('pauses and resumes a controller or a namespace of it', async () => {
    const paused = { pauses: [{ scope: 'namespace/a' }], morePauses: 0, pausedObjects: 0 };
    for (const changed of [true, false]) {
      const answer = await request('/queues/controller/pause', { scope: 'namespace/a' });
      expect(answer).toMatchObject([200, { ...paused, changed }]);
    }
    await queue.add([{ key: 'a/x', reasons: [] }]);
    await eventually(async () => expect((await queue.inspector.status('a/x')).waits).toHaveLength(1));
    for (const changed of [true, false]) {
      const answer = await request('/queues/controller/resume', { scope: 'namespace/a' });
      expect(answer).toEqual([200, { changed, pauses: [], morePauses: 0, pausedObjects: 0 }]);
    }
    await eventually(async () => expect(process.keys()).toEqual(['a/x']));
  });

  it('says what is wrong, and changes nothing', async () => {
    await dead('a/x');
    const wrong: [string, unknown, number][] = [
      ['/queues/other/keys?list=dead', undefined, 404],
      ['/queues/controller/keys', undefined, 400],
      ['/queues/controller/keys?list=nothing', undefined, 400],
      ['/queues/controller/runs?limit=1001', undefined, 400],
      ['/queues/controller/runs?outcome=good', undefined, 400],
      ['/queues/controller/runs?before=%2B', undefined, 400],
      ['/queues/controller/pauses?after=x', undefined, 400],
      ['/queues/other/samples', undefined, 404],
      ['/queues/controller/keys?list=dead&limit=100000', undefined, 400],
      ['/queues/controller/drop', {}, 400],
      ['/queues/controller/drop', { all: false }, 400],
      ['/queues/controller/drop', { all: true, namespace: 'a' }, 400],
      ['/queues/controller/keys/a%2Fb%2Fc', undefined, 400],
      ['/queues/controller/keys/A/b', undefined, 400],
      ['/queues/controller/drop', { keys: ['a/..'] }, 400],
      ['/queues/controller/replay', { keys: ['a/b/c'] }, 400],
      ['/queues/controller/drop', { namespace: '..' }, 400],
      ['/queues/controller/pause', { scope: 'namespace/..' }, 400],
      ['/queues/controller/pause', { scope: 'namespace/a/b' }, 400],
      ['/queues/controller/pause', { scope: 'controller/a' }, 400],
      ['/queues/controller/pause', { scope: 'object/a/x' }, 400],
      ['/queues/controller/pause', { scope: 'key/a/b/c' }, 400],
      ['/queues/controller/pause', { scope: 'key/' }, 400],
      ['/queues/controller/pause', { scope: 'breaker' }, 400],
    ];
    for (const [path, body, status] of wrong) {
      expect(await request(path, body), path).toMatchObject([status, { error: expect.any(String) as string }]);
    }
    expect(await request('/queues/controller/drop', { all: true }, { 'content-type': 'text/plain' })).toMatchObject([
      403,
      {},
    ]);
    redisIsThere = false;
    expect(await request('/queues')).toMatchObject([503, {}]);
    expect(await request('/queues/controller/replay', { all: true })).toMatchObject([503, {}]);
    expect(await deadKeys()).toEqual(['a/x']);
    expect(await queue.inspector.pauses()).toEqual({ pauses: [] });
  });
});

const run = async (...args: string[]): Promise<[number | string, string]> => {
  const command = new TestProcess('src/cli/levelhook.js', args, { LEVELHOOK_GATEWAY: server.url });
  const code = await command.exited;
  return [code, command.output];
};

describe('levelhook explain', () => {
  it('says why a key ran and how it ended, as text and as JSON', async () => {
    await dead('a/x');
    const [code, text] = await run('explain', 'controller', 'a/x');
    expect(code, text).toBe(0);
    expect(text).toMatch(/^ +20.*Z {2}failed, became a dead letter: quota exceeded {2}\(run 1, /m);
    expect(text).toMatch(/^ +because added apps\/v1\/ReplicaSet a\/x$/m);
    expect(text).toMatch(/^ +a dead letter since 20.*Z$/m);
    expect(text).toMatch(/^next run: none: it is a dead letter until /m);
    const [, json] = await run('explain', 'controller', 'a/x', '--output', 'json');
    expect(JSON.parse(json)).toMatchObject({ key: 'a/x', history: [{ outcome: 'dead' }] });
    expect(await run('explain', 'controller', 'a/b/c')).toEqual([1, expect.stringMatching(/^levelhook: /) as string]);
  });
});

it.each<[KeyObject, number, RegExp]>([
  [{ state: 'cached' }, 0, /the cache has its object$/m],
  [{ state: 'absent' }, 3, /there is no such object in the cache, which is complete$/m],
  [{ state: 'kept out', reason: 'it is too large' }, 4, /the cache keeps its object out .*: it is too large$/m],
  [{ state: 'not selected', by: 'predicate' }, 5, /the predicate of its controller leaves out$/m],
  [{ state: 'not selected', by: 'namespaces' }, 5, /its controller reconciles no keys of this namespace$/m],
  [{ state: 'unknown', reason: 'the cache is not complete yet' }, 0, /the cache is not complete yet$/m],
])('levelhook explain has the state of the object as its exit code, too: %o, %i', async (state, code, sentence) => {
  object = state;
  expect(await run('explain', 'controller', 'a/x')).toEqual([code, expect.stringMatching(sentence)]);
  expect(await run('explain', 'controller', 'a/x', '--output', 'json')).toEqual([code, expect.any(String)]);
});

describe('the commands that ask a gateway', () => {
  const levelhook = (...args: string[]): Promise<[number | string, string]> => run(...args);

  it('shows queues, lists and keys, replays, drops, pauses and resumes', async () => {
    await dead('a/x', 'a/y');
    const [code, queues] = await levelhook('get', 'controllers');
    expect(code, queues).toBe(0);
    expect(queues).toMatch(/^CONTROLLER .*DEAD .*\ncontroller .* 2 +- +-$/m);
    expect(queues).toMatch(/^controller +dead letters +0 /m);
    expect((await levelhook('get', 'keys', 'controller'))[1]).toMatch(/^dead +a\/x +20..-.*Z$/m);
    expect((await levelhook('get', 'keys', 'controller', '--list', 'dead'))[1]).toMatch(/^a\/x +20..-.*Z$/m);
    expect((await levelhook('get', 'dead-letters'))[1]).toMatch(/^controller +a\/x +20..-.*Z$/m);
    const [, json] = await levelhook('get', 'dead-letters', 'controller', '--limit', '1', '--output', 'json');
    expect(JSON.parse(json)).toMatchObject({ controller: { total: 2, keys: [{}] } });
    const [, yaml] = await levelhook('get', 'keys', 'controller', '--list', 'dead', '-o', 'yaml');
    expect(yaml).toMatch(/^total: 2\nkeys:\n/);
    process.onRun = () => done;
    expect(await levelhook('replay', 'controller', 'a/x')).toEqual([0, 'replayed 1 dead letter of controller']);
    expect(await levelhook('drop', 'controller', '--all')).toEqual([
      0,
      expect.stringMatching(/^dropped [12] dead letters? of controller$/) as string,
    ]);
    await eventually(async () => expect(await deadKeys()).toEqual([]));
    expect(await levelhook('trigger', 'controller', 'a/x', 'a/y')).toEqual([0, 'queued 1 key of controller']);
    expect(await levelhook('trigger', 'controller', '--namespace', 'a')).toEqual([0, 'queued 2 keys of controller']);
    expect(await levelhook('trigger', 'controller', '--all', '-o', 'json')).toEqual([0, '{\n  "queued": 3\n}']);
    expect(requeued).toEqual([
      {
        which: {
          keys: [
            { namespace: 'a', name: 'x' },
            { namespace: 'a', name: 'y' },
          ],
        },
        priority: 'high',
      },
      { which: { selection: { namespace: 'a' } }, priority: 'low' },
      { which: { selection: {} }, priority: 'low' },
    ]);
    expect((await levelhook('trigger', 'controller', '--namespace', 'none'))[1]).toMatch(/ answered 400: none\.$/);
    expect(await levelhook('pause', 'controller', '--namespace', 'a')).toEqual([
      0,
      'namespace a paused; paused of controller now: namespace/a',
    ]);
    expect(await levelhook('pause', 'controller', 'a/x')).toEqual([
      0,
      'key a/x paused; paused of controller now: namespace/a, key/a/x',
    ]);
    expect(await levelhook('resume', 'controller', '--namespace', 'a')).toEqual([
      0,
      'namespace a resumed; paused of controller now: key/a/x',
    ]);
    expect(await levelhook('resume', 'controller')).toEqual([
      0,
      'controller controller was not paused; paused of controller now: key/a/x',
    ]);
    expect((await run('explain', 'controller', 'a/x'))[1]).toMatch(
      /^ +paused since .*: a person has paused the key a\/x$/m,
    );
    expect(await levelhook('resume', 'controller', 'a/x')).toEqual([
      0,
      'key a/x resumed; paused of controller now: nothing',
    ]);
    expect((await levelhook('get', 'keys', 'controller', '--list', 'dead'))[1]).toBe('no dead letters');
  });

  it('get --watch prints a row again when it changes', async () => {
    const watch = new TestProcess(
      'src/cli/levelhook.js',
      ['get', 'controllers', '--watch', '--gateway', server.url],
      {},
    );
    try {
      await eventually(async () => expect(watch.output).toMatch(/^controller +idle /m));
      await dead('a/x');
      await eventually(async () => expect(watch.output).toMatch(/^controller +dead letters /m));
    } finally {
      await watch.kill();
    }
  });

  it('shows why keys wait while the function cannot be reached', async () => {
    const untilMs = Date.now() + 60_000;
    circuit = { sinceMs: Date.now(), untilMs, reason: 'the function does not answer' };
    queue.allow(0);
    await queue.add([{ key: 'a/x', reasons: [] }]);
    await queue.addLow(['a/low'], 'initial');
    await queue.addAfter('a/timer', 5);
    for (const key of ['a/x', 'a/low', 'a/timer']) {
      await eventually(async () => {
        const waits = [{ reason: 'breaker', untilMs }];
        expect(await request(`/queues/controller/keys/${key}`)).toMatchObject([200, { state: 'circuit open', waits }]);
      });
    }
    expect((await levelhook('get', 'controllers'))[1]).toMatch(/^controller .* breaker +-$/m);
    expect((await levelhook('get', 'keys', 'controller'))[1]).toMatch(/^queued +a\/x +20..-.*Z$/m);
    const [, status] = await levelhook('explain', 'controller', 'a/x');
    expect(status).toMatch(/^ +waits for the function to be reachable from this gateway, tried again at 20..-.*Z$/m);
  });

  it('ends in one sentence when something is wrong', async () => {
    const mistakes: [string[], RegExp][] = [
      [['explain', 'other', 'a/x'], /answered 404: there is no controller "other"/],
      [
        ['explain', 'a/x', 'controller'],
        /no controller "a\/x" in this gateway: there is controller, which comes before/,
      ],
      [['explain', 'controller', 'a/b/c'], /is not an object key/],
      [['explain', 'controller', 'a/..'], /"a\/\.\." is not an object key/],
      [['pause', 'controller', '--namespace', 'a/b'], /--namespace: "a\/b" is not the name of a namespace/],
      [['pause', 'controller', 'a/x', '--namespace', 'a'], /Say a key or --namespace/],
      [['resume', 'controller', 'a/b/c'], /is not an object key/],
      [['drop', 'controller'], /Say which dead letters/],
      [['trigger', 'controller'], /Say which keys/],
      [['drop', 'controller', 'a/x', '--all'], /Say which dead letters/],
      [['get', 'controllers', '--gateway', 'http://127.0.0.1:1'], /No gateway answers at http:\/\/127.0.0.1:1/],
      [['get', 'keys', 'controller', '--list', 'nothing'], /Allowed choices are queued,/],
    ];
    const answers = mistakes.map(async ([args, message]) => {
      const [code, output] = await levelhook(...args);
      expect(code).toBe(1);
      expect(output).toMatch(message);
      expect(output.split('\n')).toHaveLength(1);
    });
    await Promise.all(answers);
  });
});
