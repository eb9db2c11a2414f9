import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { traceFields, type TracedRun, type TracedTrigger } from '../../core/index.ts';
import { OpenTelemetryTraces } from './opentelemetry-traces.ts';

const ID = '1b4e28ba-2fa1-41d2-883f-b9a761bde3fb';
const TRACE_ID = ID.replaceAll('-', '');
const options = { ratio: 1, url: 'https://traces.example.com/?id={traceId}', version: '1.2.3' };

const trigger: TracedTrigger = {
  id: ID,
  controller: 'shop.web',
  sentMs: 1_800_000_005_000,
  answeredMs: 1_800_000_005_250,
  runs: [
    {
      key: 'shop/cart',
      run: 7,
      attempt: 2,
      waitedMs: 1500,
      reasons: ['updated v1/Pod shop/cart-0 41'],
      wokenBy: ['v1/Pod shop/cart-0 41'],
      outcome: 'done',
      wrote: ['v1/ConfigMap shop/cart 42'],
    },
    {
      key: 'shop/desk',
      run: 8,
      attempt: 1,
      reasons: [],
      wokenBy: [],
      outcome: 'error',
      error: 'x'.repeat(5000),
      wrote: [],
    },
  ],
};

interface ExportedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: unknown }[];
  readonly status: { readonly message?: string };
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
}

interface Exported {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly { readonly key: string; readonly value: unknown }[] };
    readonly scopeSpans: readonly { readonly spans: readonly ExportedSpan[] }[];
  }[];
}

/** What a collector gets while `work` goes on. */
async function collected(work: (collector: string) => Promise<void>): Promise<Exported[]> {
  const bodies: Exported[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    bodies.push((await json(request)) as Exported);
    response.setHeader('content-type', 'application/json').end('{}');
  };
  const server = createServer((request, response) => void take(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`);
    return bodies;
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('the trace of a trigger', () => {
  it('has the ID of the trigger, its keys from their events on, and the request to the function', async () => {
    const bodies = await collected(async (collector) => {
      vi.stubEnv('OTEL_SERVICE_NAME', 'gateway-of-shop');
      const traces = new OpenTelemetryTraces({ ...options, collector });
      await traces.start();
      traces.record(trigger);
      expect(traces.traceparent(ID)).toBe(`00-${TRACE_ID}-883fb9a761bde3fb-01`);
      expect(traceFields(traces.traceparent(ID))).toEqual({ trace_id: TRACE_ID, span_id: '883fb9a761bde3fb' });
      expect(traces.urlOf(ID)).toBe(`https://traces.example.com/?id=${TRACE_ID}`);
      await traces.stop();
    });
    const resources = bodies.flatMap(({ resourceSpans }) => resourceSpans);
    const names = resources.flatMap(({ resource }) => resource.attributes).filter(({ key }) => key === 'service.name');
    expect(names).toEqual([{ key: 'service.name', value: { stringValue: 'gateway-of-shop' } }]);
    const spans = resources.flatMap(({ scopeSpans }) => scopeSpans).flatMap((each) => each.spans);
    const byName = new Map(spans.map((span) => [span.name, span]));
    expect([...byName.keys()].toSorted()).toEqual([
      'reconcile shop.web',
      'shop/cart',
      'shop/desk',
      'trigger',
      'wait in the queue',
    ]);
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE_ID]));
    const root = byName.get('reconcile shop.web');
    const cart = byName.get('shop/cart');
    const times = (name: string): string[] => {
      const { startTimeUnixNano = '', endTimeUnixNano = '' } = byName.get(name) ?? {};
      return [startTimeUnixNano, endTimeUnixNano];
    };
    expect(root?.parentSpanId).toBeUndefined();
    expect(times('reconcile shop.web')).toEqual(['1800000003500000000', '1800000005250000000']);
    expect(times('wait in the queue')).toEqual(['1800000003500000000', '1800000005000000000']);
    expect(byName.get('wait in the queue')?.parentSpanId).toBe(cart?.spanId);
    expect(byName.get('trigger')).toMatchObject({ spanId: '883fb9a761bde3fb', parentSpanId: root?.spanId });
    expect(times('trigger')).toEqual(['1800000005000000000', '1800000005250000000']);
    expect(cart?.attributes).toContainEqual({
      key: 'levelhook.wrote',
      value: { arrayValue: { values: [{ stringValue: 'v1/ConfigMap shop/cart 42' }] } },
    });
    expect(byName.get('shop/desk')?.status.message).toBe('x'.repeat(1024));
  });

  it('is linked with the trace of the run whose write has woken it, whichever is recorded first', async () => {
    const change = 'v1/ConfigMap shop/cart 42';
    const other = { ...trigger, id: '7b4e28ba-2fa1-41d2-883f-b9a761bde3fc', controller: 'shop.desk' };
    const [quiet] = trigger.runs.slice(1);
    const writer = { ...trigger, runs: [{ ...(quiet as TracedRun), key: 'shop/writer', wrote: [change] }] };
    const woken = { ...other, runs: [{ ...(quiet as TracedRun), key: 'shop/woken', wokenBy: [change] }] };
    for (const order of [
      [writer, woken],
      [woken, writer],
    ]) {
      const bodies = await collected(async (collector) => {
        const traces = new OpenTelemetryTraces({ ...options, collector });
        await traces.start();
        for (const each of order) traces.record(each);
        await traces.stop();
      });
      const spans = bodies.flatMap(({ resourceSpans }) => resourceSpans).flatMap(({ scopeSpans }) => scopeSpans);
      const byName = new Map(spans.flatMap((each) => each.spans).map((span) => [span.name, span]));
      const [first, second] = order.map(({ runs: [run] }) => byName.get(run?.key ?? ''));
      expect(first?.links).toEqual([]);
      expect(second?.links).toMatchObject([{ traceId: first?.traceId, spanId: first?.spanId }]);
    }
  });

  it('is recorded for a part of the triggers, and none before the start', async () => {
    const bodies = await collected(async (collector) => {
      const traces = new OpenTelemetryTraces({ ...options, collector, ratio: 0 });
      expect(traces.traceparent(ID)).toBeUndefined();
      await traces.start();
      traces.record(trigger);
      expect(traces.traceparent(ID)).toBeUndefined();
      expect(traces.urlOf(ID)).toBeUndefined();
      await traces.stop();
    });
    expect(bodies).toEqual([]);
  });
});

describe('a line of the log', () => {
  it.each([
    undefined,
    null,
    '',
    '00-1-2-01',
    `00-${TRACE_ID}-883fb9a761bde3fb-00`,
    `00-${TRACE_ID}-883fb9a761bde3fb-01x`,
  ])('names no trace for %j', (traceparent) => {
    expect(traceFields(traceparent)).toEqual({});
  });
});
