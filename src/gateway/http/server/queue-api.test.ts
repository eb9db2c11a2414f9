import { describe, expect, it } from 'vitest';
import type { WorkQueue } from '../../controller/workqueue/work-queue.ts';
import { queueApi } from './queue-api.ts';

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
