import { ConfigMap, Namespace } from 'levelhook/function/kinds';
import { RealApiserver, runReconciler, startControlPlane, testContext } from 'levelhook/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { greeting } from './greeting.ts';

// Runs against a real apiserver, which starts in some five seconds, so defaults, validation and refusals are real.

const key = { namespace: 'greetings', name: 'ann' };
const greetingKey = { namespace: 'greetings', name: 'ann-greeting' };
const metadata = { ...key, labels: { greet: 'true' } };

let plane: Awaited<ReturnType<typeof startControlPlane>>;
let apiserver: RealApiserver;

beforeAll(async () => {
  plane = await startControlPlane();
  apiserver = new RealApiserver(plane.kubeconfig);
  const { api } = testContext({ apiserver });
  await api.create(Namespace, { metadata: { name: key.namespace } });
  await api.create(ConfigMap, { metadata, data: { name: 'Ann' } });
});

afterAll(() => plane?.stop());

it('makes a greeting, changes it with its source, and leaves it alone otherwise', async () => {
  const run = () => runReconciler(greeting, key, { apiserver });
  const { api } = testContext({ apiserver });
  expect(await run()).toMatchObject({
    outcome: { status: 'done' },
    writes: [{ verb: 'create', resource: 'configmaps', ...greetingKey, status: 201 }],
  });
  expect((await run()).writes).toEqual([]);
  await api.patch(ConfigMap, key, { type: 'merge', body: { data: { name: 'Anna' } } });
  expect((await run()).writes).toMatchObject([{ verb: 'patch', ...greetingKey }]);
  expect((await api.get(ConfigMap, greetingKey))?.data).toEqual({ text: 'Hello, Anna!' });
});
