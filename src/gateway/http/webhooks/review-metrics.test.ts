import { expect, it } from 'vitest';
import { systemClock } from '../../../core/index.ts';
import { PrometheusMetrics } from '../../process/metrics.ts';
import { ReviewMetrics } from './review-metrics.ts';

it('has no series of webhooks that are no more, whenever their last review ends', async () => {
  const metrics = new PrometheusMetrics();
  const reviews = new ReviewMetrics({ clock: systemClock, metrics });
  const { promise, resolve } = Promise.withResolvers<Response>();
  const answer = async () => new Response('{}');
  await reviews.measure('/webhooks/a/kept', answer);
  await reviews.measure('/webhooks/a/dropped', answer);
  await reviews.measure('/webhooks/ab/kept', answer);
  await reviews.forget('/webhooks/a/', ['kept']);
  expect(await metrics.registry.metrics()).not.toContain('/webhooks/a/dropped');

  const late = reviews.measure('/webhooks/a/kept', () => promise);
  await reviews.forget('/webhooks/a/', []);
  resolve(new Response('{}'));
  await late;
  const text = await metrics.registry.metrics();
  expect(text).not.toContain('/webhooks/a/');
  expect(text).toContain('controller_runtime_webhook_requests_total{webhook="/webhooks/ab/kept",code="200"} 1\n');
  expect(text).toContain('controller_runtime_webhook_requests_in_flight{webhook="/webhooks/ab/kept"} 0\n');

  await reviews.measure('/webhooks/a/kept', answer);
  expect(await metrics.registry.metrics()).toContain('requests_in_flight{webhook="/webhooks/a/kept"} 0\n');
});
