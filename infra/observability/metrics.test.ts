import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type CounterName, type GaugeName, type HistogramName, METRICS } from '../../src/core/index.ts';
import { PrometheusMetrics } from '../../src/gateway/process/metrics.ts';
import { LIBRARY_METRICS, type LibraryMetric } from './library-metrics.ts';
import { metricsTable } from './metrics-table.ts';

interface Exposed {
  readonly type: string;
  readonly labels: ReadonlySet<string>;
  readonly buckets: readonly number[];
}

/** What a gateway exposes once each of its metrics has one series, read from the text that Prometheus gets. */
async function exposed(): Promise<Map<string, Exposed>> {
  const metrics = new PrometheusMetrics();
  const labelled = ({ labels }: { readonly labels: readonly string[] }): Record<string, string> =>
    Object.fromEntries(labels.map((label) => [label, 'x']));
  for (const [name, each] of Object.entries(METRICS.counters)) metrics.count(name as CounterName, labelled(each));
  for (const [name, each] of Object.entries(METRICS.gauges)) metrics.set(name as GaugeName, labelled(each), 1);
  for (const [name, each] of Object.entries(METRICS.histograms)) {
    metrics.observe(name as HistogramName, labelled(each), 1);
  }
  const found = new Map<string, { type: string; labels: Set<string>; buckets: number[] }>();
  let current: { labels: Set<string>; buckets: number[] } | undefined;
  for (const line of (await metrics.registry.metrics()).split('\n')) {
    const type = /^# TYPE (\S+) (\S+)$/.exec(line);
    if (type) {
      const [, name = '', kind = ''] = type;
      const each = { type: kind, labels: new Set<string>(), buckets: [] };
      found.set(name, each);
      current = each;
    }
    if (!current || line === '' || line.startsWith('#')) continue;
    for (const [, label = '', value = ''] of line.matchAll(/([a-z_]+)="([^"]*)"/g)) {
      if (label !== 'le') current.labels.add(label);
      else if (value !== '+Inf') current.buckets.push(Number(value));
    }
  }
  return found;
}

const all = LIBRARY_METRICS.flatMap(({ module, file, metrics }) =>
  metrics.map((metric) => ({ ...metric, source: `${module}/${file}` })),
);
const byName = Map.groupBy(all, ({ name }) => name);
const wanted = [...byName].filter(([, uses]) => uses.every(({ meaningless }) => meaningless === undefined));
const meaningless = [...byName].filter(([, uses]) => uses.some((each) => each.meaningless !== undefined));
const gateway = await exposed();

/** Where the libraries differ, what both have. */
const union = <T>(uses: readonly LibraryMetric[], of: (metric: LibraryMetric) => readonly T[]): Set<T> =>
  new Set(uses.flatMap((use) => [...of(use)]));

describe('the gateway has each metric of client-go 1.36 and controller-runtime 0.25 that means something here', () => {
  it.each(wanted)('%s', (name, uses) => {
    const ours = gateway.get(name);
    const sources = uses.map(({ source }) => source).join(', ');
    expect(ours, `${name} of ${sources} is missing`).toBeDefined();
    for (const { type, source } of uses) expect(ours?.type, `the type of ${name} in ${source}`).toBe(type);
    expect(ours?.labels, `the labels of ${name} in ${sources}`).toEqual(union(uses, ({ labels }) => labels));
    const buckets = union(uses, (use) => use.buckets ?? []);
    expect(ours?.buckets, `the buckets of ${name} in ${sources}`).toEqual([...buckets].toSorted((a, b) => a - b));
  });

  it.each(meaningless)('%s, which means nothing here, is not pretended', (name, uses) => {
    for (const use of uses) expect(use.meaningless, `a reason in each place of ${name}`).toMatch(/\.$/);
    expect(gateway.has(name)).toBe(false);
  });

  it('and every other metric of the gateway has a name of its own', () => {
    const others = [METRICS.counters, METRICS.gauges, METRICS.histograms]
      .flatMap((each) => Object.keys(each))
      .filter((name) => !byName.has(name));
    expect(others.filter((name) => !name.startsWith('levelhook_'))).toEqual([]);
    expect(wanted.length).toBeGreaterThan(35);
    expect(meaningless.length).toBeGreaterThan(10);
  });
});

it('the README lists all of them (npm run update-metrics)', () => {
  const path = join(import.meta.dirname, 'README.md');
  const text = readFileSync(path, 'utf8');
  const [begin, end] = ['<!-- metrics: begin -->\n', '<!-- metrics: end -->'];
  const [before = '', rest = ''] = text.split(begin);
  const [, after = ''] = rest.split(end);
  const written = `${before}${begin}\n${metricsTable()}\n${end}${after}`;
  if (process.env['UPDATE_METRICS'] === '1') writeFileSync(path, written);
  expect(squeezed(readFileSync(path, 'utf8'))).toBe(squeezed(written));
});

/** Prettier pads the columns of a table. */
function squeezed(text: string): string {
  return text.replace(/ +/g, ' ').replace(/-{3,}/g, '---');
}
