import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { traceFields, type TracedRun, type TracedTrigger } from '../../../src/core/index.ts';
import { OpenTelemetryTraces, type TracesOptions } from '../../../src/gateway/process/opentelemetry-traces.ts';
import { TracedChanges } from '../../../src/gateway/process/traced-changes.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';
import { type CollectedSpan, TraceCollector } from '../../harness/trace-collector.ts';

const ID = '1b4e28ba-2fa1-41d2-883f-b9a761bde3fb';
const TRACE_ID = ID.replaceAll('-', '');
const CHANGE = 'v1/ConfigMap shop/cart 42';

const run: TracedRun = { key: 'shop/cart', run: 7, attempt: 1, reasons: [], wokenBy: [], outcome: 'done', wrote: [] };
const trigger: TracedTrigger = {
  id: ID,
  controller: 'shop.web',
  sentMs: 1_800_000_005_000,
  answeredMs: 1_800_000_005_250,
  runs: [
    {
      ...run,
      attempt: 2,
      waitedMs: 1500,
      reasons: ['updated v1/Pod shop/cart-0 41'],
      wokenBy: ['v1/Pod shop/cart-0 41'],
      wrote: [CHANGE],
    },
    { ...run, key: 'shop/desk', run: 8, outcome: 'error', error: 'x'.repeat(5000) },
  ],
};
const writer = { ...trigger, runs: [{ ...run, key: 'shop/writer', wrote: [CHANGE] }] };
const woken = {
  ...trigger,
  id: '7b4e28ba-2fa1-41d2-883f-b9a761bde3fc',
  runs: [{ ...run, key: 'shop/woken', wokenBy: [CHANGE] }],
};

let started: Started;
let collector: TraceCollector;

beforeEach(async () => {
  started = new Started();
  collector = await started.open(new TraceCollector());
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await started.stop();
});

async function startTraces(options: Partial<TracesOptions> = {}): Promise<OpenTelemetryTraces> {
  const url = 'https://traces.example.com/?id={traceId}';
  const all = { collector: `${collector.url}/v1/traces`, ratio: 1, url, version: '1.2.3', ...options };
  const traces = new OpenTelemetryTraces(all);
  await traces.start();
  return traces;
}

function spanOf(name: string): CollectedSpan | undefined {
  return collector.spans.find((span) => span.name === name);
}

describe('the trace of a trigger', () => {
  it('has the ID of the trigger, its keys from their events on, and the request to the function', async () => {
    vi.stubEnv('OTEL_SERVICE_NAME', 'gateway-of-shop');
    const traces = await startTraces();
    traces.record(trigger);
    expect(traces.traceparent(ID)).toBe(`00-${TRACE_ID}-883fb9a761bde3fb-01`);
    expect(traceFields(traces.traceparent(ID))).toEqual({ trace_id: TRACE_ID, span_id: '883fb9a761bde3fb' });
    expect(traces.urlOf(ID)).toBe(`https://traces.example.com/?id=${TRACE_ID}`);
    await traces.stop();

    const names = collector.spans.map(({ name }) => name).toSorted();
    expect(names).toEqual(['reconcile shop.web', 'shop/cart', 'shop/desk', 'trigger', 'wait in the queue']);
    for (const span of collector.spans) expect(span).toMatchObject({ traceId: TRACE_ID, service: 'gateway-of-shop' });
    const [root, cart] = [spanOf('reconcile shop.web'), spanOf('shop/cart')];
    const queuedMs = trigger.sentMs - 1500;
    expect(root).toMatchObject({ parentSpanId: '', startMs: queuedMs, endMs: trigger.answeredMs });
    expect(cart).toMatchObject({ parentSpanId: root?.spanId, attributes: { 'levelhook.wrote': CHANGE } });
    expect(spanOf('wait in the queue')).toMatchObject({
      parentSpanId: cart?.spanId,
      startMs: queuedMs,
      endMs: trigger.sentMs,
    });
    expect(spanOf('trigger')).toMatchObject({
      spanId: '883fb9a761bde3fb',
      parentSpanId: root?.spanId,
      startMs: trigger.sentMs,
      endMs: trigger.answeredMs,
    });
    expect(spanOf('shop/desk')?.error).toBe('x'.repeat(1024));
  });

  it('is recorded for a part of the triggers, and none before the start', async () => {
    const traces = new OpenTelemetryTraces({ collector: collector.url, ratio: 1, url: 'https://x/', version: '1' });
    expect(traces.traceparent(ID)).toBeUndefined();
    traces.record(trigger);
    const none = await startTraces({ ratio: 0 });
    none.record(trigger);
    expect(none.traceparent(ID)).toBeUndefined();
    expect(none.urlOf(ID)).toBeUndefined();
    await Promise.all([traces.stop(), none.stop()]);
    expect(collector.spans).toEqual([]);
  });
});

