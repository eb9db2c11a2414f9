import { ConfigMap } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { expect, it } from 'vitest';
import { expiry } from './expiry.ts';

const CREATED = '2026-01-01T00:00:00Z';
const key = { namespace: 'a', name: 'b' };

function world(ttl: string | undefined) {
  let nowMs = Date.parse(CREATED);
  const apiserver = new MemoryApiserver({ now: () => nowMs });
  const annotations: Record<string, string> = ttl === undefined ? {} : { 'example.com/ttl-seconds': ttl };
  apiserver.put({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...key, labels: { expires: 'true' }, annotations },
  });
  const run = () =>
    runReconciler(
      expiry(() => nowMs),
      key,
      { apiserver },
    );
  return { apiserver, run, pass: (seconds: number) => (nowMs += seconds * 1000) };
}

it('comes again when the time is over, and deletes then', async () => {
  const { apiserver, run, pass } = world('60');
  expect((await run()).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 60 });
  pass(59.95);
  expect((await run()).outcome).toMatchObject({ requeueAfterSeconds: 0.1 });
  pass(0.1);
  expect((await run()).writes).toMatchObject([{ verb: 'delete', resource: 'configmaps', ...key }]);
  expect(apiserver.object(ConfigMap, key)).toBeUndefined();
  expect((await run()).outcome).toMatchObject({ status: 'done' });
});

it.each([undefined, '', '0', '-5', 'soon'])('does not try again for the annotation %s', async (ttl) => {
  expect((await world(ttl).run()).outcome).toMatchObject({ status: 'terminal' });
});

it('does not delete an object that has changed since it was read', async () => {
  const { apiserver, run, pass } = world('60');
  pass(61);
  apiserver.fail({ verb: 'delete' }, { code: 409 });
  expect((await run()).outcome).toMatchObject({ status: 'error' });
  expect(apiserver.object(ConfigMap, key)).toBeDefined();
});
