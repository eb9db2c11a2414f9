import { expect, it } from 'vitest';
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
