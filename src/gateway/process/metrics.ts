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
  readonly #series = new SeriesIndex();

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
    const counter = this.#counters.get(name);
    counter?.inc({ ...labels }, by);
    if (counter) this.#series.add(counter, labels);
  }

  set(name: GaugeName, labels: MetricLabels, value: number): void {
    const gauge = this.#gauges.get(name);
    gauge?.set({ ...labels }, value);
    if (gauge) this.#series.add(gauge, labels);
  }

  observe(name: HistogramName, labels: MetricLabels, value: number): void {
    const histogram = this.#histograms.get(name);
    histogram?.observe({ ...labels }, value);
    if (histogram) this.#series.add(histogram, labels);
  }

  /** Sets all series of a gauge that is read at each scrape, and removes its other series. */
  replace(name: GaugeName, series: Iterable<readonly [labels: MetricLabels, value: number]>): void {
    const gauge = this.#gauges.get(name);
    if (!gauge) return;
    const gone = new Set(this.#series.of(gauge));
    gauge.reset();
    for (const [labels, value] of series) {
      gauge.set({ ...labels }, value);
      gone.delete(this.#series.add(gauge, labels));
    }
    for (const each of gone) this.#series.remove(each);
  }

  async forget(labels: MetricLabels): Promise<void> {
    for (const series of this.#series.with(labels)) {
      series.metric.remove({ ...series.labels });
      this.#series.remove(series);
    }
  }
}

type LabelledMetric = Counter | Gauge | Histogram;

interface IndexedSeries {
  readonly metric: LabelledMetric;
  readonly labels: MetricLabels;
  readonly id: string;
}

/**
 * The series of all metrics by the values of their labels. The removal of a controller must not take longer because of
 * the series of the other controllers.
 */
class SeriesIndex {
  readonly #byMetric = new Map<LabelledMetric, Map<string, IndexedSeries>>();
  readonly #byLabel = new Map<string, Set<IndexedSeries>>();

  /** The same labels in another order count as another series: both are removed with the first. */
  add(metric: LabelledMetric, labels: MetricLabels): IndexedSeries {
    const known = this.#byMetric.get(metric) ?? new Map<string, IndexedSeries>();
    let id = '';
    for (const [label, value] of Object.entries(labels)) id += `${label}\n${value}\n`;
    const found = known.get(id);
    if (found) return found;
    const added = { metric, labels, id };
    this.#byMetric.set(metric, known.set(id, added));
    for (const label of Object.entries(labels)) {
      const name = label.join('\n');
      this.#byLabel.set(name, (this.#byLabel.get(name) ?? new Set()).add(added));
    }
    return added;
  }

  remove(series: IndexedSeries): void {
    this.#byMetric.get(series.metric)?.delete(series.id);
    for (const label of Object.entries(series.labels)) {
      const name = label.join('\n');
      const found = this.#byLabel.get(name);
      found?.delete(series);
      if (found?.size === 0) this.#byLabel.delete(name);
    }
  }

  of(metric: LabelledMetric): Iterable<IndexedSeries> {
    return this.#byMetric.get(metric)?.values() ?? [];
  }

  /** The series that have all of these labels. */
  with(labels: MetricLabels): IndexedSeries[] {
    const [first, ...others] = Object.entries(labels).map((label) => this.#byLabel.get(label.join('\n')));
    return [...(first ?? [])].filter((series) => others.every((each) => each?.has(series)));
  }
}

function entries<K extends string, V>(record: Readonly<Record<K, V>>): [K, V][] {
  return Object.entries(record) as [K, V][];
}
