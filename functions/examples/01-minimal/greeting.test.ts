import { ConfigMap } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { beforeEach, expect, it } from 'vitest';
import { greeting } from './greeting.ts';

// Runs against an apiserver in memory: a few milliseconds a test. See greeting.cluster.test.ts for a real one.

const source = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'a', name: 'ann', labels: { greet: 'true' } },
  data: { name: 'Ann' },
};
const key = { namespace: 'a', name: 'ann' };
const greetingKey = { namespace: 'a', name: 'ann-greeting' };

let apiserver: MemoryApiserver;
const run = () => runReconciler(greeting, key, { apiserver });

beforeEach(() => {
  apiserver = new MemoryApiserver({ objects: [source] });
});

it('the greeting function makes a greeting, and then leaves it alone', async () => {
  const { outcome, writes } = await run();
  expect(outcome.status).toBe('done');
  expect(writes).toMatchObject([
    { verb: 'create', resource: 'configmaps', ...greetingKey, body: { data: { text: 'Hello, Ann!' } } },
  ]);
  expect((await run()).writes).toEqual([]);
});

it('the greeting function changes a greeting with its source', async () => {
  await run();
  apiserver.put({ ...source, data: { name: 'Anna' } });
  expect((await run()).writes).toMatchObject([{ verb: 'patch', body: { data: { text: 'Hello, Anna!' } } }]);
  expect(apiserver.object(ConfigMap, greetingKey)?.data).toEqual({ text: 'Hello, Anna!' });
});

it('the greeting function does not touch the object of another owner, and tries again', async () => {
  apiserver.put({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: greetingKey,
    data: { text: 'mine' },
  });
  const { outcome, writes } = await run();
  expect(outcome).toMatchObject({ status: 'error', message: 'the ConfigMap ann-greeting belongs to another owner' });
  expect(writes).toEqual([]);
});

it('the greeting function tries again after a conflict', async () => {
  apiserver.fail({ verb: 'create' }, { code: 409, reason: 'AlreadyExists' });
  expect((await run()).outcome.status).toBe('error');
  expect((await run()).outcome.status).toBe('done');
});
