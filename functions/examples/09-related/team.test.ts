import { ConfigMap } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { expect, it } from 'vitest';
import { team } from './team.ts';

const key = { namespace: 'a', name: 'red' };
const of = (name: string, data: object, labels = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'a', name, labels },
  data,
});
const red = of('red', { members: 'ann, bob' }, { team: 'true' });

it('collects the addresses of the members, and names them as what it depends on', async () => {
  const apiserver = new MemoryApiserver({ objects: [red, of('ann', { mail: 'ann@example.com' })] });
  const run = () => runReconciler(team, key, { apiserver });
  const members = () => apiserver.object(ConfigMap, { namespace: 'a', name: 'red-members' })?.data;
  expect((await run()).outcome).toMatchObject({
    status: 'done',
    related: [{ apiVersion: 'v1', kind: 'ConfigMap', namespace: 'a', names: ['ann', 'bob'] }],
  });
  expect(members()).toEqual({ ann: 'ann@example.com', bob: '' });
  apiserver.put(of('bob', { mail: 'bob@example.com' }));
  await run();
  expect(members()).toEqual({ ann: 'ann@example.com', bob: 'bob@example.com' });
  expect((await run()).writes).toEqual([]);
});

it('depends on nothing without members', async () => {
  const apiserver = new MemoryApiserver({ objects: [of('red', {}, { team: 'true' })] });
  expect((await runReconciler(team, key, { apiserver })).outcome).toMatchObject({ status: 'done', related: [] });
});
