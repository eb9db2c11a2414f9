import { expect, it, vi } from 'vitest';
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

it('forgets the series of one controller without a look at those of the others', async () => {
  const metrics = new PrometheusMetrics();
  for (const controller of ['kept', 'of-the-past']) {
    metrics.count('controller_runtime_reconcile_total', { controller, result: 'success' });
    metrics.observe('controller_runtime_reconcile_time_seconds', { controller }, 0.2);
  }
  const reads = metrics.registry.getMetricsAsArray().map(({ name }) => {
    const metric = metrics.registry.getSingleMetric(name);
    return metric && vi.spyOn(metric, 'get');
  });
  expect(reads.length).toBeGreaterThan(50);
  await metrics.forget({ controller: 'of-the-past' });
  for (const read of reads) expect(read).not.toHaveBeenCalled();
  expect(await metrics.registry.metrics()).not.toContain('of-the-past');
});

it('forgets series by several labels, whatever their order, and series that were replaced', async () => {
  const metrics = new PrometheusMetrics();
  const left = async () =>
    (await metrics.registry.metrics()).split('\n').filter((line) => line.startsWith('workqueue_depth{'));
  const of = (name: string, priority: string) => ({ name, controller: name, priority });
  metrics.replace('workqueue_depth', [
    [of('a', '0'), 1],
    [of('a', '-1'), 2],
    [of('b', '0'), 3],
  ]);
  metrics.replace('workqueue_depth', [
    [of('a', '0'), 1],
    [of('a', '-1'), 2],
  ]);
  metrics.set('workqueue_depth', { priority: '0', controller: 'a', name: 'a' }, 4);
  await metrics.forget({ name: 'a', priority: '0' });
  expect(await left()).toEqual(['workqueue_depth{name="a",controller="a",priority="-1"} 2']);
  await metrics.forget({ name: 'b' });
  await metrics.forget({ name: 'a', controller: 'b' });
  expect(await left()).toHaveLength(1);
  await metrics.forget({ controller: 'a' });
  expect(await left()).toEqual([]);
});
