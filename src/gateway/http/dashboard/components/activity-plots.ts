import { SAMPLE_MS } from '../../../controller/workqueue/history/samples.ts';
import type { Sample } from '../../../controller/workqueue/work-queue.ts';
import { activityOf, type Span } from '../activity.ts';
import { type Content, formatCount, html, type Html } from '../html.ts';
import { formatDuration } from '../times.ts';
import { plot, type PlotLine } from './plot.ts';

/** The runs of the last hour in a line of a table. */
export function runsSpark(samples: readonly Sample[]): Html {
  const runs = samples.reduce((sum, each) => sum + each.runs, 0);
  if (runs === 0) return html`<span class="zero">no runs in an hour</span>`;
  return plot('spark', `${formatCount(runs)} runs in the last hour`, runLines(samples));
}

/** The last hour of a controller in four plots. */
export function activityPlots(samples: readonly Sample[]): Html {
  const { perMinute, failedShare, tookMs, waitedMs } = activityOf(samples, SAMPLE_MS);
  const waiting: PlotLine = { values: samples.map((each) => each.waiting), look: 'line', area: true };
  const spans = (of: (sample: Sample) => Span | undefined): PlotLine[] => [
    { values: samples.map((each) => of(each)?.p99), look: 'line', area: true },
    { values: samples.map((each) => of(each)?.p50), look: 'line' },
  ];
  return html`<div class="body plots">
    ${figure('Runs', `${rateText(perMinute)}, ${shareText(failedShare)} failed`, plot('plot', 'Runs and failed runs in the last hour', runLines(samples)))}
    ${figure(
      'Run, p50 and p99',
      spanText(tookMs),
      plot(
        'plot',
        'Duration of runs in the last hour',
        spans((each) => each.tookMs),
      ),
    )}
    ${figure(
      'Event to run, p50 and p99',
      spanText(waitedMs),
      plot(
        'plot',
        'Wait before runs in the last hour',
        spans((each) => each.waitedMs),
      ),
    )}
    ${figure('Keys waiting', formatCount(samples.at(-1)?.waiting ?? 0), plot('plot', 'Keys waiting in the last hour', [waiting]))}
  </div>`;
}

function figure(name: string, now: Content, drawing: Html): Html {
  return html`<figure>
    <figcaption><span>${name}</span> <b>${now}</b></figcaption>
    ${drawing}
  </figure>`;
}

function runLines(samples: readonly Sample[]): PlotLine[] {
  const failed = samples.map((each) => each.failed);
  return [
    { values: samples.map((each) => each.runs), look: 'line', area: true },
    ...(failed.some((each) => each > 0) ? [{ values: failed, look: 'failed' as const }] : []),
  ];
}

/** `12/min`. */
export function rateText(perMinute: number): string {
  if (perMinute === 0) return '0/min';
  return perMinute < 10 ? `${perMinute.toFixed(1)}/min` : `${formatCount(perMinute)}/min`;
}

/** `2.5 %`. */
export function shareText(share: number | undefined): string {
  if (share === undefined || share === 0) return '0 %';
  return `${share < 0.1 ? (share * 100).toFixed(1) : Math.round(share * 100)} %`;
}

/** `12 ms / 300 ms`. */
export function spanText(span: Span | undefined): string {
  return span ? `${formatDuration(span.p50)} / ${formatDuration(span.p99)}` : '–';
}
