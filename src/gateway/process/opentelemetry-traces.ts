import { randomBytes } from 'node:crypto';
import type { Attributes, Link, SpanContext, Tracer } from '@opentelemetry/api';
import {
  NewestMap,
  spanIdOf,
  type TracedRun,
  type TracedTrigger,
  traceIdOf,
  type Traces,
  withoutPackage,
} from '../../core/index.ts';

export interface TracesOptions {
  /** Where the collector takes traces: the whole URL. */
  readonly collector: string;
  /** The part of all triggers that is recorded, from 0 to 1. The ID of a trace decides. */
  readonly ratio: number;
  /** The page that shows a trace, with `{traceId}` in it. Undefined: there is none. */
  readonly url: string | undefined;
  /** Of this build. */
  readonly version: string;
}

/** The parts of OpenTelemetry's own packages, which are loaded when traces are on. */
type Packages = Awaited<ReturnType<typeof loadPackages>>;

/** A longer text of an error or a name is cut. */
const MOST_CHARACTERS = 1024;
/** Changes whose spans are remembered, some 2 KB each, and runs that one of them has woken. */
const MOST_CHANGES = 5000;
const MOST_WOKEN = 8;
/** Of one run, because its function decides what it has written. */
const MOST_LINKS = 32;
const MOST_WRITES = 5;

/**
 * Sends the spans of triggers to a collector by OTLP over HTTP. OpenTelemetry's packages read further settings
 * themselves (`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` and others). Spans are sent
 * in the background, at most 2,048 of them wait, and those of a collector that is away are lost: nothing waits for it.
 *
 * A trace is `reconcile CONTROLLER` with, for each run, its key from the event to the answer and its wait in the queue;
 * and the request to the function, which the function's own spans and those of the apiserver join. All are recorded
 * when the trigger has been answered, so a trigger holds nothing while it is under way.
 *
 * A run that was woken by the write of another one is linked with it, so that a rollout can be followed from
 * controller to controller. Whichever is recorded later has the link. A gateway links the runs that it has sent itself
 * and that have ended with their answer; a deletion links none.
 */
export class OpenTelemetryTraces implements Traces {
  readonly #options: TracesOptions;
  #packages: Packages | undefined;
  #isSampled: (traceId: string) => boolean = () => false;
  #tracer: Tracer | undefined;
  #stop: () => Promise<void> = async () => {};
  /** The spans of the last runs that have written an object at a version, and that were woken by it. */
  readonly #writers = new NewestMap<string, SpanContext>(MOST_CHANGES);
  readonly #woken = new NewestMap<string, SpanContext[]>(MOST_CHANGES);
  /** The IDs of the next span. Empty: any. */
  readonly #next = { traceId: '', spanId: '' };

  constructor(options: TracesOptions) {
    this.#options = options;
  }

