import { expect, it } from 'vitest';
import { PrometheusMetrics } from './metrics.ts';

it('forgets every series of what is no more, and no other', async () => {
  const metrics = new PrometheusMetrics();
  const record = (controller: string): void => {
    metrics.count('controller_runtime_reconcile_total', { controller, result: 'success' });
    metrics.count('controller_runtime_reconcile_total', { controller, result: 'error' });
    metrics.set('controller_runtime_active_workers', { controller }, 1);
    metrics.observe('controller_runtime_reconcile_time_seconds', { controller }, 0.2);
  };
  record('kept');
  const before = (await metrics.registry.metrics()).split('\n').filter((line) => line.includes('kept'));
  record('of-the-past');
  await metrics.forget({ controller: 'of-the-past' });
  const text = await metrics.registry.metrics();
  expect(text).not.toContain('of-the-past');
  expect(text.split('\n').filter((line) => line.includes('kept'))).toEqual(before);
  // A controller that comes back counts from nothing.
  record('of-the-past');
  expect(await metrics.registry.metrics()).toContain(
    'controller_runtime_reconcile_time_seconds_count{controller="of-the-past"} 1\n',
  );
});

it('replaces all series of a gauge that is read at each scrape', async () => {
  const metrics = new PrometheusMetrics();
  const labels = (name: string, priority: string) => ({ name, controller: name, priority });
  metrics.replace('workqueue_depth', [
    [labels('kept', '0'), 1],
    [labels('of-the-past', '0'), 2],
  ]);
  metrics.replace('workqueue_depth', [[labels('kept', '0'), 3]]);
  const text = await metrics.registry.metrics();
  expect(text).toContain('workqueue_depth{name="kept",controller="kept",priority="0"} 3\n');
  expect(text).not.toContain('of-the-past');
});
