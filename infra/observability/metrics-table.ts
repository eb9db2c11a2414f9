import { METRICS } from '../../src/core/index.ts';
import { LIBRARY_METRICS } from './library-metrics.ts';

interface Documented {
  readonly help: string;
  readonly labels: readonly string[];
}

/** Two tables of Markdown: the metrics of a gateway, and the metrics of the libraries that a gateway lacks. */
export function metricsTable(): string {
  const ours = [
    ...rows(METRICS.counters, 'counter'),
    ...rows(METRICS.gauges, 'gauge'),
    ...rows(METRICS.histograms, 'histogram'),
  ].toSorted();
  const reasons = new Map<string, string>();
  for (const { metrics } of LIBRARY_METRICS) {
    for (const { name, meaningless } of metrics) if (meaningless !== undefined) reasons.set(name, meaningless);
  }
  const without = [...reasons].map(([name, reason]) => `| \`${name}\` | ${reason} |`);
  return [
    '| metric | type | labels | what it shows |',
    '| --- | --- | --- | --- |',
    ...ours,
    '',
    'The gateway does not have these metrics of the two libraries, because they would mean nothing here:',
    '',
    '| metric | why not |',
    '| --- | --- |',
    ...without,
    '',
  ].join('\n');
}

function rows(metrics: Readonly<Record<string, Documented>>, type: string): string[] {
  return Object.entries(metrics).map(([name, { help, labels }]) => {
    const listed = labels.map((label) => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${type} | ${listed} | ${help.replaceAll('<error>', '`<error>`')} |`;
  });
}
