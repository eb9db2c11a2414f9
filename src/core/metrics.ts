import type { METRICS } from './metric-definitions.ts';

/** A metric's labels: few and bounded. Never a namespace, name or UID. */
export type MetricLabels = Readonly<Record<string, string>>;

/**
 * The port through which every component counts. Names and labels are those of `METRICS`. The gateway implements it
 * with prom-client (`gateway/process/metrics`); tests count nothing.
 */
export interface Metrics {
  /** Adds to a counter. */
  count(name: CounterName, labels: MetricLabels, by?: number): void;
  /** Sets a gauge. */
  set(name: GaugeName, labels: MetricLabels, value: number): void;
  /** Records one observation, in the unit that the name ends with: seconds or bytes. */
  observe(name: HistogramName, labels: MetricLabels, value: number): void;
  /** Removes every series that carries these labels, when the labelled thing no longer exists. */
  forget(labels: MetricLabels): Promise<void>;
}

export const silentMetrics: Metrics = { count() {}, set() {}, observe() {}, forget: async () => {} };

export type CounterName = keyof typeof METRICS.counters;
export type GaugeName = keyof typeof METRICS.gauges;
export type HistogramName = keyof typeof METRICS.histograms;
