import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import {
  type CounterName,
  type GaugeName,
  type HistogramName,
  METRICS,
  type MetricLabels,
  type Metrics,
} from '../../core/index.ts';

/**
 * How often a timer fires that measures the lag of the event loop. `nodejs_eventloop_lag_*` include this interval. Each
 * time costs about 50 us of CPU: at prom-client's 10 ms that was half of what an idle gateway used.
 */
const LAG_PRECISION_MS = 50;

/** The metrics of one gateway, for Prometheus. A registry of its own: two gateways in a process do not mix. */
export class PrometheusMetrics implements Metrics {
  readonly registry = new Registry();
  readonly #counters = new Map<CounterName, Counter>();
  readonly #gauges = new Map<GaugeName, Gauge>();
  readonly #histograms = new Map<HistogramName, Histogram>();

  constructor() {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: LAG_PRECISION_MS });
    for (const [name, { help, labels }] of entries(METRICS.counters)) {
      this.#counters.set(name, new Counter({ name, help, labelNames: [...labels], registers }));
    }
    for (const [name, { help, labels }] of entries(METRICS.gauges)) {
      this.#gauges.set(name, new Gauge({ name, help, labelNames: [...labels], registers }));
    }
    for (const [name, { help, labels, buckets }] of entries(METRICS.histograms)) {
      const options = { name, help, labelNames: [...labels], buckets: [...buckets], registers };
      this.#histograms.set(name, new Histogram(options));
    }
  }

  count(name: CounterName, labels: MetricLabels, by = 1): void {
    this.#counters.get(name)?.inc({ ...labels }, by);
  }

  set(name: GaugeName, labels: MetricLabels, value: number): void {
    this.#gauges.get(name)?.set({ ...labels }, value);
  }

  observe(name: HistogramName, labels: MetricLabels, value: number): void {
    this.#histograms.get(name)?.observe({ ...labels }, value);
  }

  /** Sets all series of a gauge that is read at each scrape, and removes its other series. */
  replace(name: GaugeName, series: Iterable<readonly [labels: MetricLabels, value: number]>): void {
    const gauge = this.#gauges.get(name);
    gauge?.reset();
    for (const [labels, value] of series) gauge?.set({ ...labels }, value);
  }

  async forget(labels: MetricLabels): Promise<void> {
    const given = Object.entries(labels);
    for (const metric of [...this.#counters.values(), ...this.#gauges.values(), ...this.#histograms.values()]) {
      for (const { labels: found } of (await metric.get()).values) {
        const { le: _, ...series } = found as Record<string, string>;
        if (given.every(([label, value]) => series[label] === value)) metric.remove(series);
      }
    }
  }
}

function entries<K extends string, V>(record: Readonly<Record<K, V>>): [K, V][] {
  return Object.entries(record) as [K, V][];
}
