import { expect, it } from 'vitest';
import { gatewayKeys, viewKeys, viewPrefix } from '../../contract/cache-layout.ts';
import { queueKeys } from '../../gateway/controller/workqueue/queue-keys.ts';
import { kindOf } from './key-kinds.ts';

const scope = { keyPrefix: 'levelhook', clusterId: 'c1' };
const resource = { apiVersion: 'apps/v1', kind: 'Deployment' };
const view = viewKeys(viewPrefix({ ...scope, resource, settings: 'aB-_1' }));
const queue = queueKeys(scope, 'shop.greeting');

it.each([
  [view.objects, 'objects'],
  [view.entries, 'entries'],
  [view.order, 'orders'],
  [view.outbox, 'outboxes'],
  [view.view, 'views'],
  [`${view.indexPrefix}namespace:shop`, 'indexes'],
  [`${view.indexPrefix}label:app=%7D%3A`, 'indexes'],
  [queue.queue, 'queues'],
  [queue.timers, 'queues'],
  [`${queue.pausedPrefix}namespace/shop`, 'queues'],
  [`${queue.takenPrefix}x`, 'queues'],
  [`${queue.recordPrefix}shop/a:b`, 'records'],
  [`${queue.historyPrefix}shop/a`, 'histories'],
  [queue.recent, 'histories'],
  [queue.samples, 'histories'],
  [queue.waiting, 'BullMQ'],
  [`${queue.bullmqPrefix}17`, 'BullMQ'],
  ...Object.values(gatewayKeys(scope)).map((key) => [key, 'gateway']),
  [gatewayKeys({ ...scope, clusterId: 'c2' }).views, 'other clusters'],
  [gatewayKeys({ ...scope, keyPrefix: 'other' }).views, 'other programs'],
  ['{levelhook:v1:', 'other programs'],
  ['session:1', 'other programs'],
])('%s: %s', (key, kind) => {
  expect(kindOf(key, 'levelhook', 'c1')).toBe(kind);
});

it('counts any cluster when it does not know its own', () => {
  expect(kindOf(gatewayKeys({ ...scope, clusterId: 'c2' }).views, 'levelhook')).toBe('gateway');
});
