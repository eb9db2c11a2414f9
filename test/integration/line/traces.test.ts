import { describe, expect } from 'vitest';
import { greeting } from '../../../functions/examples/01-minimal/greeting.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { openFunction } from '../../harness/opened.ts';
import { TraceCollector } from '../../harness/trace-collector.ts';
import { it } from '../../harness/world.ts';

describe('a gateway with a collector of OpenTelemetry', () => {
  let collector: TraceCollector;
  let url: string;

  it.beforeAll(async ({ world }) => {
    const { setting, started } = world;
    collector = await started.open(new TraceCollector());
    const fn = started.keep(await openFunction(setting, [greeting]));
    ({ url } = await world.gateway([`${fn.url}/greeting`], {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      LEVELHOOK_TRACE_URL: 'https://traces.example.com/?id={traceId}',
    }));
  });

  it('sends the trace of a run, to which the page of the run links', async ({ world }) => {
    const { cluster, namespace } = world;
    const key = `${namespace}/ann`;
    await cluster.create(configMaps, {
      metadata: { namespace, name: 'ann', labels: { greet: 'true' } },
      data: { name: 'Ann' },
    });
    await eventually(async () => expect(collector.spans.map(({ name }) => name)).toContain(key));
    const runs = `${url}/queues/greeting/runs?key=${encodeURIComponent(key)}`;
    const { runs: all } = (await (await fetch(runs)).json()) as { runs: { run: number; reconcileId?: string }[] };
    const traced = new Set(collector.spans.filter(({ name }) => name === key).map(({ traceId }) => traceId));
    const run = all.find(({ reconcileId = '' }) => traced.has(reconcileId.replaceAll('-', '')));
    expect(run).toBeDefined();
    const traceId = run?.reconcileId?.replaceAll('-', '') ?? '';
    const names = collector.spans.filter((span) => span.traceId === traceId).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['reconcile greeting', key, 'trigger']));
    const page = await fetch(`${url}/dashboard/controllers/greeting/runs/${run?.run}/${key}`);
    expect(await page.text()).toContain(`https://traces.example.com/?id=${traceId}`);
  });
});