describe('traces of one change, recorded by two gateways', () => {
  let redis: Redis[];

  beforeEach(() => {
    redis = [1, 2].map(() => new Redis(inject('redisUrl')));
    started.add(async () => redis.forEach((connection) => connection.disconnect()));
  });

  /** Each trigger is recorded by a gateway of its own, one after the other. */
  async function recordEach(triggers: readonly TracedTrigger[], keyPrefix = uniqueName('traces')): Promise<void> {
    for (const [at, each] of triggers.entries()) {
      const connection = redis[at % redis.length] as Redis;
      await connection.ping();
      const traces = await startTraces();
      traces.linkThrough(new TracedChanges(redisLocation(connection, keyPrefix, 'c')));
      traces.record(each);
      await traces.stop();
    }
  }

  it.each([
    ['the run that made it, by the run that it has woken', [writer, woken]],
    ['the run that it has woken, by the run that made it', [woken, writer]],
  ])('link %s', async (_, [first, second]) => {
    await recordEach([first as TracedTrigger, second as TracedTrigger]);
    const [linked, linking] = [first, second].map((each) => spanOf(each?.runs[0]?.key ?? ''));
    expect(linked?.links).toEqual([]);
    expect(linking?.links).toMatchObject([{ traceId: linked?.traceId, spanId: linked?.spanId }]);
  });

  it('keep a bound: a function decides how many changes there are, and how many runs one of them wakes', async () => {
    const keyPrefix = uniqueName('traces');
    const wrote = Array.from({ length: 7000 }, (_, at) => `${CHANGE}-${at}`);
    const large = Array.from({ length: 32 }, (_, at) => `v1/ConfigMap shop/large-${at} ${'1'.repeat(300_000)}`);
    const runs = Array.from({ length: 12 }, (_, at) => ({ ...run, key: `shop/${at}`, wokenBy: [CHANGE] }));
    await recordEach(
      [
        { ...writer, runs: [{ ...run, wrote: [...large, ...wrote] }] },
        { ...woken, runs },
      ],
      keyPrefix,
    );
    await recordEach([writer], keyPrefix);
    expect(spanOf('shop/writer')?.links).toHaveLength(9);
    const { registryKey } = redisLocation(redis[0] as Redis, keyPrefix, 'c');
    for (const key of [`${registryKey}:changes`, `${registryKey}:changes:full`]) {
      expect(await redis[0]?.hlen(key)).toBeLessThanOrEqual(5000);
      expect(await redis[0]?.ttl(key)).toBeGreaterThan(0);
      expect(await redis[0]?.memory('USAGE', key, 'SAMPLES', 0)).toBeLessThan(5_000_000);
    }
  });

  it('are recorded without links while Redis is away', async () => {
    for (const connection of redis) connection.disconnect();
    const traces = await startTraces();
    traces.linkThrough(new TracedChanges(redisLocation(redis[0] as Redis, uniqueName('traces'), 'c')));
    traces.record(writer);
    await traces.stop();
    expect(spanOf('shop/writer')?.links).toEqual([]);
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
