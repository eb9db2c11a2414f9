import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { describe, expect } from 'vitest';
import { greeting } from '../../../functions/examples/01-minimal/greeting.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { openFunction } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

interface Exported {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly { readonly name: string; readonly traceId: string }[] }[];
  }[];
}

describe('a gateway with a collector of OpenTelemetry', () => {
  const spans: { readonly name: string; readonly traceId: string }[] = [];
  let url: string;

  it.beforeAll(async ({ world }) => {
    const { setting, started } = world;
    const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const { resourceSpans } = (await json(request)) as Exported;
      spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans).flatMap((scope) => scope.spans));
      response.setHeader('content-type', 'application/json').end('{}');
    };
    const collector = createServer((request, response) => void take(request, response));
    await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
    started.add(async () => {
      collector.closeAllConnections();
      await new Promise((resolve) => collector.close(resolve));
    });
    const fn = started.keep(await openFunction(setting, [greeting]));
    ({ url } = await world.gateway([`${fn.url}/greeting`], {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
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
    await eventually(async () => expect(spans.map(({ name }) => name)).toContain(key));
    const runs = `${url}/queues/greeting/runs?key=${encodeURIComponent(key)}`;
    const { runs: all } = (await (await fetch(runs)).json()) as { runs: { run: number; reconcileId?: string }[] };
    const traced = new Set(spans.filter(({ name }) => name === key).map(({ traceId }) => traceId));
    const run = all.find(({ reconcileId = '' }) => traced.has(reconcileId.replaceAll('-', '')));
    expect(run).toBeDefined();
    const traceId = run?.reconcileId?.replaceAll('-', '') ?? '';
    const names = spans.filter((span) => span.traceId === traceId).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['reconcile greeting', key, 'trigger']));
    const page = await fetch(`${url}/dashboard/controllers/greeting/runs/${run?.run}/${key}`);
    expect(await page.text()).toContain(`https://traces.example.com/?id=${traceId}`);
  });
});