  /** Nothing is recorded before this. @throws UserError when a package is missing. */
  async start(): Promise<void> {
    const { collector, ratio, version } = this.#options;
    const packages = await loadPackages();
    const { api, exporter, resources, sdk } = packages;
    const sampler = new sdk.TraceIdRatioBasedSampler(ratio);
    const next = this.#next;
    const provider = new sdk.TracerProvider({
      sampler,
      spanLimits: { attributeValueLengthLimit: MOST_CHARACTERS },
      resource: resources
        .resourceFromAttributes({ 'service.name': 'levelhook-gateway', 'service.version': version })
        .merge(resources.detectResources({ detectors: [resources.envDetector] })),
      idGenerator: {
        generateTraceId: () => next.traceId || randomBytes(16).toString('hex'),
        generateSpanId: () => next.spanId || randomBytes(8).toString('hex'),
      },
      spanProcessors: [new sdk.BatchSpanProcessor({ exporter: new exporter.OTLPTraceExporter({ url: collector }) })],
    });
    this.#isSampled = (traceId) => {
      const { decision } = sampler.shouldSample(api.ROOT_CONTEXT, traceId);
      return decision === sdk.SamplingDecision.RECORD_AND_SAMPLED;
    };
    this.#stop = () => provider.shutdown();
    this.#tracer = provider.getTracer('levelhook', version);
    this.#packages = packages;
  }

  /** Sends what waits. */
  async stop(): Promise<void> {
    // A collector that is away must not keep the gateway.
    await this.#stop().catch(() => {});
  }

  traceparent(id: string): string | undefined {
    const traceId = traceIdOf(id);
    return this.#isSampled(traceId) ? `00-${traceId}-${spanIdOf(id)}-01` : undefined;
  }

  urlOf(id: string): string | undefined {
    const { url } = this.#options;
    const traceId = traceIdOf(id);
    return url !== undefined && this.#isSampled(traceId) ? url.replaceAll('{traceId}', traceId) : undefined;
  }

  record({ id, controller, sentMs, answeredMs, runs }: TracedTrigger): void {
    const [tracer, packages] = [this.#tracer, this.#packages];
    if (!tracer || !packages || this.traceparent(id) === undefined) return;
    const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = packages.api;
    const queuedMs = (waitedMs = 0): number => sentMs - waitedMs;
    const from = Math.min(...runs.map(({ waitedMs }) => queuedMs(waitedMs)));
    const attributes = { 'levelhook.controller': controller, 'levelhook.reconcile_id': id };
    this.#next.traceId = traceIdOf(id);
    const root = tracer.startSpan(`reconcile ${controller}`, { attributes, startTime: from, root: true }, ROOT_CONTEXT);
    this.#next.traceId = '';
    const within = trace.setSpan(ROOT_CONTEXT, root);
    for (const each of runs) {
      const { key, run, attempt, waitedMs, reasons, outcome, error, wrote } = each;
      const startTime = queuedMs(waitedMs);
      const facts: Attributes = {
        'levelhook.key': key,
        'levelhook.run': run,
        'levelhook.attempt': attempt,
        'levelhook.reasons': [...reasons],
        'levelhook.outcome': outcome,
        'levelhook.wrote': wrote.slice(0, MOST_WRITES),
      };
      const span = tracer.startSpan(key, { attributes: facts, startTime }, within);
      span.addLinks(this.#linksOf(each, span.spanContext()));
      if (waitedMs) tracer.startSpan('wait in the queue', { startTime }, trace.setSpan(ROOT_CONTEXT, span)).end(sentMs);
      if (error !== undefined) {
        const message = error.slice(0, MOST_CHARACTERS);
        for (const failed of [span, root]) failed.setStatus({ code: SpanStatusCode.ERROR, message });
      }
      span.end(answeredMs);
    }
    this.#next.spanId = spanIdOf(id);
    const sent = tracer.startSpan('trigger', { kind: SpanKind.CLIENT, startTime: sentMs }, within);
    this.#next.spanId = '';
    sent.end(answeredMs);
    root.end(answeredMs);
  }

  /** Links to the runs whose writes have woken this run, and to those that its own writes have woken already. */
  #linksOf({ wokenBy, wrote }: TracedRun, own: SpanContext): Link[] {
    const links: Link[] = [];
    for (const change of wokenBy) {
      const writer = this.#writers.get(change);
      if (writer) links.push({ context: writer, attributes: { 'levelhook.woken_by': change } });
      const woken = this.#woken.get(change) ?? [];
      if (woken.length < MOST_WOKEN) this.#woken.set(change, [...woken, own]);
    }
    for (const change of wrote) {
      this.#writers.set(change, own);
      for (const context of this.#woken.get(change) ?? []) {
        if (links.length >= MOST_LINKS) break;
        links.push({ context, attributes: { 'levelhook.has_woken': change } });
      }
    }
    return links;
  }
}

async function loadPackages() {
  const [api, sdk, exporter, resources] = await Promise.all([
    import('@opentelemetry/api').catch(withoutPackage('@opentelemetry/api')),
    import('@opentelemetry/sdk-trace').catch(withoutPackage('@opentelemetry/sdk-trace')),
    import('@opentelemetry/exporter-trace-otlp-http').catch(withoutPackage('@opentelemetry/exporter-trace-otlp-http')),
    import('@opentelemetry/resources').catch(withoutPackage('@opentelemetry/resources')),
  ]);
  return { api, sdk, exporter, resources };
}
